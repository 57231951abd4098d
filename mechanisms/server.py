"""Kept so that `mechanisms.server` can be imported; the code is in `mechanisms.servers.server`."""

from mechanisms.servers.server import *  # noqa: F403
