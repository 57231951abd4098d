"""Penalised steps and lambdas against numpy's linear algebra on the rows themselves."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from node.jobs.additive.newton import CodedRows, of_classes, of_numbers
from node.jobs.additive.smoothing import RIDGE, Design, Fit, NewtonSums, step
from node.system.errors import UserError

RNG = np.random.default_rng(11)
ROWS, SIZES, ORDERED = 3000, (9, 12, 4), (8, 12, 0)  # the first column has a cell for missing values
BLOCKS = (slice(0, 9), slice(9, 21), slice(21, 25))
CODES = [RNG.integers(0, size, ROWS) for size in SIZES]
X = np.concatenate(
    [*(np.eye(size)[codes] for size, codes in zip(SIZES, CODES, strict=True)), np.ones((ROWS, 1))], 1
)
DESIGN = Design(BLOCKS, ORDERED, X[:, :-1].sum(0).astype(np.int64))
CODED = CodedRows(CODES, BLOCKS, X.shape[1])
SIGNAL = np.sin(CODES[0] / 2) + 0.15 * CODES[1] + np.array([0, 1, -1, 0.5])[CODES[2]] - 1


def sums_at(coefficients, y, family):
    weights, residuals, deviance = family(CODED.scores(coefficients), y)
    return NewtonSums(CODED.curvature(weights), CODED.slope(residuals), deviance, ROWS)


def classes(scores, y):
    return of_classes(scores, y, np.ones(ROWS))


def whole(design, lambdas, weight):
    matrix = np.zeros((design.size, design.size))
    for block, part in zip(design.blocks, design.penalty(lambdas, weight), strict=True):
        matrix[block, block] = part
    return matrix


def fitted(y, family, is_gaussian, sums=30):
    fit = Fit.begin(DESIGN, 0.0)
    for _ in range(sums):
        fit = fit.after(DESIGN, sums_at(fit.coefficients, y, family), is_gaussian)
    return fit


def test_sums_are_those_of_the_indicators():
    beta, weights, residuals = RNG.normal(size=(X.shape[1])), RNG.random(ROWS), RNG.normal(size=ROWS)
    assert CODED.scores(beta) == pytest.approx(X @ beta, abs=1e-12)
    assert CODED.curvature(weights) == pytest.approx(X.T @ (X * weights[:, None]), abs=1e-9)
    assert CODED.slope(residuals) == pytest.approx(X.T @ residuals, abs=1e-9)


def test_rows_in_no_cell_count_for_the_rest():
    coded = CodedRows([np.array([0, 2, 1]), np.array([1, 1, 0])], (slice(0, 2), slice(2, 3)), 4)
    x = np.array([[1, 0, 0, 1], [0, 0, 0, 1], [0, 1, 1, 1]])
    assert coded.scores(np.arange(4.0)) == pytest.approx(x @ np.arange(4))
    assert (coded.curvature(np.ones(3)) == x.T @ x).all()


@pytest.mark.parametrize("dispersion", [1.0, 0.3])
def test_a_step_is_the_penalised_least_squares_of_the_rows(dispersion):
    y, lambdas = RNG.random(ROWS) < 1 / (1 + np.exp(-SIGNAL)), 10.0 ** RNG.uniform(-2, 3, 5)
    beta = RNG.normal(size=X.shape[1]) / 5
    sums = sums_at(beta, y, classes)
    fit = replace(Fit.begin(DESIGN, 0.0), coefficients=beta, dispersion=dispersion)
    found = step(DESIGN, sums, fit, DESIGN.penalty(lambdas, 700.0))
    chances = 1 / (1 + np.exp(-X @ beta))
    weights = chances * (1 - chances)
    root = np.sqrt(weights / dispersion)
    working = X @ beta + (y - chances) / weights
    penalty = np.linalg.cholesky(whole(DESIGN, lambdas, 700.0) + 1e-30 * np.eye(X.shape[1])).T
    rows = np.concatenate([X * root[:, None], penalty])
    expected = np.linalg.lstsq(rows, np.append(working * root, np.zeros(len(penalty))), rcond=None)[0]
    assert found.coefficients == pytest.approx(expected, abs=1e-8)
    assert found.errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(rows.T @ rows))), rel=1e-8)


def test_penalties_leave_lines_to_the_trend_and_means_to_the_base():
    assert [(one.block, one.rank) for one in DESIGN.penalties] == [(0, 7), (0, 1), (1, 10), (1, 1), (2, 3)]
    curvature, trend = (one.matrix for one in DESIGN.penalties[2:4])
    line = np.arange(12.0)
    assert line @ curvature @ line == pytest.approx(0)
    assert (line - line.mean()) @ trend @ (line - line.mean()) == pytest.approx(
        ((line - line.mean()) ** 2).sum()
    )
    assert trend @ np.ones(12) == pytest.approx(0)
    assert curvature @ trend == pytest.approx(0)
    held = DESIGN.penalty(np.zeros(5), 10.0)[2]
    rows = DESIGN.rows[BLOCKS[2]]
    assert held - RIDGE * np.eye(4) == pytest.approx(640 * np.outer(rows, rows) / rows.sum() ** 2)


@pytest.mark.parametrize("is_gaussian", [False, True])
def test_lambdas_are_where_the_marginal_likelihood_is_largest(is_gaussian):
    """Wood 2011, equation 4: -D/2 - beta'S beta/2 + log|S|+/2 - log|H + S|/2, here at a fixed dispersion."""
    y = SIGNAL + RNG.normal(size=ROWS) if is_gaussian else RNG.random(ROWS) < 1 / (1 + np.exp(-SIGNAL))
    fit = fitted(y, of_numbers if is_gaussian else classes, is_gaussian)
    sums = sums_at(fit.coefficients, y, of_numbers if is_gaussian else classes)
    if is_gaussian:
        assert fit.dispersion == pytest.approx(1.0, abs=0.06)
    ranks = np.array([one.rank for one in DESIGN.penalties])

    def likelihood(lambdas):
        penalty, at = whole(DESIGN, lambdas, sums.curvature[-1, -1] / fit.dispersion), fit.coefficients
        inverse = sums.curvature / fit.dispersion + penalty
        beta = np.linalg.solve(inverse, (sums.curvature @ at + sums.slope) / fit.dispersion)
        move = beta - at
        deviance = (sums.deviance - 2 * move @ sums.slope + move @ sums.curvature @ move) / fit.dispersion
        freedom = (ranks * np.log(lambdas)).sum() - np.linalg.slogdet(inverse)[1]
        return freedom / 2 - (deviance + beta @ penalty @ beta) / 2

    best, inside = likelihood(fit.lambdas), 0
    for place, factor in enumerate(fit.lambdas):
        if 2e-3 < factor < 5e5:
            inside += 1
            for times in (0.5, 2.0):
                other = fit.lambdas.copy()
                other[place] *= times
                assert likelihood(other) < best
    assert inside >= 3


