"""Property inference: which properties of a client's data, unrelated to the task, does its update reveal?

Melis, Song, De Cristofaro & Shmatikov 2019, "Exploiting unintended feature leakage in collaborative
learning", section 5: the attacker trains shadow clients on its own rows, some with the property and some
without, and a classifier that distinguishes their updates. The classifier then judges observed updates.

From a secure sum the attacker infers the property of one member by applying its classifier to the sum. Even
an attacker that knew the number of members with the property would not know which ones have it:
`counting_auc` is the AUC of this attacker.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from mechanisms.arguments import count
from mechanisms.mechanism import Mechanism
from mechanisms.noise.randomness import SeededWords
from node.data.partition import RowNumbers
from node.system.errors import ConfigError
from scenarios.data.dataset import FederatedDataset, Integers
from scenarios.federated.rounds import protection_facts
from scenarios.frame.digests import salt_of
from scenarios.inference.cell import AttackCell
from scenarios.study.cells import Outcome, Room
from scenarios.study.threads import one_thread

Floats = NDArray[np.floating]
Flags = NDArray[np.bool_]

_REGULARISATION = (
    0.01  # C of the logistic regression, for updates with more coordinates than there are shadows
)

COLUMNS = 107
FEMALE, MALE = 63, 64
RELATIONSHIP = range(52, 58)
"""Columns of scenarios.data.tabular.ADULT: the numbers, then each category's values in alphabetical order."""
FEATURES = COLUMNS - 2 - len(RELATIONSHIP)
MOSTLY, HARDLY, HIGH_INCOMES = 0.7, 0.3, 0.24
SHADOWS, CLIENTS = 400, 200
DRAWS = 5
"""The number of sums with each update, with different other updates."""
# Streams of random numbers: [one of these, seed].
_POOLS, _ROWS, _NOISE, _SUMS = 51, 52, 53, 54


@dataclass(frozen=True)
class Inferred:
    """How well updates reveal a property: area under the ROC curve, and the share of correct answers."""

    auc: float
    accuracy: float


@dataclass(frozen=True)
class Makeup:
    """A client's rows: their number, and the shares with the trait and with label 1.

    The share of labels is the same with and without the trait, so labels do not reveal the property.
    """

    rows: int
    with_trait: float
    with_label: float

    def draw(self, pool: RowNumbers, trait: Flags, y: Integers, rng: np.random.Generator) -> RowNumbers:
        """Draw row numbers from `pool` without repetition; `trait` (n,) and `y` (n,) are for all rows.

        Raises ValueError if the pool has too few rows of a kind.
        """
        bearers = round(self.with_trait * self.rows)
        found = []
        for has, size in ((True, bearers), (False, self.rows - bearers)):
            positive = round(self.with_label * size)
            for label, wanted in ((1, positive), (0, size - positive)):
                there = pool[(trait[pool] == has) & (y[pool] == label)]
                if len(there) < wanted:
                    kind = f"label {label}, {'with' if has else 'without'} the trait"
                    raise ValueError(f"{wanted} rows with {kind}, are not to be had of {len(there)}")
                found.append(rng.permutation(there)[:wanted])
        return np.concatenate(found)


def sums(updates: Floats, members: int, rng: np.random.Generator) -> Floats:
    """Sums (n, d): each of `updates` (n, d) plus `members` - 1 others, drawn separately for each.

    Raises ValueError if there are too few updates.
    """
    others = count("members", members) - 1
    if others >= len(updates):
        raise ValueError(f"sums of {members} are not to be had of {len(updates)} updates")
    found = np.array(updates)
    for place in range(len(updates)):
        drawn = rng.permutation(len(updates) - 1)[:others]
        found[place] += updates[np.where(drawn < place, drawn, drawn + 1)].sum(axis=0)
    return found


def inferred(known: Floats, known_property: Flags, seen: Floats, seen_property: Flags) -> Inferred:
    """Fit a logistic regression to standardised shadow updates `known` (n, d); judge it on `seen` (m, d)."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  a slow import, needed here only
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=_REGULARISATION, max_iter=2000))
    classifier.fit(known, known_property)
    right = classifier.predict(seen) == seen_property
    return Inferred(
        float(roc_auc_score(seen_property, classifier.decision_function(seen))), float(right.mean())
    )


def counting_auc(members: int) -> float:
    """The AUC for the property of one member, for an attacker that knows how many members of a sum have it.

    Each other member has it with probability 1/2. The AUC is P(D >= 0) + P(D = -1) / 2 for the difference D
    of two independent binomials of members - 1 coins: a binomial of twice as many coins minus its mean.
    """
    others = count("members", members) - 1
    ways = [comb(2 * others, others + difference) for difference in range(-others, others + 1)]
    just_below = ways[others - 1] if others else 0
    return (sum(ways[others:]) + just_below / 2) / 4**others


@dataclass(frozen=True)
class Clients:
    """The offered updates (n, d), and whether each client has the property, (n,)."""

    offers: Floats
    has: Flags

    def summed(self, members: int, rng: np.random.Generator) -> Clients:
        """`DRAWS` sums with each offer, labelled with its client's property; for 1 member the offers."""
        if members == 1:
            return self
        found = [sums(self.offers, members, rng) for _ in range(DRAWS)]
        return Clients(np.concatenate(found), np.tile(self.has, DRAWS))


