"""Kept so that `mechanisms.audit` can be imported; the code is in `mechanisms.audits.audit`."""

from mechanisms.audits.audit import *  # noqa: F403
