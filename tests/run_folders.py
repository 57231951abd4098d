"""What a node left in its folder: history, summary, key, and its database as the file is now."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from mechanisms.accounting.ledger import Ledger, event_from_text, privacy_spent
from protocol.crypto.node_key import NodeKey


def copy_of(folder: Path, target: Path) -> Path:
    """Copies a folder with the file modes of its own disk, which git does not keep."""
    shutil.copytree(folder, target)
    for secret in target.glob("node.key*"):
        secret.chmod(0o600)
    return target


def the_key(out: Path) -> bytes:
    return NodeKey(bytes.fromhex((out / "node.key").read_text())).public


def epsilon(out: Path, delta: float = 1e-5) -> float:
    """Returns the total epsilon in a folder's ledger."""
    texts = (text for (text,) in rows(out, "select events from ledger"))
    return privacy_spent(
        Ledger.of([event_from_text(line) for text in texts for line in text.split("\n")]), delta
    ).epsilon


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