@dataclass(frozen=True)
class PropertyCell(AttackCell):
    """Property inference as a cell of a sweep, on Adult: are most of a client's rows women?

    Sex and relationship (husband, wife) are removed from the features, and the share of high incomes is the
    same for both sexes, so only the other columns reveal the property. The attacker has half of the rows; the
    judged clients share the other half.

    Sums have `updates` offers of clients with `rows` rows each; the figure is the attack's AUC.
    """

    updates: int
    rows: int

    dataset: ClassVar[str] = "adult"
    kind: ClassVar[str] = "property"

    def check(self, room: Room) -> None:
        """Raise ConfigError unless the columns are Adult's, and model and mechanism can be made."""
        narrowed, _ = without_sex(room.dataset(self.dataset, self.seed))
        self.mechanism(self.built(narrowed), self.rows)

    def replay(self, room: Room) -> Outcome:
        """Run the attack in this process, with noise from the seed."""
        begun = time.perf_counter()
        narrowed, women = without_sex(room.dataset(self.dataset, self.seed))
        model = self.built(narrowed)
        mechanism = self.mechanism(model, self.rows)
        rng = np.random.default_rng([_SUMS, self.seed])
        with one_thread():
            shadows, clients = self._clients(narrowed, women, model, mechanism)
            known, seen = (part.summed(self.updates, rng) for part in (shadows, clients))
            found = inferred(known.offers, known.has, seen.offers, seen.has)
        room.say(1, found.auc)
        facts = {
            **protection_facts(mechanism),
            "accuracy": found.accuracy,
            "counting auc": counting_auc(self.updates),
        }
        return Outcome((found.auc,), facts, time.perf_counter() - begun)

    def _clients(
        self, narrowed: FederatedDataset, women: Flags, model: nn.Module, mechanism: Mechanism
    ) -> tuple[Clients, Clients]:
        """The attacker's shadow clients, and the clients that it judges."""
        order = np.random.default_rng([_POOLS, self.seed]).permutation(len(women))
        has = np.arange(SHADOWS + CLIENTS) % 2 == 1
        pools = [order[: len(order) // 2]] * SHADOWS + [order[len(order) // 2 :]] * CLIENTS
        rng = np.random.default_rng([_ROWS, self.seed])
        parts = [
            Makeup(self.rows, MOSTLY if own else HARDLY, HIGH_INCOMES).draw(
                pool, women, narrowed.train_y, rng
            )
            for pool, own in zip(pools, has, strict=True)
        ]
        words = SeededWords(np.random.default_rng([_NOISE, self.seed, salt_of(self.arm)]))
        offers = self.offered(narrowed, model, parts, mechanism, words)
        return Clients(offers[:SHADOWS], has[:SHADOWS]), Clients(offers[SHADOWS:], has[SHADOWS:])


def without_sex(dataset: FederatedDataset) -> tuple[FederatedDataset, Flags]:
    """Adult without sex and relationship, and which training rows are of women, (n,). Raises ConfigError."""
    x = dataset.train_x
    if x.shape[1:] != (COLUMNS,) or not (x[:, FEMALE] + x[:, MALE] == 1).all():
        raise ConfigError(
            f"data set adult has {x.shape[1]} features where the publisher's rows give {COLUMNS}: sex is not "
            "where it is looked for; take the publisher's files"
        )
    gone = [FEMALE, MALE, *RELATIONSHIP]
    train_x, test_x = np.delete(x, gone, axis=1), np.delete(dataset.test_x, gone, axis=1)
    narrowed = FederatedDataset(
        train_x=train_x,
        train_y=dataset.train_y,
        test_x=test_x,
        test_y=dataset.test_y,
        clients=None,
        classes=dataset.classes,
        description=f"{dataset.description}, without sex and relationship",
    )
    return narrowed, x[:, FEMALE] == 1
