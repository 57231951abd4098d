"""Former place of `scenarios.data.models`, which it gives on: task keys of before go on working."""

from scenarios.data.models import *  # noqa: F403
