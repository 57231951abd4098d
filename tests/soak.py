"""Cases that `make soak` alone runs, among those of every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def soak(*values: object, name: str | None = None) -> Any:
    """Returns one such case, with a value for each of its parameters."""
    return pytest.param(*values, marks=pytest.mark.soak, id=name)


def soaks(cases: Iterable[object]) -> list[Any]:
    """Returns one such case for each value of a single parameter."""
    return [soak(case) for case in cases]
