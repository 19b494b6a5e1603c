"""The lamps of the harbour, in the order in which they are lit."""

LAMPS = ["west mole", "east mole", "customs house", "slipway"]


def next_lamp(lit):
    """The first lamp that is still dark, or None when all are lit."""
    for lamp in LAMPS:
        if lamp not in lit:
            return lamp
    return None  # TODO: say so to the keeper
