"""Small made-up tables, images and tasks of a user."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from node.data.files.csv_and_parquet import Frame, read_frame
from node.system.errors import ConfigError
from node.task.data_schema import Schema, schema_rule
from node.task.load import read_task
from node.task.sections import Task

HEADER = "id,age,ward,smoker,seen,outcome"
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "kind": "number", "mean": 50.0, "std": 10.0, "missing": True},
    {"name": "ward", "kind": "category", "values": ["east", "west"]},
    {"name": "smoker", "kind": "boolean"},
    {"name": "seen", "kind": "date", "mean": 0.0, "std": 1.0},
]
TARGET = {"name": "outcome", "kind": "classes", "values": ["ill", "well"]}
TABLE: dict[str, Any] = {"kind": "table", "target": TARGET, "columns": COLUMNS}
IMAGES: dict[str, Any] = {
    "kind": "images",
    "target": {"kind": "classes", "values": ["blue", "red"]},
    "shape": [3, 8, 8],
    "mean": [0.5],
    "std": [0.25],
}


def schema(table: object) -> Schema:
    """Returns the schema in a TOML table."""
    read: Schema = schema_rule().accept(table)
    return read


def task(table: object, **model: Any) -> Task:
    """Returns a task with that schema."""
    chosen = model or {"class": "node.models:Linear", "args": {"inputs": 7, "outputs": 2}}
    return read_task({"task": {"name": "t"}, "model": chosen, "data": {"schema": table}})


def told(call: Any, *arguments: Any) -> str:
    """Returns the one line with which `call` refuses its arguments."""
    try:
        call(*arguments)
    except ConfigError as error:
        line = str(error)
        assert "\n" not in line
        assert len(line) < 400
        return line
    raise AssertionError("nothing was refused")


def frame(folder: Path, text: str, wanted: Sequence[str] | None = None) -> Frame:
    """Returns the table of a CSV with that text."""
    path = folder / "rows.csv"
    path.write_text(text)
    return read_frame(path, wanted)


def ward(rows: int, seed: int = 0) -> str:
    """Makes a CSV of patients: the older ones of the west ward are ill."""
    rng = np.random.default_rng(seed)
    lines = [HEADER]
    for number in range(rows):
        age, west = int(rng.integers(20, 80)), bool(rng.integers(2))
        ill = age + 20 * west + rng.normal(0, 3) > 60
        day = f"2026-01-{1 + number % 28:02d}"
        cells = (number, age, "west" if west else "east", "yes" if rng.integers(2) else "no", day)
        lines.append(",".join(map(str, (*cells, "ill" if ill else "well"))))
    return "\n".join(lines) + "\n"


def picture(path: Path, colour: tuple[int, ...], size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
    """Makes an image of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour if mode == "RGB" else colour[0]).save(path)
    return path


def toml(path: Path) -> dict[str, Any]:
    """Returns a parsed TOML file."""
    return tomllib.loads(path.read_text())
