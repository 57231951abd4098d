"""Federated averaging of clients that noise their labels once: label privacy for rows that one party owns.

Unit of privacy: the label of one example. Neighbours: replace the label by any other. Pure epsilon (delta 0),
by randomised response (Ghazi et al. 2021, Algorithm 1 with k = all classes). Nothing protects the features,
or who owns which example. Every client keeps its noisy labels for all rounds, so training on them is
post-processing, however long it takes.
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
from mechanisms.servers.server import FixedSample, Labels

ONE_LABEL = Unit("the label of one example, over the run", Relation.REPLACE, "discrete")
OUTSIDE = "the features of every example, which are used as they are"


@dataclass(frozen=True, slots=True)
class LabelsOnce(FixedSample):
    """Applies randomised response once to each client's labels in 0..classes-1.

    epsilon: for one label; at least 0; a value above 100 counts as 100, as in mechanisms.labels.flips.
    Raises ValueError or TypeError for values that are not allowed.
    """

    classes: int
    epsilon: float

    name = "label-dp"
    protects = (
        "every label is noised once, by its owner, before anything is learned from it: what anybody can tell "
        "of it, the server included, is bounded by epsilon; features are used as they are"
    )

    def __post_init__(self) -> None:
        FixedSample.__post_init__(self)
        if count("classes", self.classes) < 2:
            raise ValueError(f"classes = {self.classes} is not allowed: at least 2")
        object.__setattr__(self, "epsilon", capped_epsilon(self.epsilon))

    @property
    def guarantee(self) -> Guarantee:
        """The pure epsilon of one draw."""
        return Guarantee(ONE_LABEL, self.epsilon, 0.0, self.epsilon, OUTSIDE)

    @property
    def figures(self) -> Mapping[str, float]:
        """The probability of keeping a label: e^epsilon / (classes - 1 + e^epsilon), Ghazi et al. 2021."""
        return {"labels kept": 1 / (1 + (self.classes - 1) * float(np.exp(-self.epsilon)))}

    def events(self, rounds: int) -> tuple[Event, ...]:
        """One pure release, for any number of rounds."""
        count("rounds", rounds)
        return (Pure(self.epsilon),)

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """Returns the rows with noisy labels. Raises ValueError for a label outside the classes."""
        wrong = y[(y < 0) | (y >= self.classes)]
        if len(wrong):
            raise ValueError(f"labels hold {wrong[0]}; allowed: 0 to {self.classes - 1}")
        noisy = LabelDP(self.epsilon, words)(np.eye(self.classes)[y])  # (n, classes)
        return x, noisy.argmax(axis=1)
