"""Boosted trees as a job: cells and a first score as the additive model has them, then a sum for each level.

    generation 0 and on       the sums of counts of AdditiveJob, then `curve_sums` of its Newton sums
    first level and on        slopes and curvatures of the loss by node and cell; with the first level of a
                              tree also the loss on rows that members hold out, after all trees before

The first level has a generation that `depth` divides, so that each tree has a round; what lies before it has
no words, nor have Newton sums of curves that stand still. Cells and curves are of all rows, trees of those
that are not held out. The loss on these says how many trees stay: none if they do not help. All outputs grow
a tree at once, until `patience` trees did not lower the loss.

A row's slope is at most its class's weight, or for numbers cut to FARTHEST standard deviations; so one word
holds the sum of all rows. Exact sums are for the members of the first sum alone (node.jobs.cohort).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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
from node.models.additive import Additive
from node.models.tree_ensemble import CELL_BITS, added, ensemble_shape, leaves
from node.models.trees import Trees
from node.storage.vector_files import Floats
from node.system.errors import counted
from protocol.wire.ids import Key

FARTHEST = 8.0
_WORD_BITS = 30
_SCORE = 3 + 4  # words of a base: best and grown trees, over; the loss of the best
_NO_WORDS = np.zeros(1, np.uint32)  # a sum has a word


@dataclass(frozen=True)
class Rows:
    """A member's encoded rows `x` (n, features) and targets `y` (n,)."""

    x: torch.Tensor
    y: NDArray[np.generic]

    def and_also(self, other: Rows) -> Rows:
        """Returns the rows of both."""
        return Rows(torch.cat([self.x, other.x]), np.concatenate([self.y, other.y]))


@dataclass(frozen=True)
class Forest:
    """At most so many `trees` of an output, of so many levels; `curve_sums`: Newton sums of curves before."""

    trees: int = 100
    depth: int = 4
    curve_sums: int = 0
    rate: float = 0.1
    patience: int = 20


@dataclass(frozen=True)
class _Scored:
    """Rows' cells, their scores by `curves`, and what the trees `grown` add: an exact sum of float64."""

    curves: Floats
    grown: Floats
    cells: torch.Tensor
    by_curves: Doubles
    by_trees: Doubles

    @property
    def scores(self) -> Doubles:
        """(outputs, n)."""
        return self.by_curves + self.by_trees

    def is_before(self, curves: Floats, grown: Floats) -> bool:
        """Whether the trees are the first ones of these, on the same curves."""
        return np.array_equal(self.curves, curves) and np.array_equal(
            self.grown, grown[:, : self.grown.shape[1]]
        )


