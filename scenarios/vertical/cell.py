"""Vertical learning of two parties as a cell: each has one half of a network, trained batch by batch.

    leader ──gradients of the last batch, the next request──▶ follower ──outputs (n, 2)──▶ leader ──▶ step

The leader runs the loop, which is the same in all engines. Engines differ in the link to the follower: a
local object, or a node of its own. The seed determines batch order and initial weights; in replays also the
flips.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mechanisms.noise.randomness import SeededWords, Words
from node.system.errors import ConfigError
from node.task.rules import key, read_section, real, whole
from scenarios.frame.digests import digest_of, salt_of
from scenarios.frame.spec import Json
from scenarios.study.cells import BaseCell, Fact, Outcome, Room, refuse_foreign
from scenarios.study.costs import DOWN, MEASURED, TRAFFIC, UP, epsilon_series
from scenarios.vertical.choices import NOTHING, EmbeddingChoice, LabelChoice, protect_of
from scenarios.vertical.parties import (
    NO_GRADIENTS,
    Floats,
    Follower,
    FollowerRows,
    Leader,
    LeaderRows,
    Network,
    Plan,
    Request,
    Step,
    dealt,
)
from scenarios.vertical.wide_deep import SCALARS, Descent, Sizes

DATA_SET = "criteo"
TRUE_LOSS, LOSS = "training loss, true labels", "training loss, labels trained on"
"""Names of series: mean losses over the steps of an epoch, each taken before its step."""
ENDS = {"first": 0, "last": -1}
"""Epochs whose losses also become facts, such as `last training loss, true labels`."""
READ = "labels read from gradients"
"""The name of a fact: the balanced accuracy of a follower that guesses labels from its gradients."""

_ROW_BYTES = SCALARS * np.dtype(np.float32).itemsize
_LABELS, _OUTPUTS = 55, 56  # streams of random numbers: [one of these, seed, the arm's salt]


@dataclass(frozen=True)
class VerticalTrain:
    """The keys of [train] for two parties. `learning_rate` is Adam's; a round is an epoch."""

    rounds: int = key(whole(1, 10_000))
    batch_size: int = key(whole(1, 100_000))
    learning_rate: float = key(real(above=0, at_most=1000))


@dataclass(frozen=True)
class VerticalCell(BaseCell):
    """One arm with one seed: two parties, a network in two halves, the protection of labels or outputs."""

    kind: ClassVar[str] = "vertical"

    arm: str
    seed: int
    train: VerticalTrain
    sizes: Sizes
    descent: Descent
    labels: LabelChoice | None
    outputs: EmbeddingChoice | None

    @property
    def rounds(self) -> int:
        """The number of epochs, each with a figure."""
        return self.train.rounds

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data set that is divided between two parties."""
        return (DATA_SET,)

    def check(self, room: Room) -> None:
        """See Cell.check. Loads the rows, and makes and tries the label mechanism."""
        room.vertical(DATA_SET)
        if self.labels is not None:
            self.labels.make(self.label_words)

    def describe(self) -> Json:
        """The cell as JSON, without its seed and name."""
        sizes = {**asdict(self.sizes), "hidden": list(self.sizes.hidden)}  # a list, as JSON returns it
        return {**super().describe(), "sizes": sizes}

    def among(self, peers: int) -> Self:
        """Raise ConfigError: there are always two parties."""
        raise ConfigError(
            f"--peers {peers}: vertical learning here has two parties, whose columns are fixed; leave it out"
        )

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Self:
        """The same arm with new values for keys of [train]. Raises ConfigError."""
        refuse_foreign(table, ("train",), ", ".join(f"train.{name}" for name in asdict(self.train)))
        return replace(
            self, train=read_section(VerticalTrain, "train", {**asdict(self.train), **table.get("train", {})})
        )

    def replay(self, room: Room) -> Outcome:
        """Run both parties in this process, with flips from the seed."""
        leaders, followers = dealt(room.vertical(DATA_SET))
        plan = plan_of(self, len(leaders.labels), len(leaders.evaluated_labels))
        link = Beside(follower_of(self, followers, self.output_words))
        return epochs_of(self, plan, leaders, link, self.label_words, room)

    @property
    def network(self) -> Network:
        """The model and its optimisers."""
        return Network(self.sizes, replace(self.descent, learning_rate=self.train.learning_rate), self.seed)

    @property
    def label_words(self) -> SeededWords:
        """The random words of label flips in replays."""
        return SeededWords(np.random.default_rng([_LABELS, self.seed, salt_of(self.arm)]))

    @property
    def output_words(self) -> SeededWords:
        """The random words of flips of the follower's signs in replays."""
        return SeededWords(np.random.default_rng([_OUTPUTS, self.seed, salt_of(self.arm)]))


def plan_of(cell: VerticalCell, training: int, evaluated: int) -> Plan:
    """The plan that both parties know."""
    return Plan(training, evaluated, cell.rounds, cell.train.batch_size, cell.seed)


def follower_of(cell: VerticalCell, rows: FollowerRows, words: Words) -> Follower:
    """The follower of a cell."""
    return Follower(rows, cell.network, protect_of(cell.outputs, words))


# -- the loop ----------------------------------------------------------------------------------------------


class Link(Protocol):
    """The leader's link to the follower."""

    def exchange(self, request: Request, gradients: Floats) -> Floats:
        """Send `gradients` (m, 2) for the previous outputs; return the outputs (n, 2) for `request`'s rows.

        Raises UserError if the follower is gone.
        """


