"""What a node left in its folder: history, summary, and its database as the file is now."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def history(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]


def summary(out: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return said


def rows(out: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{out / 'state.db'}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchall()


def fact(out: Path, name: str) -> Any:
    """Reads a small fact from state.db."""
    found = rows(out, f"select value from fact where name = '{name}'")
    return found[0][0] if found else None