class TreesJob:
    """The job of a member with rows to learn from and rows held out, maybe none."""

    def __init__(self, plan: Plan, forest: Forest, rows: Rows, held_out: Rows) -> None:
        """Raises UserError for too few rows, as AdditiveJob does; ValueError for too large a forest."""
        self._plan, self._forest, self._rows, self._held_out = plan, forest, rows, held_out
        whole = rows.and_also(held_out)
        self._curves = AdditiveJob(plan, whole.x, whole.y)
        body = self._curves.body
        self._columns, self._size = body.columns, body.size
        self._starts = torch.tensor([column.start for column in self._columns])
        self._shape = ensemble_shape(plan.outputs, forest.trees, forest.depth, body.widest)
        self._curve_end = self._curves.count_sums + forest.curve_sums
        self._first = forest.depth * math.ceil(self._curve_end / forest.depth)
        self._trees_at = self._curves.length + _SCORE
        self._scored: dict[int, _Scored] = {}

    @property
    def length(self) -> int:
        """d: the curves' base, the loss, and the nodes of a `TreeEnsemble`."""
        return self._trees_at + math.prod(self._shape)

    @property
    def most_sums(self) -> int:
        """The most sums of the job."""
        return self._first + self._forest.trees * self._forest.depth

    @property
    def round_sums(self) -> int:
        """How many sums are a round, as people count them: the levels of a tree."""
        return self._forest.depth

    @property
    def purposes(self) -> tuple[tuple[str, int], ...]:
        """What its sums are for, each in a word, and how many."""
        counts, trees = self._curves.count_sums, self.most_sums - self._first
        return (("cells", counts), ("curves", self._first - counts), ("trees", trees))

    @property
    def course(self) -> str:
        """How many sums it makes, in words, for who is about to take part."""
        trees, depth = self._forest.trees, self._forest.depth
        before = self._curves.course if self._forest.curve_sums else f"{self._curves.count_sums} for cells"
        return f"{before}, then {depth} for each tree while trees help, {trees} at most"

    def made(self, base: Floats) -> str:
        """Returns how many trees stay, and why no more do; empty until the job is over."""
        if not self.is_over(base):
            return ""
        kept, grown = self._kept(base), int(base[self._curves.length + 1]) + 1
        first = "curves" if self._forest.curve_sums else ""
        if kept == 0 and first:
            return f"curves alone: {counted(grown, 'tree')} did not lower the loss on rows held back"
        rest = f" (of {grown}: more did not lower the loss on rows held back)" if kept < grown else ""
        return f"{' and '.join(filter(None, (first, counted(kept, 'tree'))))}{rest}"

    def words(self, generation: int) -> int:
        """Returns the words of a sum of the curves, or of a level."""
        if generation < self._curve_end:
            return self._curves.words(generation)
        if generation < self._first:
            return len(_NO_WORDS)
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
        curves = base[: self._curves.length]
        if generation < self._first:
            if self._stands_still(curves, generation):
                return Contributed(np.zeros(self.words(generation), np.uint32))
            return self._curves.contribution(curves, generation)
        number, level = divmod(generation - self._first, self._forest.depth)
        own = self._scores(base, self._rows, number)
        nodes = torch.from_numpy(self._grown(base)[:, number].copy())
        places = (own.cells + self._starts).numpy()
        unit, above, found, deviance = self._unit(base), 2**level - 1, [], 0.0
        for output in range(self._plan.outputs):
            curved, residuals, loss = self._losses(self._rows, own.scores[output], output)
            deviance += loss
            node = leaves(nodes[output : output + 1], own.cells, level)[:, 0].numpy() - above
            there = node >= 0  # other rows are in a leaf above
            keys = (node[there, None] * self._size + places[there]).ravel()
            for values in (-residuals, curved):
                spread = np.repeat(values[there], places.shape[1])
                found.append(np.bincount(keys, spread, 2**level * self._size) / unit)
        words = np.rint(np.concatenate(found)).astype(np.int64).astype(np.uint32)
        if level:
            return Contributed(words)
        held = self._scores(base, self._held_out, number).scores
        loss = sum(self._losses(self._held_out, each, output)[2] for output, each in enumerate(held))
        told = limbs.to_words(np.array([loss, len(self._held_out.y)]), UNIT)
        mean = deviance / len(self._rows.y)
        return Contributed(np.concatenate([words, told]), mean / 2 if self._plan.weights else mean)

    def _stands_still(self, curves: Floats, generation: int) -> bool:
        """Whether a sum before the trees adds nothing: its curves stand still, or there are none any more."""
        return generation >= self._curve_end or self._curves.is_over(curves)

    def _losses(self, rows: Rows, scores: Doubles, output: int) -> tuple[Doubles, Doubles, float]:
        if not self._plan.weights:
            curved, residuals, loss = of_numbers(scores, rows.y.astype(np.float64))
            return curved, np.clip(residuals, -FARTHEST, FARTHEST), loss
        chosen = 1 if self._plan.outputs == 1 else output
        return of_classes(scores, rows.y == chosen, np.array(self._plan.weights)[rows.y])

    def _scores(self, base: Floats, rows: Rows, trees: int) -> _Scored:
        """Returns the rows' cells (n, columns) and the scores (outputs, n) after so many trees.

        It goes on from the scores before, if they are of the same curves and trees.
        """
        curves, grown = base[: self._curves.length], self._grown(base)[:, :trees]
        last = self._scored.get(id(rows))
        if last is None or not last.is_before(curves, grown):
            cells, scores = self._curves.scores(curves, rows.x)
            last = _Scored(
                curves.copy(), grown[:, :0], torch.from_numpy(cells), scores, np.zeros_like(scores)
            )
        done = last.grown.shape[1]
        if done < trees:
            nodes = torch.from_numpy(grown[:, done:].copy())
            more = [added(each, last.cells, self._forest.depth).double().sum(1).numpy() for each in nodes]
            last = replace(last, grown=grown.copy(), by_trees=last.by_trees + np.stack(more))
        self._scored[id(rows)] = last
        return last

    # -- what all compute alike

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the base after a sum of the curves, or a level."""
        found, curves = base.copy(), base[: self._curves.length]
        if generation < self._first:
            if not self._stands_still(curves, generation):
                found[: len(curves)] = self._curves.following(curves, generation, summed, members)
            return found
        score = found[len(curves) : self._trees_at]
        number, level = divmod(generation - self._first, self._forest.depth)
        nodes = 2**level
        split = self._plan.outputs * 2 * nodes * self._size
        sums = (
            summed[:split].view(np.int32).astype(np.int64).reshape(self._plan.outputs, 2, nodes, self._size)
        )
        if level == 0:
            total, rows = limbs.to_numbers(limbs.limbs_of(summed[split:]), UNIT)
            self._judge(score, number, float(total) / max(1.0, float(rows)), rows > 0)
        grown = self._grown(found)
        for output, (slopes, curvatures) in enumerate(sums):
            best = splits(Sums(slopes, curvatures), self._columns, self._unit(base), self._forest.rate)
            self._grow(grown[output, number], level, best)
        if level == self._forest.depth - 1:
            self._end(score, number)
        return found

    def _judge(self, score: Floats, grown: int, loss: float, is_known: bool) -> None:
        """Notes the loss after so many trees; with no rows held out all trees stay."""
        best = float(limbs.doubles_of(score[3:])[0])
        score[1] = grown
        if grown == 0 or loss < best or not is_known:
            score[0], score[3:] = grown, limbs.to_state(np.array([loss]))

    def _end(self, score: Floats, number: int) -> None:
        """Notes after a tree whether the job is over."""
        is_last, helped = number == self._forest.trees - 1, score[0] == number
        score[2] = is_last or number - score[0] >= self._forest.patience
        if is_last and helped:  # as all before the last tree did, it stays, too
            score[0] += 1

    def _grow(self, nodes: Floats, level: int, best: Splits) -> None:
        """Writes a level's splits into the nodes (nodes, numbers) of a tree."""
        first = 2**level - 1
        if level == 0:
            nodes[0, 1] = best.own[0]
        limb = self._shape[-1] - 2
        for place in np.flatnonzero(best.columns >= 0).tolist():
            node = first + place
            bits = np.zeros(limb * CELL_BITS, np.int64)
            bits[: best.left.shape[1]] = best.left[place]
            nodes[node, 0] = best.columns[place] + 1
            nodes[node, 2:] = (bits.reshape(limb, CELL_BITS) << np.arange(CELL_BITS)).sum(1)
            nodes[2 * node + 1 : 2 * node + 3, 1] = best.values[place]

    def _unit(self, base: Floats) -> float:
        rows = self._curves.all_rows(base[: self._curves.length])
        most = max(self._plan.weights) if self._plan.weights else FARTHEST
        return 2.0 ** (math.frexp(rows * most)[1] - _WORD_BITS)

    def _grown(self, base: Floats) -> Floats:
        """Returns a view of the trees: (outputs, trees, nodes, numbers)."""
        return base[self._trees_at :].reshape(self._shape)

    def _kept(self, base: Floats) -> int:
        return int(base[self._curves.length + (0 if self.is_over(base) else 1)])

    def model(self, base: Floats) -> Additive | Trees:
        """Returns the model of a base: its curves if it has Newton sums, and the trees that lowered the loss.

        Until the job is over, it has all trees that are grown.
        """
        plan, forest, many = self._plan, self._forest, self._plan.outputs > 1
        curves = self._curves.model(base[: self._curves.length])
        kept = self._kept(base)
        nodes = torch.from_numpy(self._grown(base)[:, :kept].copy())
        if not forest.curve_sums:
            trees = Trees(plan.columns, plan.outputs, plan.cells, many, forest.trees, forest.depth)
            trees.body.load_state_dict(curves.body.state_dict())
            trees.base.data.copy_(curves.base)
            trees.trees.nodes[:, :kept] = nodes
            return trees
        found = Additive(plan.columns, plan.outputs, plan.cells, (), many, forest.trees, forest.depth)
        found.load_state_dict(curves.state_dict(), strict=False)
        if found.interactions is not None:
            found.interactions.nodes[:, :kept] = nodes
        return found
