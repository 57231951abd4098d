"""Kept so that `mechanisms.gaussian` can be imported; the code is in `mechanisms.accounting.gaussian`."""

from mechanisms.accounting.gaussian import *  # noqa: F403
