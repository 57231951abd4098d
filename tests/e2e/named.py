"""Finds what `python -m NAME` runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence


def main_of(name: str) -> Callable[[Sequence[str]], int]:
    """Returns the `main` of a module, or of a package's `__main__`."""
    module = importlib.import_module(name)
    found = importlib.import_module(f"{name}.__main__") if hasattr(module, "__path__") else module
    main: Callable[[Sequence[str]], int] = found.main
    return main
