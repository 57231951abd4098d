"""Views: what a page shows of a node or a tracker, as values, their JSON, and the changes between two.

A view is a frozen value. Its document is a JSON object with a key for each field. The changes between two
views are an object of the fields that differ; for the history, it has only the added rounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from node.observe.journal import Remark
from node.relay.relaying import RelayView
from node.runtime.record.figures import Record
from node.runtime.record.own_figures import OwnFigures
from node.storage.plain import plain
from node.training.figures.column_curves import Curves

MORE_HISTORY = "history_more"


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether a member that is reached by its key is there. `relay`: the host that leads to it; empty: none.

    `since`: since when it is missed (Unix s), and `why`; None: it is there, or was never seen.
    """

    relay: str
    since: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that this node knows; `key` is its first 16 hex digits, None if it is not known."""

    endpoint: str
    key: str | None
    contact: str
    round: int | None
    follows: bool
    is_tracker: bool
    is_awaited: bool
    why: str
    name: str = ""
    """The owner's name of the key; empty if there is none."""
    presence: Presence | None = None
    """None: it is not reached by its key."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, only for its owner: `history` and `privacy` are derived from data. Times are Unix seconds."""

    kind: str
    about: Mapping[str, str]
    task: str
    key: str
    round: int
    """The last round that ended."""
    rounds: int
    phase: str
    phase_since: float
    spent_s: Mapping[str, float]
    """Seconds of the round in progress, by phase, as booked so far."""
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
    history: tuple[Record, ...]
    ended: bool
    waiting: str = ""
    """Why no group forms that can make a strong model; empty if there is no obstacle."""
    waiting_since: float | None = None
    """Since when it has waited; None if there is no obstacle."""
    electors_missing: int = 0
    """How many more electors such a group needs at least."""
    report_every: int | None = None
    """The steps in a round; None: each round is one sum of updates."""
    steps: int | None = None
    """The run's last step; None as above."""
    model_bytes: int | None = None
    """The size of the common model's file, which the owner may download; None if there is none yet."""
    folder: str = ""
    """The folder that the view was read from; empty for a node that shows itself."""
    silent_since: float | None = None
    """Since when no node has written the view's folder, although the run is not over; None: it is written."""
    own: OwnFigures | None = None
    """What the owner's rows show; None if that is secret, and in views of earlier versions."""
    own_here: bool = False
    """Whether `own` is secret: then the page asks for it separately, which works on this machine alone."""
    relay: RelayView | None = None
    """What it carries for others; None: it is no relay."""
    curves: Curves | None = None
    """What each column adds to the predictions, as of the last round; None: the model is not additive."""
    exact: bool = False
    """Whether all sums have the members of the first one, as those of a job without noise."""
    over: bool = False
    """Whether no sum follows: a job may be over before its most sums."""
    purpose: str = ""
    """What the sum in progress is for, in a word; empty where all are alike."""
    sums: Mapping[str, int] = field(default_factory=dict)
    """How many sums of a job led to the base, by what they were for; empty in other runs."""
    made: str = ""
    """What the model is made of once its job is over, in words; empty in other runs."""

    @property
    def is_unfinished(self) -> bool:
        """Whether a job of exact sums has ended before it was over."""
        return self.exact and self.ended and not self.over


@dataclass(frozen=True, slots=True)
class Visitor:
    """A peer that has announced itself at a tracker."""

    endpoint: str
    key: str
    round: int
    state: str
    """One of ready, here, follows, unreachable."""


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
    """A tracker. Nothing here is derived from data, because a tracker sees none."""

    kind: str
    about: Mapping[str, str]
    key: str
    phase: str
    swarms: tuple[Swarm, ...]
    peers: int
    dropped: Mapping[str, int]
    remarks: tuple[Remark, ...]
    ended: bool
    relay: RelayView | None = None
    """What it carries; None: it is no relay."""


@dataclass(frozen=True, slots=True)
class Point:
    """A round of a run in a comparison; None for a number that its line lacks."""

    round: int
    value: float | None
    loss: float | None
    epsilon: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """One of several runs that are compared."""

    folder: str
    path: str
    """The address of the run's own page, below that of the comparison."""
    task: str
    key: str
    round: int
    rounds: int
    ended: bool
    silent_since: float | None
    sums: int | None
    """The sums that were made of a job of exact sums; None: the run is of rounds."""
    over: bool
    """Whether no sum follows."""
    aggregated: int
    fallbacks: int
    metric: str
    """The name of the metric of `value`."""
    accuracy_of: str
    value: float | None
    loss: float | None
    epsilon: float | None
    mechanism: str | None
    bytes_sent: int
    train_s: float
    aggregate_s: float
    base_digest: str
    points: tuple[Point, ...]
    """The curves, thinned out for a long run."""


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """Several runs side by side, read from their folders."""

    kind: str
    runs: tuple[Run, ...]
    ended: bool


View = NodeView | TrackerView | ComparisonView


def document(view: View | OwnFigures) -> dict[str, object]:
    """Returns the whole view, or what the owner's rows show, as plain values."""
    return {field.name: _shown(getattr(view, field.name)) for field in fields(view)}


def changes(old: View, new: View) -> dict[str, object]:
    """Returns the fields of `new` that differ from `old`, with the new rounds under MORE_HISTORY."""
    before, after = _fields(old), _fields(new)
    rounds = after.pop("history", ())
    differ = {name: _shown(value) for name, value in after.items() if before.get(name) != value}
    more = _added(before.get("history", ()), rounds)
    return {**differ, MORE_HISTORY: _shown(more)} if more else differ


def as_json(values: Mapping[str, object]) -> str:
    """Returns JSON for a browser. Raises ValueError for NaN and infinity."""
    return json.dumps(values, allow_nan=False, separators=(",", ":"))


def script_json(value: object) -> str:
    """Returns JSON that is safe inside a script element: nothing in it can end the element."""
    return json.dumps(value).replace("<", "\\u003c")


def _fields(view: View) -> dict[str, object]:
    return {field.name: getattr(view, field.name) for field in fields(view)}


def _added(old: object, new: object) -> tuple[object, ...]:
    """Returns the items of `new` after the last one of `old`: a history grows at its end, not in front."""
    if not isinstance(old, tuple) or not isinstance(new, tuple):
        return ()
    if not old or not new:
        return new
    at = next((number for number in range(len(new), 0, -1) if new[number - 1] == old[-1]), 0)
    return new[at:]


def _shown(value: object) -> object:
    """Returns a field of a view for JSON; of rounds only what the page shows."""
    if isinstance(value, tuple):
        return [item.on_page() if isinstance(item, Record) else plain(item) for item in value]
    return plain(value)
