"""What a page shows of a node and of a tracker: values, their JSON, and what is new between two of them.

A view is a frozen value. Its document is a JSON object with a key for each field; what changed since
another one is the object of the fields that differ, but of the history only the rounds that were added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass

from node.observe.history_reader import Round
from node.observe.journal import Remark

MORE_HISTORY = "history_more"


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody that this node knows; `key` is the first 16 hex digits, None where it was never met."""

    endpoint: str
    key: str | None
    contact: str
    round: int | None
    follows: bool
    is_tracker: bool
    is_awaited: bool
    why: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, for its owner alone: `history` and `privacy` come from data. Times are Unix seconds."""

    kind: str
    about: Mapping[str, str]
    task: str
    key: str
    round: int
    """The last one that ended."""
    rounds: int
    phase: str
    phase_since: float
    spent_s: Mapping[str, float]
    """Seconds of the round in progress, by phase, as far as they are booked."""
    waiting_for: tuple[str, ...]
    until: float | None
    """When the phase ends at the latest."""
    base_digest: str
    generation: int
    sent: Mapping[str, int]
    """Bytes since the start, by phase."""
    received: Mapping[str, int]
    dropped: Mapping[str, int]
    peers: tuple[Peer, ...]
    privacy: Mapping[str, object] | None
    accuracy_of: str
    remarks: tuple[Remark, ...]
    history: tuple[Round, ...]
    ended: bool
    waiting: str = ""
    """Why no group forms that makes a model which counts for good; empty where nothing is in the way."""
    electors_missing: int = 0
    """How many are needed for one at least."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """A peer that is announced at a tracker."""

    endpoint: str
    key: str
    round: int
    state: str
    """ready, here, follows or unreachable."""


@dataclass(frozen=True, slots=True)
class Swarm:
    """The peers of one task with the same parameters, and what their next group waits for."""

    task: str
    parameters: str
    peers: tuple[Visitor, ...]
    ready: int
    needed: int
    groups: int


@dataclass(frozen=True, slots=True)
class TrackerView:
    """A tracker: nothing here comes from data, for a tracker sees none."""

    kind: str
    about: Mapping[str, str]
    key: str
    phase: str
    swarms: tuple[Swarm, ...]
    peers: int
    dropped: Mapping[str, int]
    remarks: tuple[Remark, ...]
    ended: bool


View = NodeView | TrackerView


def document(view: View) -> dict[str, object]:
    """All of it, as plain values."""
    return {field.name: _plain(getattr(view, field.name)) for field in fields(view)}


def changes(old: View, new: View) -> dict[str, object]:
    """The fields of `new` that are others than in `old`; the new rounds stand under MORE_HISTORY."""
    before, after = _fields(old), _fields(new)
    rounds = after.pop("history", ())
    differ = {name: _plain(value) for name, value in after.items() if before.get(name) != value}
    more = _added(before.get("history", ()), rounds)
    return {**differ, MORE_HISTORY: _plain(more)} if more else differ


def as_json(values: Mapping[str, object]) -> str:
    """For a browser: no NaN, and no infinity."""
    return json.dumps(values, allow_nan=False, separators=(",", ":"))


def _fields(view: View) -> dict[str, object]:
    return {field.name: getattr(view, field.name) for field in fields(view)}


def _added(old: object, new: object) -> tuple[object, ...]:
    """What stands behind the last one of `old` in `new`: a history grows at its end, and is cut in front."""
    if not isinstance(old, tuple) or not isinstance(new, tuple):
        return ()
    if not old or not new:
        return new
    at = next((number for number in range(len(new), 0, -1) if new[number - 1] == old[-1]), 0)
    return new[at:]


def _plain(value: object) -> object:
    """JSON's own kinds; a number that is none (nan, inf) is null."""
    match value:
        case str() | int() | None:  # most of a long history: before the slower questions
            return value
        case float():
            return value if math.isfinite(value) else None
        case list() | tuple():
            return [_plain(item) for item in value]
        case Mapping():
            return {str(name): _plain(item) for name, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return value
