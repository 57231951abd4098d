"""Reads a node's rounds from its history.jsonl as the file grows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from node.storage.records import SwarmFigure
from node.training.figures.headline import companion

MAX_ROUNDS = 5000
_LINE_BYTES = 1600
"""More bytes than a line of history takes; the first read covers at most MAX_ROUNDS times as many."""


@dataclass(frozen=True, slots=True)
class Round:
    """The shown fields of a line of history.jsonl; None for a number that the line lacks."""

    round: int
    outcome: str
    reason: str | None
    participants: int | None
    accuracy: float | None
    loss: float | None
    train_loss: float | None
    epsilon: float | None
    bytes_sent: int | None
    bytes_received: int | None
    train_s: float | None
    aggregate_s: float | None
    missing: tuple[str, ...]
    rolled_back: bool
    without: tuple[str, ...] = ()
    steps: int | None = None
    steps_failed: int | None = None
    epsilon_alone: float | None = None
    metric: str | None = None
    """The name of the headline metric; None in lines of earlier versions, whose headline is `accuracy`."""
    value: float | None = None
    """The headline metric."""
    baseline: float | None = None
    """The headline metric of a model that has learned nothing."""
    only_class: str | None = None
    flaws: tuple[str, ...] = ()
    beside: float | None = None
    """The value of the metric beside the headline (node.training.figures.headline.companion)."""
    beside_metric: str | None = None
    swarm: SwarmFigure | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    alone: int | None = None
    """The rounds alone in a row, this one included."""

    @property
    def ended(self) -> int:
        """The last round of the run that had ended by then; a round alone ends no round of the run."""
        return self.round - bool(self.alone)


class Rounds:
    """Reads the lines appended since the last read, and keeps the last MAX_ROUNDS rounds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rounds: tuple[Round, ...] = ()

    @property
    def latest(self) -> tuple[Round, ...]:
        """The rounds as of the last `read`."""
        return self._rounds

    @property
    def grown(self) -> bool:
        """Whether the file has grown since the last `read`."""
        return self._size() > self._offset

    def read(self) -> tuple[Round, ...]:
        """Returns the rounds so far. It waits for the disk, so do not call it on the event loop."""
        if not self.grown:
            return self._rounds
        with self._path.open("rb") as file:
            whole, begins_midway = self._skip(), self._offset == 0
            file.seek(whole)
            text = file.read()
        lines = text[: text.rfind(b"\n") + 1]  # the rest is still being written
        self._offset = whole + len(lines)
        parts = lines.splitlines()[1 if begins_midway and whole else 0 :]
        found = tuple(row for part in parts if (row := _parsed(part)) is not None)
        self._rounds = (*self._rounds, *found)[-MAX_ROUNDS:]
        return self._rounds

    def _skip(self) -> int:
        """Returns the offset to read from; near the end for a long history that was never read."""
        return self._offset or max(0, self._size() - MAX_ROUNDS * _LINE_BYTES)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0


def _parsed(line: bytes) -> Round | None:
    """Parses a line; returns None for one that a crash cut off."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or not isinstance(values.get("round"), int):
        return None
    return _round(values)


def _round(values: Mapping[str, object]) -> Round:
    reason, found = values.get("reason"), values.get("metrics")
    metrics = found if isinstance(found, dict) else {}
    beside = companion(str(values.get("metric")), metrics)
    return Round(
        round=_whole(values, "round") or 0,
        outcome=str(values.get("outcome")),
        reason=None if reason is None else str(reason),
        participants=_whole(values, "participants"),
        accuracy=_number(values, "accuracy"),
        loss=_number(values, "loss"),
        train_loss=_number(values, "train_loss"),
        epsilon=_number(values, "epsilon"),
        bytes_sent=_whole(values, "bytes_sent"),
        bytes_received=_whole(values, "bytes_received"),
        train_s=_number(values, "train_s"),
        aggregate_s=_number(values, "aggregate_s"),
        missing=_words(values, "missing"),
        rolled_back=values.get("rolled_back") is not None,
        without=_words(values, "without"),
        steps=_whole(values, "steps"),
        steps_failed=_whole(values, "steps_failed"),
        epsilon_alone=_number(values, "epsilon_alone"),
        metric=_text(values, "metric"),
        value=_number(values, "value"),
        baseline=_number(values, "baseline"),
        only_class=_text(values, "only_class"),
        flaws=_words(values, "flaws"),
        beside=None if beside is None else _number(metrics, beside),
        beside_metric=beside,
        swarm=SwarmFigure.from_json(values.get("swarm")),
        names=_texts(values, "names"),
        alone=_whole(values, "alone"),
    )


def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None


def _words(values: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = values.get(name)
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _texts(values: Mapping[str, object], name: str) -> Mapping[str, str]:
    value = values.get(name)
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _number(values: Mapping[str, object], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else None


def _whole(values: Mapping[str, object], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) else None
