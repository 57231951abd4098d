"""All tables of machines in protocol/, and a record of the steps that the machines take."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from enum import Enum
from typing import Any

import protocol
from protocol.transitions import Course, Step, Table

Taken = tuple[Enum, Enum]


def tables() -> dict[str, Table[Any, Any]]:
    """Returns the tables by module and name."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(protocol.__path__, f"{protocol.__name__}.")
    ]
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if _is_table(value) and type(next(iter(value))[0]).__module__ == module.__name__
    }


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(v, Step) for v in value.values())


def noted(monkeypatch: Any) -> set[Taken]:
    """Records every step that a machine tries in the context."""
    taken: set[Taken] = set()
    step = Course.step

    def noting(course: Course[Any, Any], event: Enum) -> None:
        taken.add((course.phase, event))
        step(course, event)

    monkeypatch.setattr(Course, "step", noting)
    return taken
