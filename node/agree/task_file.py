"""Writes an agreed task as a TOML file: the values that differ from the defaults, and their origin."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from node.agree.outcome import Agreed
from node.init.task_file import plain
from node.system.toml_text import toml
from node.task.data_schema import Schema
from node.task.rules import key_name
from node.task.sections import BUILT_IN_SOURCES, PACKAGE, Task
from node.task.shared_noise_keys import is_distributed, readable
from node.training.model_file import LOCAL_PATHS, OWN_CELLS
from protocol.wire.messages import Base

_OF_STEPS = {"privacy": "clipping_radius", "train": "learning_rate"}
"""The key of each section that, with shared noise, would else be taken from the step's table."""


def agreed_text(draft: Task, found: Agreed, base: Base, path: Path) -> str:
    """Returns the text of the file at `path`; `draft` is the task before the agreement."""
    lines = [*_head(draft, base), *_sections(found.task, path.parent)]
    return "\n".join(lines) + "\n"


def _head(draft: Task, base: Base) -> Iterator[str]:
    yield f"# A task for python -m node, agreed on by {base.members} peers with python -m node.agree: each"
    yield f"# has written the same. Digest of what was agreed on: {base.digest.hex()[:16]}"
    yield "#   python -m node --task FILE.toml --data OWN_DATA --peers HOST:PORT,HOST:PORT,HOST:PORT"
    yield "#"
    yield "# Scales and lists follow from sums over all peers' rows. Nobody saw another's sums."
    if draft.privacy.mechanism == "none":
        yield "# The sums have no noise: they are exact, over all peers."
    else:
        yield from _budget(draft)
    yield ""


def _budget(draft: Task) -> Iterator[str]:
    """Yields the agreement's cost and the remainder; basic composition (Dwork & Roth 2014, Theorem 3.16)."""
    whole, share = draft.privacy, draft.agreement.share
    cost = f"epsilon {whole.epsilon * share:.6g}, delta {whole.delta * share:.6g}"
    in_all = f"epsilon {whole.epsilon:.6g}, delta {whole.delta:.6g}"
    yield f"# Each peer's sums had noise for one row: {cost}."
    yield "# [privacy] below is what is left for learning; with the agreement it comes to"
    yield f"# {in_all} in all, as the task had it before."


def _sections(task: Task, folder: Path) -> Iterator[str]:
    silent = {"privacy"} if task.privacy.mechanism == "none" else set()  # its other keys would have no effect
    for section in fields(task):
        own = getattr(task, section.name)
        values = {} if section.name in silent else _values(own, section.name, folder)
        values = readable(task, section.name, values)
        if is_distributed(task) and section.name in _OF_STEPS:
            values[_OF_STEPS[section.name]] = getattr(own, _OF_STEPS[section.name])
        schema = values.pop("schema", None)
        if values:
            yield f"[{section.name}]"
            yield from (f"{name} = {toml(plain(value))}" for name, value in values.items())
            yield ""
        if schema is not None:
            yield from _schema(schema)
            yield ""


def _values(section: Any, name: str, folder: Path) -> dict[str, Any]:
    """Returns the values that differ from the defaults; paths are relative to the file's `folder`."""
    chosen = {
        key_name(entry): getattr(section, entry.name)
        for entry in fields(section)
        if getattr(section, entry.name) != _default(entry) and (name, entry.name) != OWN_CELLS
    }
    for where, key in LOCAL_PATHS:
        path = chosen.get(key)
        if (
            where == name
            and isinstance(path, str)
            and path not in BUILT_IN_SOURCES
            and not path.startswith(PACKAGE)
            and not Path(path).is_absolute()
        ):
            chosen[key] = os.path.relpath(path, folder)
    return chosen


def _default(entry: Field[Any]) -> Any:
    return entry.default_factory() if entry.default_factory is not MISSING else entry.default


def _schema(schema: Schema) -> Iterator[str]:
    """Yields the schema's lines, one line per column."""
    yield "[data.schema]"
    for name, value in plain(schema).items():
        if name == "columns":
            yield "columns = ["
            yield from (f"  {toml(column)}," for column in value)
            yield "]"
        else:
            yield f"{name} = {toml(value)}"
