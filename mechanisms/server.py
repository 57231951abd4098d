"""Former place of `mechanisms.servers.server`, which it gives on: imports of before go on working."""

from mechanisms.servers.server import *  # noqa: F403
