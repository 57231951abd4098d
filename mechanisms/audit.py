"""Former place of `mechanisms.audits.audit`, which it gives on: imports of before go on working."""

from mechanisms.audits.audit import *  # noqa: F403
