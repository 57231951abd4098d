"""Sums of clipped gradients of single rows, and a proof of how far a row moves the sum as it is computed.

Unit of privacy: one record (row), or one person: all rows of a person, whose gradients are added and clipped
together. Neighbours: add or remove it. Norm: L2 over all parameters together. What follows speaks of rows;
for persons read "person". Persons of each width have blocks of their own, which are tested on their own
(`persons`).

What is computed. A block always has K rows; zeros fill empty places. For each row i the layers give numbers
a_i, e_i (`layers`), or the gradient itself. g_i is the exact gradient that these numbers stand for, and n_i
its norm as computed, n_i >= |g_i| / (1 + nu). Its weight is c_i = min(1, C' / n_i), or 0 for an empty place
and for a row whose n_i is not finite. The result S is the sum of c_i g_i as float64 matrix products give it.

Sensitivity. Let a data set have at most B rows, and add one row to a batch.

1. No other row's c_i g_i changes: it follows from the row, from K, and from the row's lane (`blocks`). This
assumes something of the machine's linear algebra: a row's numbers depend neither on the other rows of its
block nor on which of its lane's places it has. `trial` tests this bit by bit, on the task's model, before the
first step and every 1,000 steps. It does not hold for blocks without padding, nor across lanes. The proof
also assumes something of the model: no row leaves anything behind for another, and no mask is drawn for a
place. So `side_effects` refuses a pass that changes a tensor of the model or draws from torch's generator.

2. The new row's |c g| is at most C' (1 + nu).

3. An element of S is a sum of at most K t products from each block, t the positions of a layer. However a
conventional algorithm orders them, its error is at most gamma_N times the sum of the terms' absolute values,
N = K t + 8 + the number of blocks, with the largest K t of any width (Higham 2002, section 3.1). By
Minkowski's inequality the error of all elements has an L2 norm of at most gamma_N sum_i c_i m_i, where m_i is
the sum of the norms of row i's terms. It is at most rho n_i: rho = 1 for single products, and `Positions` and
`Lookup` count a row as at least m_i / rho long. Both batches have this error: 2 gamma_N B rho C' in all.

So S moves by at most C' (1 + nu + 2 gamma_N B rho), and C' is what makes this C. In float32 the last term
would exceed C at 30,000 rows; in float64 it is below 1e-6 for a million.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.arguments import count, positive
from mechanisms.gradients.blocks import Block, Way
from mechanisms.gradients.layers import RowGradients, add_all, gamma, norms_of
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.persons import group_by_width, widths
from mechanisms.gradients.trial import Trial
from mechanisms.noise.clipping import NotFinite

TRIED_EVERY = 1000
"""Steps after which a model is tried again, as it may take rows in another way by then."""
_SLACK = 2.0**-40  # more than the rounding of a norm's last steps and of a weight


@dataclass(frozen=True, slots=True)
class Batch:
    """What has no noise and stays with the rows' owner: the mean loss, and how many rows counted as zero.

    The mean is over all rows of the batch, where a loss that is not finite counts as 0; 0 for no rows.
    `not_finite`: the rows, or persons, whose gradient is not finite; they add nothing to the sum.
    """

    mean_loss: float
    not_finite: int


@dataclass(frozen=True, slots=True)
class RowSum:
    """A sum of clipped gradients, `vector` (d,) float64 in the order of the parameters, and what stays."""

    vector: NDArray[np.float64]
    stays: Batch


class ClippedSum:
    """Sums clipped gradients of single rows, by the fastest method that is right for the model.

    The fastest is book-keeping, for a model whose parameters each belong to a layer with a rule. The next is
    torch.func's `vmap`. A method is right if it agrees with gradients of single rows, and if a row's numbers
    do not depend on the other rows of its block. If neither is, rows are taken one at a time. Shapes and
    random stand-ins decide, never data. `method` says which method it is, and why.
    """

    def __init__(
        self,
        objective: Objective,
        radius: float,
        most_rows: int,
        expected_rows: float,
        rows_per_person: int | None = None,
    ) -> None:
        """`radius`: C. `most_rows`: no batch is longer; `expected_rows`: its mean. All are public.

        With `rows_per_person`, the most rows that any person has, both count persons. Raises NotByRow, a
        ValueError, for a layer that mixes rows or keeps something of them; TypeError for parameters that are
        not float32.
        """
        objective.check()
        self._objective = objective
        self._radius = positive("radius", radius)
        self._most = count("most_rows", most_rows)
        self._expected = min(positive("expected_rows", expected_rows), most_rows)
        self._by_person = rows_per_person is not None
        self._widths = widths(count("rows_per_person", rows_per_person or 1))
        self._choose_ways()

    def _choose_ways(self) -> None:
        """Tries the model as it is now and chooses a way for each width. Raises NotByRow if none is right."""
        trial = Trial(self._objective, self._expected / len(self._widths))
        way, self.method = trial.choose_way()
        self._ways = {1: way}
        found = {1: trial.found}
        for width in self._widths[1:]:
            self._ways[width], found[width] = trial.choose_person_way(way, width)
        self._clip = self._reduce_radius(found)
        self._left = TRIED_EVERY

    @property
    def block_rows(self) -> int:
        """K of the blocks of single rows."""
        return self._ways[1].rows

    def _reduce_radius(self, found: Mapping[int, Iterable[RowGradients]]) -> float:
        """Returns C', as the module defines it, for gradients of each width."""
        gradients = {width: list(parts) for width, parts in found.items()}
        every = [part for parts in gradients.values() for part in parts]
        nu = _SLACK + max(part.norm_error() for part in every)
        blocks = sum(way.most_blocks(self._most) for way in self._ways.values())
        longest = max(
            self._ways[width].rows * part.terms for width, parts in gradients.items() for part in parts
        )
        ratio = max(part.ratio for part in every)
        return self._radius / (1 + nu + 2 * gamma(longest + blocks + 8) * self._most * ratio)

    def __call__(self, x: torch.Tensor, y: torch.Tensor, persons: torch.Tensor | None = None) -> RowSum:
        """Returns the sum for x (n, ...) and y (n, ...); `persons` (n,): whose row each is, as whole numbers.

        n may be 0. Raises NotFinite if a parameter of the model is not finite, ValueError for more rows or
        persons than `most_rows`, and NotByRow if a new trial shows that the model takes rows together by now.
        """
        groups = self._groups(x, y, persons)
        if not all(_is_finite(parameter) for parameter in self._objective.parameters.values()):
            raise NotFinite("a parameter of the model is NaN or infinite")
        if not self._left:
            self._choose_ways()
        self._left -= 1
        vector, total = self._objective.zeros()
        losses, lost = 0.0, 0
        for width, tensors in groups:
            way = self._ways[width]
            for block in way.blocks(*tensors):
                loss, dropped = self._add_block(total, way, block)
                losses, lost = losses + loss, lost + dropped
        return RowSum(vector.cpu().numpy(), Batch(losses / max(1, len(x)), lost))

    def _groups(
        self, x: torch.Tensor, y: torch.Tensor, persons: torch.Tensor | None
    ) -> list[tuple[int, tuple[torch.Tensor, ...]]]:
        """Returns the tensors of each width. Raises ValueError for more rows or persons than allowed."""
        if (persons is not None) is not self._by_person:
            raise ValueError("persons must be given where rows_per_person is, and nowhere else")
        if persons is None:
            _check_most("x", "rows", len(x), "most_rows", self._most)
            return [(1, (x, y))]
        found = list(group_by_width(x, y, persons))
        _check_most("persons", "persons", sum(len(group.x) for group in found), "most_rows", self._most)
        widest, most = max((group.width for group in found), default=1), self._widths[-1]
        _check_most("a person", "places", widest, "rows_per_person", most)
        return [(group.width, group.tensors) for group in found]

    def _add_block(self, total: Mapping[str, torch.Tensor], way: Way, block: Block) -> tuple[float, int]:
        """Adds a block to `total`; returns the sum of its finite losses, and how many rows it left out."""
        gradients, losses = way.gradients(block)
        norms = norms_of(gradients)
        taken, finite = block.taken.to(norms.device), torch.isfinite(norms)
        weights = torch.where(taken & finite, (self._clip / norms).clamp_(max=1.0), 0.0)
        if not finite.all():
            gradients = {name: part.without(~finite) for name, part in gradients.items()}
        add_all(gradients, total, weights)
        own = losses[block.taken].double().nan_to_num(0.0, 0.0, 0.0)
        return float(own.sum()), int((taken & ~finite).sum())


def _check_most(whose: str, what: str, number: int, name: str, most: int) -> None:
    if number > most:
        raise ValueError(f"{whose} has {number} {what}; allowed: at most {name} = {most}")


def _is_finite(values: torch.Tensor) -> bool:
    """Whether all `values` are finite, which a finite sum shows fast."""
    return math.isfinite(float(values.detach().sum())) or bool(torch.isfinite(values).all())
