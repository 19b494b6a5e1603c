"""When it is dark enough to light the lamps."""


def is_dusk(minutes_after_sunset):
    # TODO: fog counts as dusk, whatever the sun does
    return minutes_after_sunset >= 20
