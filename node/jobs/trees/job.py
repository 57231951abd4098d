"""Boosted trees as a job: cells and a first score as the additive model has them, then a sum for each level.

    the sums of counts of AdditiveJob, then `curve_sums` of its Newton sums, 0 for trees alone
    level of a tree: slopes and curvatures of the loss by node and cell; with the first level also the loss on
    rows that members hold out, after all trees before

Trees find interactions, which curves have not. The loss on held-out rows decides how many trees stay: none if
they do not help. All outputs grow a tree at once, until PATIENCE trees did not lower the loss.

A row's slope is at most its class's weight, or for numbers cut to FARTHEST standard deviations; so one word
holds the sum of all rows. Exact sums are for the members of the first sum alone (node.jobs.cohort).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from node.jobs import limbs
from node.jobs.additive.job import AdditiveJob
from node.jobs.additive.newton import of_classes, of_numbers
from node.jobs.additive.state import UNIT, Plan
from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Contributed, Words
from node.jobs.trees.growth import Splits, Sums, splits
from node.models.trees import Trees, leaves
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

PATIENCE = 20
FARTHEST = 8.0
_WORD_BITS, _MASK_BITS = 30, 16
_SCORE = 3 + 2 * 4  # words of a base: best and grown trees, over; loss of the best, loss of the curves


@dataclass(frozen=True)
class Rows:
    """A member's encoded rows `x` (n, features) and targets `y` (n,)."""

    x: torch.Tensor
    y: NDArray[np.generic]


@dataclass(frozen=True)
class Forest:
    """At most so many `trees` of an output, of so many levels; `curve_sums`: Newton sums of curves before."""

    trees: int = 100
    depth: int = 4
    curve_sums: int = 0


@dataclass(frozen=True)
class _Scored:
    """Rows' cells and scores on curves and trees."""

    curves: Floats
    grown: Floats
    cells: NDArray[np.int64]
    scores: Doubles

    def is_before(self, curves: Floats, grown: Floats) -> bool:
        """Whether the trees are the first ones of these, on the same curves."""
        return np.array_equal(self.curves, curves) and np.array_equal(
            self.grown, grown[:, : self.grown.shape[1]]
        )


