"""Regression models by secure Newton sums: one part of a job for any likelihood.

    sum 1        rows, refusals, sums of the columns and of their squares, what the likelihood asks to begin
    sums 2 ...   the likelihood's value, gradient and Hessian at the point (node.jobs.statistics.newton)

The columns are first scaled by their public ranges, then by means and standard deviations from sum 1. With an
intercept, or a baseline hazard, that changes nothing but the conditioning of the Hessian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Words
from node.jobs.limbs import LIMBS, Limbs, limbs_of, to_numbers, to_words
from node.jobs.statistics.columns import Table
from node.jobs.statistics.design import DesignColumn, Matrix, complete
from node.jobs.statistics.newton import MOST_SUMS, Curve, Newton, Status
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

MOST_OF_ROWS = 0.33
"""The most parameters of a model, as a share of each member's rows: DataSHIELD's `nfilter.glm`."""
_UNIT = 2.0**-40  # of the first sum
_LEAST_DEVIATION = 1e-12


class Likelihood(Protocol):
    """What a model's sums are. z (n, q) is the matrix, with a first column of ones if `intercept`."""

    intercept: bool

    @property
    def unit(self) -> float:
        """The unit of its Newton sums, a power of two."""

    def responses(self, table: Table) -> Doubles:
        """Returns (n, r) responses, NaN where one is missing."""

    def beginning(self, responses: Doubles) -> Doubles:
        """Returns (b,) numbers from the complete rows, which `start` needs, each at most 1 in size a row."""

    def start(self, size: int, rows: float, beginnings: Doubles) -> Doubles:
        """Returns the first point (q,)."""

    def size(self, q: int) -> int:
        """Returns how many numbers a Newton sum has."""

    def sums(self, z: Doubles, responses: Doubles, point: Doubles) -> Doubles:
        """Returns a member's numbers (size(q),)."""

    def curve(self, limbs: Limbs, point: Doubles) -> Curve:
        """Returns the negative log likelihood, up to constants, from the limbs (size(q), 3) of a sum."""


@dataclass(frozen=True)
class ModelPart:
    """One model. A member refuses it with fewer complete rows than `least_rows`, or than q allows."""

    columns: tuple[DesignColumn, ...]
    likelihood: Likelihood
    least_rows: int

    @cached_property
    def matrix(self) -> Matrix:
        """The matrix of its columns."""
        return Matrix(self.columns)

    @property
    def size(self) -> int:
        """q: how many parameters it has."""
        return len(self.columns) + self.likelihood.intercept

    @property
    def length(self) -> int:
        """See Part."""
        return Newton.length(self.size, len(self.columns))

    @cached_property
    def _beginnings(self) -> int:
        return len(self.likelihood.beginning(np.zeros((0, 2))))

    def words(self, generation: int) -> int:
        """See Part."""
        if generation == 0:
            return LIMBS * (2 + 2 * len(self.columns) + self._beginnings)
        return LIMBS * self.likelihood.size(self.size) if generation <= MOST_SUMS else 0

    def newton(self, state: Floats) -> Newton:
        """Returns the state of Newton's method."""
        return Newton.of(state, self.size)

    def is_over(self, state: Floats) -> bool:
        """See Part."""
        return self.newton(state).status > Status.RUNNING

    def contribution(self, state: Floats, generation: int, table: Table) -> Words:
        """See Part."""
        newton = self.newton(state)
        words = self.words(generation)
        if not words or newton.status > Status.RUNNING:
            return np.zeros(words, np.uint32)
        responses, u = self.likelihood.responses(table), self.matrix.scaled(table)
        kept = complete(responses, u)
        responses, u = responses[kept], u[kept]
        if generation == 0:
            if len(u) < self.least_rows or self.size > MOST_OF_ROWS * len(u):
                return to_words(np.array([0.0, 1.0, *np.zeros(words // LIMBS - 2)]), _UNIT)
            begin = self.likelihood.beginning(responses)
            return to_words(np.concatenate([[len(u), 0.0], u.sum(axis=0), (u * u).sum(axis=0), begin]), _UNIT)
        z = (u - newton.scales[0]) / newton.scales[1]
        if self.likelihood.intercept:
            z = np.concatenate([np.ones((len(z), 1)), z], axis=1)
        return to_words(self.likelihood.sums(z, responses, newton.point), self.likelihood.unit)

    def following(self, state: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """See Part."""
        newton = self.newton(state)
        if newton.status > Status.RUNNING:
            return state.copy()
        if generation == 0:
            return self._begun(newton, to_numbers(limbs_of(summed), _UNIT)).to_state()
        return newton.after(self.likelihood.curve(limbs_of(summed), newton.point)).to_state()

    def _begun(self, newton: Newton, sums: Doubles) -> Newton:
        rows, refusals = sums[:2].tolist()
        if refusals > 0 or rows == 0:
            return newton.ended(Status.REFUSED)
        p = len(self.columns)
        means, squares = sums[2 : 2 + p] / rows, sums[2 + p : 2 + 2 * p] / rows
        deviations = np.sqrt(np.maximum(squares - means * means, 0.0))
        is_constant = deviations < _LEAST_DEVIATION
        return Newton(
            status=Status.COLLINEAR if is_constant.any() else Status.RUNNING,
            rows=rows,
            sums=0.0,
            halvings=0.0,
            first=0.0,
            value=0.0,
            point=self.likelihood.start(self.size, rows, sums[2 + 2 * p :]),
            step=newton.step,
            hessian=newton.hessian,
            scales=np.stack([means, np.where(is_constant, 1.0, deviations)]),
        )
