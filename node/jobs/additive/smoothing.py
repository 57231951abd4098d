"""Curves from sums: penalised Newton steps, and how smooth each curve is, from the same sums.

With H = X'WX, g = X'W(z - X beta), and S = sum over k of lambda_k S_k + ridge, a step is

    V = (H / phi + S)^-1,     beta = V (H beta + g) / phi

Each penalty S_k has a lambda of its own: for a column of numbers the squared second differences of its
cells, with the square of the missing cell, and the square of the linear trend, which those leave free (Marra
& Wood 2011); for other columns the sum of squares. Their ranges are orthogonal, and then

    lambda_k <- lambda_k (rank S_k / lambda_k - tr(V S_k)) / (beta' S_k beta)

raises the marginal likelihood (Fellner & Schall; Wood & Fasiolo 2017, equation 4). The mean of a curve over
its rows is what the base score has, too. It is held at 0, which changes no score and gives each curve the
standard errors of its shape.

All members compute the same bits (node.jobs.exact_arithmetic).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles, factorise, total
from node.system.errors import UserError

RIDGE = 1e-3
_UPDATES = 3  # of all lambdas, from one sum
_MOST_CHANGE, _LEAST, _MOST = 30.0, 1e-3, 1e6
_STILL = 1.05  # lambdas that change by less than this factor stand still
_HELD = 64.0  # by how many times all rows' weight a curve's mean is held at 0
_CLOSE = 1e-4  # the share of the deviance whose change ends the steps


@dataclass(frozen=True)
class Penalty:
    """S_k: `matrix` (m, m) at the coefficients of `block`, one of the design's, of this `rank`."""

    block: int
    matrix: Doubles
    rank: int


@dataclass(frozen=True)
class Design:
    """The cells that have a coefficient: those of one column lie together.

    `blocks`: the coefficients of each column; `ordered`: how many of them, from the first, are cells of
    numbers in their order; `rows` (p - 1,): of each cell. The last coefficient is the base score.
    """

    blocks: tuple[slice, ...]
    ordered: tuple[int, ...]
    rows: NDArray[np.int64]

    @property
    def size(self) -> int:
        """p: the number of coefficients."""
        return len(self.rows) + 1

    @cached_property
    def penalties(self) -> tuple[Penalty, ...]:
        """All S_k."""
        found: list[Penalty] = []
        for place, (block, ordered) in enumerate(zip(self.blocks, self.ordered, strict=True)):
            size = block.stop - block.start
            if ordered < 3:
                found.append(Penalty(place, np.eye(size), size - 1))
                continue
            differences = np.diff(np.eye(ordered), n=2, axis=0)
            curvature, trend = np.zeros((size, size)), np.zeros((size, size))
            curvature[:ordered, :ordered] = (differences[:, :, None] * differences[:, None, :]).sum(0)
            curvature[range(ordered, size), range(ordered, size)] = 1.0
            steps = np.arange(ordered) - (ordered - 1) / 2
            trend[:ordered, :ordered] = steps[:, None] * steps[None, :] / (ordered * (ordered**2 - 1) / 12)
            found += [Penalty(place, curvature, size - 2), Penalty(place, trend, 1)]
        return tuple(found)

    def penalty(self, lambdas: Doubles, weight: float) -> list[Doubles]:
        """Returns S by block: penalties, ridge, and what holds means at 0; `weight`: that of all rows."""
        found = []
        for block in self.blocks:
            rows = self.rows[block].astype(np.float64)
            shares = rows / max(1.0, float(self.rows[block].sum()))
            held = shares[:, None] * shares[None, :] * (_HELD * weight)
            held[range(len(rows)), range(len(rows))] = np.diagonal(held) + RIDGE
            found.append(held)
        for penalty, factor in zip(self.penalties, lambdas.tolist(), strict=True):
            found[penalty.block] = found[penalty.block] + penalty.matrix * factor
        return found


@dataclass(frozen=True)
class NewtonSums:
    """Sums over all rows at some coefficients: X'WX (p, p), X'(y - mu) (p,), the deviance, and the rows."""

    curvature: Doubles
    slope: Doubles
    deviance: float
    rows: float


