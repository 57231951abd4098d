"""The facts and series that every swarm's cell has besides its mechanism's: peers, partition, costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from node.data.dataset import Dataset
from node.predict.model import open_model
from node.task.sections import Task
from node.task.shared_noise_keys import is_distributed
from scenarios.study.cells import METRIC, Fact
from scenarios.study.client_accuracy import accuracy_facts, by_label
from scenarios.study.costs import DOWN, MEASURED, TRAFFIC, UP, epsilon_series
from scenarios.study.skew import Counts, label_counts, size_facts, skew_facts
from scenarios.swarms.nodes import PeerRun
from scenarios.swarms.traffic import sum_bytes

Series = dict[str, tuple[float, ...]]
Answers = tuple[torch.Tensor, torch.Tensor]
"""The outputs (n, ...) of a model for the test rows, and their targets (n,)."""


class Reporting(Protocol):
    """A replayed swarm."""

    def answers(self) -> Answers:
        """The outputs (n, ...) of its model for the common test rows, and their targets (n,)."""

    @property
    def took_part(self) -> int:
        """The number of peers in the last round's sum."""

    @property
    def epsilon(self) -> float | None:
        """The largest epsilon that any peer has spent so far; None without privacy."""


@dataclass
class RoundLog:
    """What a replay notes after each round: how many peers were in the sum, and the largest epsilon."""

    members: list[int] = field(default_factory=list)
    epsilon: list[float | None] = field(default_factory=list)

    def note(self, swarm: Reporting) -> None:
        """Note that a round of `swarm` has ended."""
        self.members.append(swarm.took_part)
        self.epsilon.append(swarm.epsilon)

    def series(self, a_sum: SumCost) -> Series:
        """The series of bytes and of epsilon."""
        return {
            TRAFFIC: tuple(members * a_sum.of_round(members) for members in self.members),
            **epsilon_series(self.epsilon),
        }


@dataclass(frozen=True)
class SumCost:
    """What a round's sums cost: `dimension` words a sum; `groups`: disjoint groups with a sum each."""

    task: Task
    dimension: int
    groups: int = 1

    def of_round(self, members: int) -> float:
        """The bytes that each of `members` in all sends, and receives, in a round."""
        sums = (self.task.train.report_every or 1) if is_distributed(self.task) else 1
        return sums * sum_bytes(self.task.aggregation, self.dimension, members // self.groups)

    def facts(self, members: int) -> dict[str, Fact]:
        """The facts about a peer's bytes in a round of all peers."""
        each = self.of_round(members)
        return {UP: each, DOWN: each, MEASURED: False}


def reported(
    swarm: Reporting,
    datasets: Sequence[Dataset],
    log: RoundLog,
    cost: SumCost,
    liars: frozenset[int] = frozenset(),
) -> tuple[dict[str, Fact], Series]:
    """The facts and series of a replayed swarm whose peers have the rows `datasets`.

    Accuracies are those of peers that are not among the `liars`, given by number.
    {} as facts about peers if there is one alone: a server with all rows.
    """
    classes = datasets[0].classes
    series = {**({} if classes is None else by_label(*swarm.answers(), classes)), **log.series(cost)}
    if len(datasets) == 1:
        return {}, series
    return {**cost.facts(len(datasets)), **peer_facts(datasets, series, liars)}, series


def peer_facts(
    datasets: Sequence[Dataset],
    series: Mapping[str, tuple[float, ...]],
    liars: frozenset[int] = frozenset(),
) -> dict[str, Fact]:
    """The facts about peers with these rows; `series`: with those of `by_label`, or {}."""
    counts = counts_of(datasets)
    if counts is None:
        return {METRIC: "r2", **size_facts([len(dataset.train_y) for dataset in datasets])}
    honest = [peer for peer in range(len(counts)) if peer not in liars]
    return {METRIC: "accuracy", **skew_facts(counts), **accuracy_facts(series, counts[honest])}


def counts_of(datasets: Sequence[Dataset]) -> Counts | None:
    """How many rows with each label the peers have; None if targets are numbers."""
    classes = datasets[0].classes
    if classes is None:
        return None
    return label_counts([dataset.train_y.numpy().astype(np.int64) for dataset in datasets], classes)


# -- real nodes --------------------------------------------------------------------------------------------


def model_series(folder: Path, dataset: Dataset) -> Series:
    """The series about correct test rows of the model that a node left in `folder`; {} without labels.

    Raises ConfigError.
    """
    if dataset.classes is None:
        return {}
    with torch.no_grad():
        outputs: torch.Tensor = open_model(folder).model(dataset.test_x)
    return by_label(outputs, dataset.test_y, dataset.classes)


def measured_facts(peers: Sequence[PeerRun]) -> dict[str, Fact]:
    """What a peer sent and received in a round, in the mean over peers and rounds, as nodes counted it."""
    rounds = [entry for peer in peers for entry in peer.rounds]
    return {
        UP: sum(entry.bytes_sent for entry in rounds) / len(rounds),
        DOWN: sum(entry.bytes_received for entry in rounds) / len(rounds),
        MEASURED: True,
    }


def measured_series(peers: Sequence[PeerRun], rounds: int) -> Series:
    """What all peers sent in each round, and the largest epsilon after it, as nodes counted both."""
    sent, spent = np.zeros(rounds), np.zeros(rounds)
    for entry in (entry for peer in peers for entry in peer.rounds if 1 <= entry.round <= rounds):
        sent[entry.round - 1] += entry.bytes_sent
        spent[entry.round - 1] = max(spent[entry.round - 1], entry.epsilon or 0.0)
    private = any(entry.epsilon is not None for peer in peers for entry in peer.rounds)
    epsilon: list[float | None] = np.maximum.accumulate(spent).tolist() if private else []
    return {TRAFFIC: tuple(sent.tolist()), **epsilon_series(epsilon)}
