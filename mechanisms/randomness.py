"""Former place of `mechanisms.noise.randomness`, which it gives on: imports of before go on working."""

from mechanisms.noise.randomness import *  # noqa: F403
