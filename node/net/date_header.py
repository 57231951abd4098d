"""How far the clock of an HTTP server is ahead of this machine's, by the Date header of an answer."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime


def ahead_s(date: str | None) -> float | None:
    """Returns by how many seconds a Date header is ahead of this machine's clock, to a second.

    None if there is no header, or if it is no date.
    """
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
