"""Kept so that `mechanisms.robust_server` can be imported; see `mechanisms.servers.robust_server`."""

from mechanisms.servers.robust_server import *  # noqa: F403
