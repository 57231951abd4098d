"""The files that a node writes for people and programs: models, history, summary."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from node.storage.records import SwarmFigure, Traffic
from node.storage.vector_files import Floats
from node.storage.whole_files import own_file, replace_file
from node.system.disk import DISK, Disk
from node.training.figures.headline import Alone, Headline
from node.training.figures.metric_words import compared_text, figures_text
from node.training.model_file import Card, Tensors, read_tensors, write_model
from protocol.wire.messages import Base


@dataclass(frozen=True)
class Record:
    """One line of history.jsonl. Accuracy, loss and metrics are the base's on test or validation rows."""

    round: int
    """The round of the run, counted in agreed sums; for a round alone, the round that it did not end."""
    outcome: str
    reason: str | None
    participants: int
    loss: float | None
    """None if the rows held back are too few for a figure."""
    accuracy: float | None
    epsilon: float | None
    delta: float | None
    bytes_sent: int
    bytes_received: int
    train_s: float
    aggregate_s: float
    base_digest: str
    accuracy_of: str
    train_loss: float | None
    missing: tuple[str, ...]
    clipped: int
    phases: Mapping[str, Traffic]
    metrics: Mapping[str, float | None]
    """The metrics of train.metrics; None for one that is undefined on these rows."""
    metric: str
    """The headline: the metric that says most on these rows (node.training.figures.headline)."""
    value: float | None
    """The headline's value."""
    baseline: float | None
    """What the best constant answer reaches on these rows."""
    only_class: str | None = None
    """The class that the base gives every row, though they have several."""
    flaws: tuple[str, ...] = ()
    """What is wrong with the base on these rows, in words (node.training.figures.flaws)."""
    rolled_back: tuple[float | None, float | None] | None = None
    """If the loss gate refused a base: the lowest loss on the owner's rows so far, and the base's loss."""
    without: tuple[str, ...] = ()
    """The electors that counted as gone for good in the quorum that made the base."""
    steps: int = 0
    """The steps of this round that this node was in; 0 where a round is one sum of updates."""
    steps_failed: int = 0
    """The sums of this round that failed: each cost a step's charge."""
    epsilon_alone: float | None = None
    """Where members share noise: what `epsilon` would be if all others worked together."""
    swarm: SwarmFigure | None = None
    """A metric of all members' rows, for the base that the round began with; None if the sum had none."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The owner's names of the keys in `missing`, as far as there are any."""
    own: int = 0
    """The node's own count of its rounds, with others or alone; each has a line."""
    alone: int = 0
    """The rounds alone in a row, this one included; 0 if a base came in it."""

    @property
    def headline(self) -> Headline:
        """The headline as a value."""
        return Headline(self.metric, self.value, self.baseline, self.only_class)

    @property
    def figures(self) -> str:
        """How good the base is, in words, such as `test accuracy 95.8 % (largest class 10.2 %)`."""
        return figures_text(self.accuracy_of, self.headline, self.metrics)

    def as_json(self) -> dict[str, object]:
        """Returns plain values for JSON, floats rounded to six digits, None for one that is not finite."""
        plain = asdict(self)
        plain["phases"] = {name: _rounded(asdict(traffic)) for name, traffic in self.phases.items()}
        plain["metrics"] = _rounded(dict(self.metrics))
        plain["swarm"] = None if self.swarm is None else _rounded(asdict(self.swarm))
        return _rounded(plain)


def _rounded(values: dict[str, object]) -> dict[str, object]:
    """Rounds the floats. One that is not finite is None: JSON has none, and it may come from a single row."""
    return {
        name: (round(value, 6) if math.isfinite(value) else None) if isinstance(value, float) else value
        for name, value in values.items()
    }


