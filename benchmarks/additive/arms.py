"""A fresh split of a public table among three sites, and the models that learn from it.

The splits are none of `benchmarks.defaults`, on which the additive model was designed. Sites learn as those
of scenario `tables` do, but from all of their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from node.api.swarm import Swarm
from node.data.partition import even, hold_out
from node.system.errors import UserError
from scenarios.data.tables import SETS, Table, TableSet, table
from scenarios.tables.models import PrivateName, learn, learn_privately, with_steps
from scenarios.tables.prepared import prepare
from scenarios.tables.sites import SITES, Split

TRAIN_ROWS = {"adult": 32_561, "loan": 0}
"""As many as Adult's own split has; 0: all but the test rows."""
_SPLIT, _HELD_OUT, _SHARE = 67, 71, 0.2  # streams of random numbers
_NO_ROWS = 1e-4  # of a site's rows are held back: all learn from the training rows


def fresh_split(data: TableSet, whole: Table, number: int) -> Split:
    """Return split `number`: `data.train` rows among the sites and `data.test` rows, or all there are."""
    rng = np.random.default_rng([_SPLIT, number])
    kept, held_out = hold_out(whole.y, _SHARE, rng)
    kept, held_out = rng.permutation(kept), rng.permutation(held_out)
    kept = kept[: data.train or len(kept)]
    parts = even(len(kept), SITES, rng)
    return Split(
        tuple(whole.at(kept[part]) for part in parts), whole.at(held_out[: data.test or len(held_out)])
    )


def without_test_rows(split: Split, number: int) -> Split:
    """Return a split whose test rows are a fifth of the training rows, which no site has any more."""
    rng = np.random.default_rng([_HELD_OUT, number])
    pooled = split.pooled_rows
    kept, held_out = hold_out(pooled.y, _SHARE, rng)
    parts = even(len(kept), SITES, rng)
    return Split(tuple(pooled.at(kept[part]) for part in parts), pooled.at(held_out))


@dataclass(frozen=True)
class Numbered:
    """A split of the rows of a `whole` table, and its number, which is the seed of what learns from it."""

    number: int
    split: Split
    whole: Table

    def exact_auc(self, folder: Path) -> float:
        """Return the AUC of the test rows by curves that exact sums make. `folder`: for the sites' files."""
        sites = prepare(folder, self.split, self.whole, "csv", "additive", self.number, _NO_ROWS)
        return sites.figure(learn("additive", sites.task, sites.rows, self.number).model)

    def private_aucs(self, name: PrivateName, epsilons: Iterable[float], folder: Path) -> list[float]:
        """Return the AUC of the test rows after all steps with noise, for each epsilon."""
        sites = prepare(folder, self.split, self.whole, "csv", name, self.number, _NO_ROWS)
        found = (learn_privately(name, each, sites.task, sites.rows, self.number) for each in epsilons)
        return [sites.figure(each.model) for each in found]

    def nodes_auc(self, epsilon: float, folder: Path) -> float:
        """Return the AUC of an additive model of real nodes on loopback. Raises UserError."""
        sites = prepare(folder, self.split, self.whole, "csv", "additive", self.number, _NO_ROWS)
        task = with_steps(sites.task, sites.rows, epsilon)
        results = Swarm.local(SITES, task, list(sites.files), alone="no").run()
        if not results.agreed:
            raise UserError("the nodes ended with different models")
        return sites.figure(results.model)


def splits(name: str, data: Path, numbers: Iterable[int], in_all: bool = True) -> Iterator[Numbered]:
    """Yield splits of a data set in the folder `data`.

    `in_all`: whether a split has TRAIN_ROWS and all test rows, or as many as those of `benchmarks.defaults`.
    """
    of, whole = SETS[name], table(name, data)
    of = replace(of, train=TRAIN_ROWS[name], test=0) if in_all else of
    for number in numbers:
        yield Numbered(number, fresh_split(of, whole, number), whole)
