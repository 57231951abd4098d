"""Each test draws the same numbers, in one thread of torch, whatever ran before it in its process.

Without this a test whose numbers come from a generator of its module, or from torch's own, would have others
in each run: which tests a process runs, and when, depends on how fast the others are. More threads than one
would mostly wait for each other; a test that is about them asks for more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

_AS_COLLECTED: dict[ModuleType, list[tuple[Any, object]]] = {}
"""The bit generators of a module, each with its state before the first test."""


def note_generators(items: Iterable[pytest.Item]) -> None:
    """Notes the states of numpy's generators that stand in the modules of these tests."""
    if "numpy" not in sys.modules:
        return
    from numpy.random import Generator  # noqa: PLC0415 - a test may be about what is loaded without it

    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        drawn_from = [value.bit_generator for value in vars(module).values() if isinstance(value, Generator)]
        _AS_COLLECTED[module] = [(one, one.state) for one in drawn_from]


def begin_anew(module: ModuleType | None) -> None:
    """Sets the generators of a module, and torch's with its threads, to what they are before each test."""
    for bits, state in _AS_COLLECTED.get(module, ()) if module else ():
        bits.state = state
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