def test_a_step_too_long_is_halved():
    y = RNG.random(ROWS) < 1 / (1 + np.exp(-SIGNAL))
    first = fitted(y, classes, False, sums=2)
    far = replace(first, coefficients=first.coefficients + 9 * (first.coefficients - first.before))
    halved = far.after(DESIGN, sums_at(far.coefficients, y, classes), False)
    assert halved.coefficients == pytest.approx((far.coefficients + far.before) / 2)
    assert (halved.before, halved.deviance, halved.is_over) == (far.before, far.deviance, False)


def test_sums_of_no_rows_are_refused():
    sums = NewtonSums(-np.eye(DESIGN.size), np.zeros(DESIGN.size), 1.0, ROWS)
    with pytest.raises(UserError, match="the sums are none of rows"):
        Fit.begin(DESIGN, 0.0).after(DESIGN, sums, False)


def test_a_fit_has_these_bits_on_every_machine():
    """Sums of whole numbers alone, so that only what all members compute alike decides the bits."""
    codes = [np.arange(840) * step % size for step, size in zip((5, 7, 11), SIZES, strict=True)]
    coded = CodedRows(codes, BLOCKS, X.shape[1])
    counts = coded.curvature(np.ones(840))
    design = Design(BLOCKS, ORDERED, np.diagonal(counts)[:-1].astype(np.int64))
    slope = coded.slope((codes[0] > 4).astype(np.float64) - (codes[1] > 5))
    begun = replace(Fit.begin(design, 0.25), coefficients=np.arange(design.size) / 7)
    fit = begun.after(design, NewtonSums(counts / 4, slope, 1164.5, 840.0), False)
    bits = np.concatenate([fit.coefficients, fit.lambdas, fit.errors]).tobytes()
    assert hashlib.sha256(bits).hexdigest()[:16] == "6aff0343549ad898"
