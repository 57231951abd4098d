"""Kept so that `mechanisms.randomness` can be imported; the code is in `mechanisms.noise.randomness`."""

from mechanisms.noise.randomness import *  # noqa: F403
