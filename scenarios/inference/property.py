"""Property inference: what of a client's data, that has nothing to do with the task, does its update tell?

Melis, Song, De Cristofaro & Shmatikov 2019, "Exploiting unintended feature leakage in collaborative
learning", section 5: the attacker trains shadow clients on rows of its own, some with the property and some
without, and a classifier that tells their updates apart; then it judges the updates that it sees.

Of a secure sum the attacker learns the property of one member as well as its classifier reads the sum. Even
who could count the members with the property would not know which: `counting_auc` is that one's AUC.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import count

Floats = NDArray[np.floating]
Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

_REGULARISATION = (
    0.01  # C of the logistic regression, for updates with more coordinates than there are shadows
)


@dataclass(frozen=True)
class Inferred:
    """How well a property is told from updates: area under the ROC curve, and the share told right."""

    auc: float
    accuracy: float


@dataclass(frozen=True)
class Makeup:
    """What a client's rows are: how many, and the share with the trait and with label 1.

    The labels' share is the same with and without the trait: a property is not read from the labels.
    """

    rows: int
    with_trait: float
    with_label: float

    def draw(self, pool: Rows, trait: Flags, y: Rows, rng: np.random.Generator) -> Rows:
        """Numbers of rows out of `pool`, without repetition; `trait` and `y` (n,) are of all rows.

        ValueError where the pool has too few of a kind.
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
    """(n, d): each of `updates` (n, d) with `members` - 1 others of them, drawn anew for each."""
    others = count("members", members) - 1
    if others >= len(updates):
        raise ValueError(f"sums of {members} are not to be had of {len(updates)} updates")
    found = np.array(updates)
    for place in range(len(updates)):
        drawn = rng.permutation(len(updates) - 1)[:others]
        found[place] += updates[np.where(drawn < place, drawn, drawn + 1)].sum(axis=0)
    return found


def inferred(known: Floats, known_property: Flags, seen: Floats, seen_property: Flags) -> Inferred:
    """A logistic regression on standardised shadow updates `known` (n, d), judged on `seen` (m, d)."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  seconds to import, needed here only
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
    """AUC for the property of one member of a sum, of one who counts the members that have it.

    The others have it by fair coins: P(D >= 0) + P(D = -1) / 2 for the difference D of two independent
    binomials of members - 1 coins, which is a binomial of twice as many coins less its mean.
    """
    others = count("members", members) - 1
    ways = [comb(2 * others, others + difference) for difference in range(-others, others + 1)]
    just_below = ways[others - 1] if others else 0
    return (sum(ways[others:]) + just_below / 2) / 4**others
