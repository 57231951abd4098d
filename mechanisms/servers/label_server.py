"""Federated averaging of clients whose labels are noised once: label privacy for rows that one party owns.

Unit of privacy: the label of one example. Neighbours: the same examples, one label replaced by any other.
Pure epsilon (delta 0), by randomised response (Ghazi et al. 2021, Algorithm 1 with k = all classes). Features
are not protected, nor is who has which example. Every client keeps its drawn labels for all rounds, so that
training on them is post-processing, however long it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mechanisms.accounting.ledger import Event, Pure, Relation, Unit
from mechanisms.arguments import count
from mechanisms.labels.flips import LabelDP, capped_epsilon
from mechanisms.mechanism import Guarantee
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import Federation, Indices, Labels, PlainTraining, among, fixed_sample

ONE_LABEL = Unit("the label of one example, over the run", Relation.REPLACE, "discrete")
OUTSIDE = "the features of every example, which are used as they are"


@dataclass(frozen=True, slots=True)
class LabelsOnce(PlainTraining):
    """`clients_per_round` clients, whose labels in 0..classes-1 go through randomised response once.

    epsilon: for one label; at least 0; above 100 it is taken as 100, as in mechanisms.labels.flips.
    ValueError or TypeError for what can not be.
    """

    federation: Federation
    clients_per_round: int
    classes: int
    epsilon: float

    def __post_init__(self) -> None:
        among("clients_per_round", self.clients_per_round, self.federation)
        if count("classes", self.classes) < 2:
            raise ValueError(f"classes = {self.classes} is not allowed: at least 2")
        object.__setattr__(self, "epsilon", capped_epsilon(self.epsilon))

    @property
    def name(self) -> str:
        """As results name it."""
        return "label-dp"

    @property
    def protects(self) -> str:
        """In a sentence."""
        return (
            "every label is noised once, by its owner, before anything is learned from it: what anybody can "
            "tell of it, the server included, is bounded by epsilon; features are used as they are"
        )

    @property
    def guarantee(self) -> Guarantee:
        """Pure epsilon of one draw."""
        return Guarantee(ONE_LABEL, self.epsilon, 0.0, self.epsilon, OUTSIDE)

    @property
    def figures(self) -> Mapping[str, float]:
        """How often a label stays what it is: e^epsilon / (classes - 1 + e^epsilon), Ghazi et al. 2021."""
        return {"labels kept": 1 / (1 + (self.classes - 1) * float(np.exp(-self.epsilon)))}

    def events(self, rounds: int) -> tuple[Event, ...]:
        """One pure release, however many the rounds."""
        count("rounds", rounds)
        return (Pure(self.epsilon),)

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """The rows themselves, with noisy labels. ValueError for a label that is none of the classes."""
        wrong = y[(y < 0) | (y >= self.classes)]
        if len(wrong):
            raise ValueError(f"labels hold {wrong[0]}; allowed: 0 to {self.classes - 1}")
        noisy = LabelDP(self.epsilon, words)(np.eye(self.classes)[y])  # (n, classes)
        return x, noisy.argmax(axis=1)

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """`clients_per_round` of them."""
        return fixed_sample(clients, self.clients_per_round, rng)