@dataclass(frozen=True)
class Summary:
    """summary.json: the whole run, over restarts."""

    rounds: int
    aggregated: int
    fallbacks: int
    accuracy: float | None
    epsilon: float | None
    delta: float | None
    base_digest: str
    bytes_sent: int
    bytes_received: int
    seconds: float
    accuracy_of: str
    task: str
    key: str
    finished: bool
    offers: int
    dropped: Mapping[str, int]
    privacy: Mapping[str, object] | None
    """The ledger in figures and words; None without a privacy guarantee."""
    sums: Mapping[str, object]
    """What the sums of the last group withstand, or those of the expected group if there was none."""
    metrics: Mapping[str, float | None]
    """The metrics of the last base, as in history.jsonl."""
    metric: str
    value: float | None
    baseline: float | None
    only_class: str | None = None
    flaws: tuple[str, ...] = ()
    """As in history.jsonl, for the last base."""
    epsilon_alone: float | None = None
    """As in history.jsonl."""
    swarm: SwarmFigure | None = None
    """The last metric of all members' rows, as in history.jsonl."""
    generation: int = 0
    """How many agreed models led to the last one; 0: this is no agreed model."""
    alone: Alone | None = None
    """How good a model of this node's rows alone is; None if there is none, or if it is secret."""

    @property
    def headline(self) -> Headline:
        """The headline as a value."""
        return Headline(self.metric, self.value, self.baseline, self.only_class)

    @property
    def figures(self) -> str:
        """How good the base is, in words, such as `test accuracy 95.8 % (largest class 10.2 %)`."""
        return self.beside(self.alone)

    def beside(self, alone: Alone | None) -> str:
        """`figures`, beside those of a model of the owner's rows alone, if there is one."""
        if alone is None:
            return figures_text(self.accuracy_of, self.headline, self.metrics)
        return compared_text(self.accuracy_of, self.headline, self.metrics, alone)

    def as_json(self) -> dict[str, object]:
        """Returns plain values for JSON, floats rounded to six digits."""
        swarm = None if self.swarm is None else _rounded(asdict(self.swarm))
        alone = None if self.alone is None else _rounded(asdict(self.alone))
        metrics = _rounded(dict(self.metrics))
        return _rounded({**asdict(self), "metrics": metrics, "swarm": swarm, "alone": alone})


class Folder:
    """Reads and writes the artifacts in a node's --out."""

    def __init__(self, path: Path, card: Card, disk: Disk = DISK) -> None:
        """`card`: the metadata of the model files that is the same in every round."""
        self.path = path
        self._card = card
        self._disk = disk

    def history(self) -> list[dict[str, object]]:
        """Returns the lines so far, without a last line that a crash cut off."""
        return read_history(self.path)

    def append(self, record: Record) -> None:
        """Appends a line of history."""
        path = self.path / "history.jsonl"
        with own_file(path, "a+b") as file:
            end = file.tell()
            file.seek(max(0, end - 1))
            cut_off = end > 0 and file.read(1) != b"\n"
            line = json.dumps(record.as_json(), allow_nan=False)
            file.write((("\n" if cut_off else "") + line + "\n").encode())

    def models(
        self,
        tensors_of: Callable[[Floats], Tensors],
        base: Base,
        vectors: tuple[Floats, Floats],
        privacy: Mapping[str, object] | None,
    ) -> None:
        """Writes model.safetensors, the agreed base, and private.safetensors, the working model.

        The working model is never served. `vectors` holds their vectors, (d,) each; `tensors_of` makes a
        whole model from one. `privacy` is the ledger.
        """
        for name, vector in zip(("model", "private"), vectors, strict=True):
            path = self.path / f"{name}.safetensors"
            write_model(path, tensors_of(vector), self._card.filled(name, base, privacy))

    def private(self) -> Tensors:
        """Returns the tensors of private.safetensors, empty if there is none. Raises UserError."""
        path = self.path / "private.safetensors"
        return read_tensors(path) if path.exists() else {}

    def summary(self, summary: Summary) -> None:
        """Writes summary.json, replacing it in one step."""
        text = json.dumps(summary.as_json(), indent=1, allow_nan=False)
        replace_file(self.path / "summary.json", (text.encode() + b"\n",), durable=True, disk=self._disk)


def read_history(folder: Path) -> list[dict[str, object]]:
    """Returns the lines of the history in a run's folder, without a last line that a crash cut off."""
    try:
        lines = (folder / "history.jsonl").read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    return [parsed for line in lines if (parsed := _parsed(line)) is not None]


def _parsed(line: str) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def total_of(history: list[dict[str, object]]) -> Traffic:
    """Returns the cost of the rounds in `history`: seconds of training and aggregation, and bytes."""

    def total(name: str) -> float:
        return sum(value for line in history if isinstance(value := line.get(name), int | float))

    return Traffic(
        total("train_s") + total("aggregate_s"), int(total("bytes_sent")), int(total("bytes_received"))
    )
