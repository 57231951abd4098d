"""What users read about the disk: sizes as text, and what the system refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from node.system.errors import UserError, reason


def megabytes(size_bytes: int) -> str:
    """A size as text, in MB of 10^6 bytes, or in kB if it is small."""
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1e3:.1f} kB"


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn an OSError into a UserError that begins with `what`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what} ({reason(error)}); make room or give another --data-dir") from error
