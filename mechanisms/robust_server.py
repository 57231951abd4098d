"""Former place of `mechanisms.servers.robust_server`, which it gives on: imports of before go on working."""

from mechanisms.servers.robust_server import *  # noqa: F403