@dataclass(frozen=True)
class Fit:
    """Coefficients (p,), smoothing (k,), and what the sums say that were taken at the coefficients `before`.

    `dispersion` is phi, 1 for classes. `errors` (p,): the standard error of each coefficient.
    """

    coefficients: Doubles
    before: Doubles
    lambdas: Doubles
    errors: Doubles
    deviance: float = float("inf")
    dispersion: float = 1.0
    is_over: bool = False

    @classmethod
    def begin(cls, design: Design, base: float) -> Fit:
        """Returns the fit of which only the base score is known."""
        found = np.zeros(design.size)
        found[-1] = base
        return cls(found, found, np.ones(len(design.penalties)), np.zeros(design.size))

    def after(self, design: Design, sums: NewtonSums, is_gaussian: bool) -> Fit:
        """Returns the fit after the sums at its coefficients.

        If the step that led to them has raised what it was to lower, it is halved: one more sum.
        """
        weight = float(sums.curvature[-1, -1]) / self.dispersion
        if self.deviance < float("inf"):
            penalty = design.penalty(self.lambdas, weight)
            found, old = (
                deviance / self.dispersion + _square(design, penalty, coefficients)
                for deviance, coefficients in (
                    (sums.deviance, self.coefficients),
                    (self.deviance, self.before),
                )
            )
            if found > old + _CLOSE * abs(old):
                return replace(self, coefficients=(self.coefficients + self.before) / 2)
        smooth = _smoothed(design, sums, self, is_gaussian)
        change = abs(self.deviance - sums.deviance)
        return replace(smooth, is_over=change <= _CLOSE * max(1.0, sums.deviance))


@dataclass(frozen=True)
class Step:
    """Coefficients (p,) after a step at fixed lambdas, and blocks of V: the design's, then the base's."""

    coefficients: Doubles
    blocks: Sequence[Doubles]

    @property
    def errors(self) -> Doubles:
        """(p,): the standard error of each coefficient."""
        return np.sqrt(np.concatenate([np.diagonal(block) for block in self.blocks]))


def step(design: Design, sums: NewtonSums, fit: Fit, penalty: Sequence[Doubles]) -> Step:
    """Returns a penalised Newton step from sums at the coefficients of `fit`, with its dispersion."""
    target = total(sums.curvature * fit.coefficients[:, None]) + sums.slope
    matrix = sums.curvature / fit.dispersion
    for block, part in zip(design.blocks, penalty, strict=True):
        matrix[block, block] = matrix[block, block] + part
    factors = factorise(matrix, 0.0)
    if factors is None:  # the ridge keeps all pivots of such sums positive
        raise UserError("the sums are none of rows: a member's computer is at fault; begin anew with --again")
    blocks = factors.inverse_blocks([*design.blocks, slice(design.size - 1, design.size)])
    return Step(factors.solve(target / fit.dispersion), blocks)


def _smoothed(design: Design, sums: NewtonSums, fit: Fit, is_gaussian: bool) -> Fit:
    """Returns the fit after a step, its lambdas and, of numbers, its dispersion from the same sums."""
    updates = 0
    while True:
        penalty = design.penalty(fit.lambdas, float(sums.curvature[-1, -1]) / fit.dispersion)
        found = step(design, sums, fit, penalty)
        lambdas = _updated(design, fit.lambdas, found)
        ratio = lambdas / fit.lambdas
        if updates == _UPDATES or (ratio.max() < _STILL and ratio.min() > 1 / _STILL):
            return replace(
                fit,
                coefficients=found.coefficients,
                before=fit.coefficients,
                errors=found.errors,
                deviance=sums.deviance,
            )
        dispersion = _dispersion(design, sums, fit, found, penalty) if is_gaussian else 1.0
        fit = replace(fit, lambdas=lambdas, dispersion=dispersion)
        updates += 1


def _updated(design: Design, lambdas: Doubles, found: Step) -> Doubles:
    updated = []
    for penalty, factor in zip(design.penalties, lambdas.tolist(), strict=True):
        part = found.coefficients[design.blocks[penalty.block]]
        free = max(0.0, penalty.rank / factor - _product(found.blocks[penalty.block], penalty.matrix))
        square = _product(penalty.matrix, part[:, None] * part[None, :])
        wanted = factor * free / max(square, 1e-12)
        least, most = max(_LEAST, factor / _MOST_CHANGE), min(_MOST, factor * _MOST_CHANGE)
        updated.append(min(most, max(least, wanted)))
    return np.array(updated)


def _dispersion(design: Design, sums: NewtonSums, fit: Fit, found: Step, penalty: Sequence[Doubles]) -> float:
    """Returns phi: the residual squares after a step by the free rows."""
    move = found.coefficients - fit.coefficients
    bent = total(sums.curvature * move[:, None])
    squares = sums.deviance - 2 * _product(move, sums.slope) + _product(move, bent)
    freedom = design.size - _of_blocks(found.blocks[:-1], penalty)
    return max(1e-9, squares / max(1.0, sums.rows - freedom))


def _square(design: Design, penalty: Sequence[Doubles], coefficients: Doubles) -> float:
    """Returns beta' S beta."""
    parts = [coefficients[block] for block in design.blocks]
    return _of_blocks(penalty, [part[:, None] * part[None, :] for part in parts])


def _of_blocks(left: Sequence[Doubles], right: Sequence[Doubles]) -> float:
    """Returns the sum of the products of all elements of all blocks."""
    return float(total(np.array([_product(*pair) for pair in zip(left, right, strict=True)])))


def _product(left: Doubles, right: Doubles) -> float:
    """Returns the sum of the products of all elements."""
    return float(total((left * right).ravel()))