class TreesJob:
    """The job of a member with rows to learn from and rows held out, maybe none."""

    def __init__(self, plan: Plan, forest: Forest, rows: Rows, held_out: Rows) -> None:
        """Raises UserError for too few rows, as AdditiveJob does."""
        self._plan, self._forest, self._rows, self._held_out = plan, forest, rows, held_out
        self._curves = AdditiveJob(plan, rows.x, rows.y)
        self._columns, self._size = self._curves.columns, self._curves.size
        self._first = self._curves.count_sums + forest.curve_sums
        self._nodes = 2 ** (forest.depth + 1) - 1
        self._limbs = math.ceil(max(column.size for column in self._columns) / _MASK_BITS)
        self._shape = plan.outputs, forest.trees, self._nodes, 2 + self._limbs
        self._trees_at = self._curves.length + _SCORE
        self._scored: dict[int, _Scored] = {}

    @property
    def length(self) -> int:
        """d: the curves' base, the loss, and of each node its column, value and cells."""
        return self._trees_at + math.prod(self._shape)

    def words(self, generation: int) -> int:
        """Returns the words of a sum of the curves, or of a level."""
        if generation < self._first:
            return self._curves.words(generation)
        level = (generation - self._first) % self._forest.depth
        return self._plan.outputs * 2 ** (level + 1) * self._size + (0 if level else 2 * limbs.LIMBS)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns (): nothing has noise."""
        return ()

    def initial(self) -> Floats:
        """Returns base 0."""
        return np.zeros(self.length, np.float32)

    def is_over(self, base: Floats) -> bool:
        """Returns whether all trees are grown, or the last ones did not help."""
        return bool(base[self._curves.length + 2])

    # -- one's own rows

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns this member's words: those of the curves, or its rows' slopes and curvatures by cell."""
        if generation < self._first:
            return self._curves.contribution(base[: self._curves.length], generation)
        number, level = divmod(generation - self._first, self._forest.depth)
        cells, scores = self._scores(base, self._rows, number)
        column, left, _ = self._parts(self._grown(base)[:, number : number + 1])
        places = cells + np.array([column.start for column in self._columns])
        unit, nodes, found = self._unit(base), 2**level, []
        for output in range(self._plan.outputs):
            curved, residuals, _ = self._losses(self._rows, scores[output], output)
            at = leaves(column[output], left[output], torch.from_numpy(cells), level)
            node = at[:, 0].numpy() - (nodes - 1)
            there = node >= 0  # other rows are in a leaf above
            keys = (node[there, None] * self._size + places[there]).ravel()
            for values in (-residuals, curved):
                spread = np.repeat(values[there], places.shape[1])
                found.append(np.bincount(keys, spread, nodes * self._size) / unit)
        words = np.rint(np.concatenate(found)).astype(np.int64).astype(np.uint32)
        if level:
            return Contributed(words)
        held = self._scores(base, self._held_out, number)[1]
        loss = sum(self._losses(self._held_out, each, output)[2] for output, each in enumerate(held))
        told = limbs.to_words(np.array([loss, len(self._held_out.y)]), UNIT)
        return Contributed(np.concatenate([words, told]))

    def _losses(self, rows: Rows, scores: Doubles, output: int) -> tuple[Doubles, Doubles, float]:
        if not self._plan.weights:
            curved, residuals, loss = of_numbers(scores, rows.y.astype(np.float64))
            return curved, np.clip(residuals, -FARTHEST, FARTHEST), loss
        chosen = 1 if self._plan.outputs == 1 else output
        return of_classes(scores, rows.y == chosen, np.array(self._plan.weights)[rows.y])

    def _scores(self, base: Floats, rows: Rows, trees: int) -> tuple[NDArray[np.int64], Doubles]:
        """Returns the rows' cells (n, columns) and the scores (outputs, n) after so many trees.

        It goes on from the scores before, if they are of the same curves and trees.
        """
        curves, grown = base[: self._curves.length], self._grown(base)[:, :trees]
        last = self._scored.get(id(rows))
        if last is None or not last.is_before(curves, grown):
            last = _Scored(curves, grown[:, :0], *self._curves.scores(curves, rows.x))
        done, scores = last.grown.shape[1], last.scores.copy()
        column, left, value = self._parts(grown[:, done:])
        for output in range(self._plan.outputs if done < trees else 0):
            at = leaves(column[output], left[output], torch.from_numpy(last.cells), self._forest.depth)
            scores[output] += value[output].double().gather(1, at.T).sum(0).numpy()
        self._scored[id(rows)] = _Scored(curves.copy(), grown.copy(), last.cells, scores)
        return last.cells, scores

    # -- what all compute alike

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the base after a sum of the curves, or a level."""
        found, curves = base.copy(), self._curves.length
        if generation < self._first:
            found[:curves] = self._curves.following(base[:curves], generation, summed, members)
            return found
        number, level = divmod(generation - self._first, self._forest.depth)
        nodes = 2**level
        split = self._plan.outputs * 2 * nodes * self._size
        sums = (
            summed[:split].view(np.int32).astype(np.int64).reshape(self._plan.outputs, 2, nodes, self._size)
        )
        if level == 0:
            total, rows = limbs.to_numbers(limbs.limbs_of(summed[split:]), UNIT)
            self._judge(
                found[curves : self._trees_at], number, float(total) / max(1.0, float(rows)), rows > 0
            )
        grown = self._grown(found)
        for output, (slopes, curvatures) in enumerate(sums):
            best = splits(Sums(slopes, curvatures), self._columns, self._unit(base))
            self._grow(grown[output, number], level, best)
        if level == self._forest.depth - 1 and number == self._forest.trees - 1:
            found[curves + 2] = 1
            if found[curves] == number:  # all before the last tree helped, so it stays, too
                found[curves] += 1
        return found

    def _judge(self, score: Floats, grown: int, loss: float, is_known: bool) -> None:
        """Notes the loss after so many trees; with no rows held out all trees stay."""
        best = float(limbs.doubles_of(score[3:7])[0])
        score[1] = grown
        if grown == 0 or loss < best or not is_known:
            score[0], score[3:7] = grown, limbs.to_state(np.array([loss]))
        score[2] = grown - score[0] >= PATIENCE

    def _grow(self, nodes: Floats, level: int, best: Splits) -> None:
        """Writes a level's splits: of each node its column + 1, its value, and its cells in limbs."""
        first = 2**level - 1
        if level == 0:
            nodes[0, 1] = best.own[0]
        weights = 1 << np.arange(_MASK_BITS)
        for place in np.flatnonzero(best.columns >= 0).tolist():
            node = first + place
            bits = np.zeros(self._limbs * _MASK_BITS, np.int64)
            bits[: best.left.shape[1]] = best.left[place]
            nodes[node, 0] = best.columns[place] + 1
            nodes[node, 2:] = (bits.reshape(self._limbs, _MASK_BITS) * weights).sum(1)
            nodes[2 * node + 1 : 2 * node + 3, 1] = best.values[place]

    def _unit(self, base: Floats) -> float:
        rows = self._curves.all_rows(base[: self._curves.length])
        most = max(self._plan.weights) if self._plan.weights else FARTHEST
        return 2.0 ** (math.frexp(rows * most)[1] - _WORD_BITS)

    def _grown(self, base: Floats) -> Floats:
        """Returns a view of the trees: (outputs, trees, nodes, 2 + limbs)."""
        return base[self._trees_at :].reshape(self._shape)

    def _parts(self, nodes: Floats) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns columns, cells to the left and values, as `Trees` has them."""
        widest = max(column.size for column in self._columns)
        limb = nodes[..., 2:].astype(np.int64)
        bits = (limb[..., None] >> np.arange(_MASK_BITS)) & 1  # (..., limbs, bits)
        left = bits.reshape(*limb.shape[:-1], self._limbs * _MASK_BITS)[..., :widest].astype(bool)
        parts = nodes[..., 0].astype(np.int64) - 1, left, np.ascontiguousarray(nodes[..., 1])
        column, mask, value = map(torch.from_numpy, parts)
        return column, mask, value

    def model(self, base: Floats) -> Trees:
        """Returns the model of a base: its curves, and the trees that lowered the loss."""
        plan, forest = self._plan, self._forest
        many = plan.outputs > 1
        found = Trees(plan.columns, plan.outputs, plan.cells, forest.trees, forest.depth, many)
        curves = self._curves.model(base[: self._curves.length])
        found.curves.load_state_dict(curves.state_dict())
        column, left, value = self._parts(self._grown(base))
        kept = int(base[self._curves.length + (0 if self.is_over(base) else 1)])
        for buffer, part in ((found.column, column), (found.left, left), (found.value, value)):
            buffer[:, :kept] = part[:, :kept]
        return found
