"""A node's reports on its rounds: `history.jsonl` while it runs, `summary.json` when it has ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from node.observe.history_reader import Tail
from node.runtime.record.figures import Record, Summary
from node.storage.plain import restored

PHASES = ("train", "group", "shares", "sums")


def by_round(rounds: Iterable[Record]) -> tuple[Record, ...]:
    """Sort by round; if a round was written twice, because of a restart, the later line counts."""
    latest = {entry.round: entry for entry in rounds}
    return tuple(latest[number] for number in sorted(latest))


def read_history(path: Path) -> tuple[Record, ...]:
    """All complete lines of a history.jsonl, in order of round; empty if the file does not exist."""
    return by_round(Tail(path).read())


def read_summary(path: Path) -> Summary | None:
    """Read a summary.json; None if it does not exist yet, or if an earlier version wrote it."""
    try:
        return restored(Summary, json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None


def amount(ledger: Mapping[str, object], name: str) -> float:
    """A number of a ledger from summary.json, such as `epsilon_spent`."""
    return float(str(ledger[name]))


def most_spent(ledgers: Iterable[Mapping[str, object] | None]) -> Mapping[str, object] | None:
    """The ledger with the largest epsilon; None if no peer has a ledger."""
    there = [ledger for ledger in ledgers if ledger is not None]
    return max(there, key=lambda ledger: amount(ledger, "epsilon_spent"), default=None)
