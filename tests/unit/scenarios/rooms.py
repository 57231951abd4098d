"""Rooms for cells, and cells replayed in one thread."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scenarios.engines.room import LocalRoom
from scenarios.study.cells import Outcome


def room(
    folder: Path = Path("nowhere"),
    threads: int = 1,
    say: Callable[[int, float], object] = lambda number, figure: None,
) -> LocalRoom:
    return LocalRoom(folder, threads, say)


def replayed(cell: Any, folder: Path = Path("nowhere"), threads: int = 1) -> Outcome:
    return cell.replay(room(folder, threads))
