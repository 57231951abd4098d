"""An alias, so that `scenarios.models` can still be imported; the code is in `scenarios.data.models`."""

from scenarios.data.models import *  # noqa: F403
