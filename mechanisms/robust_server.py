"""Kept so that imports of before work; the code is in `mechanisms.servers.robust_server`."""

from mechanisms.servers.robust_server import *  # noqa: F403
