"""Former place of `mechanisms.accounting.gaussian`, which it gives on: imports of before go on working."""

from mechanisms.accounting.gaussian import *  # noqa: F403