@dataclass(frozen=True)
class Beside:
    """A link to a follower in the same process."""

    follower: Follower

    def exchange(self, request: Request, gradients: Floats) -> Floats:
        """See Link.exchange."""
        return self.follower.answer(request, gradients)


def epochs_of(
    cell: VerticalCell, plan: Plan, rows: LeaderRows, link: Link, words: Words, room: Room
) -> Outcome:
    """Run all epochs of a cell on the leader's side. Raises UserError."""
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415  a slow import, needed here only

    begun, true = time.perf_counter(), rows.labels.astype(np.float64)
    choice = cell.labels
    source = true if choice is None else choice.source(choice.make(words), true)
    run = _Run(Leader(rows, cell.network, source), link, Readings(len(true)))
    figures: list[float] = []
    losses: list[tuple[float, float]] = []
    logits: Floats = NO_GRADIENTS
    for epoch, requests in groupby(plan.requests(), lambda request: request.epoch):
        steps, logits = run.epoch(requests)
        losses.append(tuple(np.mean([(step.loss, step.true_loss) for step in steps], axis=0).tolist()))
        figures.append(float(roc_auc_score(rows.evaluated_labels, logits)))
        room.say(epoch, figures[-1])
    facts = {**protection_of(cell), **label_facts(rows.evaluated_labels, logits)}
    facts[READ] = run.readings.accuracy(rows.labels)
    facts["predictions sha256"] = digest_of(logits)
    series = dict(zip((LOSS, TRUE_LOSS), zip(*losses, strict=True), strict=True))
    facts |= {f"{when} {name}": row[at] for when, at in ENDS.items() for name, row in series.items()}
    costs = {TRAFFIC: (float(_up(plan) + _down(plan)),) * cell.rounds, **epsilon_until(cell)}
    facts |= {UP: _up(plan), DOWN: _down(plan), MEASURED: False}
    return Outcome(tuple(figures), facts, time.perf_counter() - begun, {**series, **costs})


@dataclass
class _Run:
    """The leader during a run; `gradients` go out with its next request."""

    leader: Leader
    link: Link
    readings: Readings
    gradients: Floats = field(default_factory=lambda: NO_GRADIENTS)

    def epoch(self, requests: Iterator[Request]) -> tuple[list[Step], Floats]:
        """Run an epoch; return its steps, and the logits (n,) of all evaluated rows after it."""
        steps, logits = [], []
        for request in requests:
            outputs = self.link.exchange(request, self.gradients)
            self.gradients = NO_GRADIENTS
            if not request.learning:
                logits.append(self.leader.logits(request, outputs))
                continue
            steps.append(self.leader.learn(request, outputs))
            self.gradients = steps[-1].gradients
            self.readings.see(request, self.gradients)
        return steps, np.concatenate(logits)


# -- the follower's guesses, and the facts of the outcome --------------------------------------------------


class Readings:
    """The labels that a follower can guess from the gradients alone.

    The sign of a row's gradient shows the label that the row was trained on. In each batch the follower takes
    the more frequent sign for label 0. It adds up the signs of a row over the epochs.
    """

    def __init__(self, rows: int) -> None:
        self._votes = np.zeros(rows)

    def see(self, request: Request, gradients: Floats) -> None:
        """Add the votes from a batch's gradients (n, 2)."""
        signs = np.sign(gradients[:, -1])
        self._votes[request.rows] += signs if signs.sum() < 0 else -signs

    def accuracy(self, labels: NDArray[np.int64]) -> float:
        """The balanced accuracy of the guesses for all rows; 0.5 is that of random guesses."""
        from sklearn.metrics import balanced_accuracy_score  # noqa: PLC0415  as above

        return float(balanced_accuracy_score(labels, self._votes > 0))


def protection_of(cell: VerticalCell) -> dict[str, Fact]:
    """The facts about a cell's protection over all epochs."""
    choice = cell.labels or cell.outputs
    return dict(NOTHING) if choice is None else choice.facts(cell.rounds)


def epsilon_until(cell: VerticalCell) -> dict[str, tuple[float, ...]]:
    """The series of the epsilon after each epoch; {} without one."""
    choice = cell.labels or cell.outputs
    if choice is None:
        return {}
    found = (choice.facts(epochs)["epsilon"] for epochs in range(1, cell.rounds + 1))
    return epsilon_series([value if isinstance(value, float) else None for value in found])


def _up(plan: Plan) -> int:
    """The bytes of an epoch's outputs. Both parties know the plan: the numbers of rows do not travel."""
    return _ROW_BYTES * (plan.training + plan.evaluated)


def _down(plan: Plan) -> int:
    """The bytes of the gradients in an epoch's outputs for training rows."""
    return _ROW_BYTES * plan.training


def label_facts(labels: NDArray[np.int64], logits: Floats) -> dict[str, Fact]:
    """Facts about the quality of evaluated rows' logits (n,), with the share of the most frequent label."""
    from sklearn.metrics import balanced_accuracy_score, log_loss  # noqa: PLC0415  as above

    probabilities = expit(logits.astype(np.float64))
    clicked = probabilities > 0.5
    share = float(labels.mean())
    return {
        "log loss": float(log_loss(labels, probabilities)),
        "accuracy": float((clicked == labels).mean()),
        "balanced accuracy": float(balanced_accuracy_score(labels, clicked)),
        "majority rate": max(share, 1 - share),
        "judged rows": len(labels),
    }
