"""A node's reports on its rounds: `history.jsonl` while it runs, `summary.json` when it has ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PHASES = ("train", "group", "shares", "sums")
AGGREGATED = "aggregated"


@dataclass(frozen=True)
class PhaseCost:
    """The cost of one phase of one round for one peer."""

    seconds: float
    bytes_sent: int
    bytes_received: int


@dataclass(frozen=True)
class Round:
    """One line of history.jsonl. accuracy is the base's, in [0, 1]; None if the task has no classes."""

    round: int
    outcome: str
    reason: str | None
    accuracy: float | None
    epsilon: float | None
    bytes_sent: int
    bytes_received: int
    base_digest: str
    phases: Mapping[str, PhaseCost]
    steps: int = 0
    """The steps that the round had; 0 where a round is one sum."""
    steps_failed: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    metric: str = "accuracy"
    """The headline; "accuracy" in lines of earlier versions."""
    value: float | None = None
    baseline: float | None = None
    of_all: float | None = None
    """The same metric on all members' rows, for the model before the round, where a task counts them."""


@dataclass(frozen=True)
class Summary:
    """The contents of summary.json, on the whole run of one peer."""

    rounds: int
    aggregated: int
    fallbacks: int
    accuracy: float | None
    base_digest: str
    bytes_sent: int
    bytes_received: int
    seconds: float
    privacy: Mapping[str, object] | None
    """The ledger; None without privacy."""
    metric: str
    value: float | None
    baseline: float | None


def parse_round(line: str) -> Round | None:
    """One line of history.jsonl; None for a line that a killed node left half-written."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or "round" not in fields:
        return None
    return Round(
        round=int(fields["round"]),
        outcome=fields["outcome"],
        reason=fields.get("reason"),
        accuracy=fields.get("accuracy"),
        epsilon=fields.get("epsilon"),
        bytes_sent=int(fields.get("bytes_sent", 0)),
        bytes_received=int(fields.get("bytes_received", 0)),
        base_digest=fields["base_digest"],
        phases={name: _cost(cost) for name, cost in fields.get("phases", {}).items()},
        steps=int(fields.get("steps", 0)),
        steps_failed=int(fields.get("steps_failed", 0)),
        metrics=dict(fields.get("metrics", {})),
        metric=fields.get("metric", "accuracy"),
        value=fields.get("value", fields.get("accuracy")),
        baseline=fields.get("baseline"),
        of_all=_of_all(fields.get("swarm"), fields.get("metric")),
    )


def _of_all(swarm: Mapping[str, Any] | None, metric: str | None) -> float | None:
    return swarm["value"] if swarm is not None and swarm["metric"] == metric else None


def _cost(fields: Mapping[str, Any]) -> PhaseCost:
    return PhaseCost(
        float(fields.get("s", 0.0)), int(fields.get("bytes_sent", 0)), int(fields.get("bytes_received", 0))
    )


def by_round(rounds: Iterable[Round]) -> tuple[Round, ...]:
    """Sort by round; if a round was written twice, because of a restart, the later line counts."""
    latest = {entry.round: entry for entry in rounds}
    return tuple(latest[number] for number in sorted(latest))


def read_history(path: Path) -> tuple[Round, ...]:
    """All complete lines of a history.jsonl, in order of round; empty if the file does not exist."""
    return by_round(Tail(path).read())


def read_summary(path: Path) -> Summary | None:
    """Read a summary.json; None if it does not exist yet."""
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Summary(**{name: fields.get(name) for name in Summary.__dataclass_fields__})


def amount(ledger: Mapping[str, object], name: str) -> float:
    """A number of a ledger from summary.json, such as `epsilon_spent`."""
    return float(str(ledger[name]))


def most_spent(ledgers: Iterable[Mapping[str, object] | None]) -> Mapping[str, object] | None:
    """The ledger with the largest epsilon; None if no peer has a ledger."""
    there = [ledger for ledger in ledgers if ledger is not None]
    return max(there, key=lambda ledger: amount(ledger, "epsilon_spent"), default=None)


class Tail:
    """Reads a growing history.jsonl: every call returns the rounds that were added since the last call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Round]:
        """The rounds of new complete lines; the next call reads a line that is not complete yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                added = file.read()
        except FileNotFoundError:
            return []
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        parsed = (parse_round(line) for line in whole.decode("utf-8", "replace").splitlines())
        return [entry for entry in parsed if entry is not None]
