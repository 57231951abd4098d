"""Boxes for tests: each is under all rules, and closed at the end of its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.box.box import Box
from tests.box.disk import folder_in_memory
from tests.box.invariants import all_rules

MakeBox = Callable[..., Box]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory."""
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def make_box(memory: Path) -> Iterator[MakeBox]:
    """Returns a function that makes a box of `count` nodes and `rounds` rounds."""
    boxes: list[Box] = []
    with ExitStack() as open_boxes:

        def make(count: int, rounds: int, *overrides: str, seed: int = 0, **more) -> Box:
            folder = memory / f"box{len(boxes)}"
            box = open_boxes.enter_context(Box(seed, folder, count, rounds, *overrides, **more))
            box.watchers = all_rules()
            boxes.append(box)
            return box

        yield make
    assert [fault for box in boxes for fault in box.faults] == []
