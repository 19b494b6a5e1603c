"""Which boat comes in when."""

from tide import high_water


def arrival(boat, day):
    """A boat that draws more than two metres waits for high water."""
    return high_water(day) if boat["draws"] > 2 else boat["due"]
