"""High water, day by day."""

MINUTES_LATER = 50


def high_water(day, first=6 * 60):
    """Minutes after midnight; TODO: neap tides."""
    return (first + MINUTES_LATER * day) % (24 * 60)
