"""Privacy loss distributions (PLD) of Poisson-sampled Gaussians, Gaussians and pure releases, rounded up.

The loss of an outcome is ln(P / Q), with P and Q its probabilities under two neighbouring inputs; losses of a
composition add, and delta(epsilon) = E_P[(1 - e^(epsilon - loss))+] (Sommer et al. 2019). The pairs here, one
for each direction, dominate every pair of neighbours (add or remove one row):

- removing: P = (1 - q) N(0, z^2) + q N(1, z^2), Q = N(0, z^2); adding: P and Q exchanged
  (Zhu, Dong & Wang 2022, Theorem 11; q = 1 is the plain Gaussian);
- a pure release: randomised response between two values (Kairouz, Oh & Viswanath 2015, Theorem 3.2).

Connecting the dots puts losses on a grid (Doroshenko et al. 2022, Algorithm 1): an outcome whose loss lies
between two grid points is divided among these two, so that the sums of P and of Q stay the same. The result
dominates the exact pair: no epsilon and no delta is too small. The mass of the tails, which are cut off,
counts as an infinite loss. `mechanisms.accounting.grid_losses` composes the losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mechanisms.accounting.grid_losses import GridLosses

Array = NDArray[np.float64]

_FINENESS = 32.0
"""Grid steps per standard deviation of one step's loss: rounding then widens it by less than 0.1 %."""
_MOST_POINTS = 1 << 14
"""Most grid points of one step, for low sampling rates: there the range is many standard deviations wide."""
_FINE_STEPS = 100_000
"""From so many steps on the grid gets no finer: ten times as many steps then widen the result by 0.1 %."""
_QUADRATURE_POINTS = 4001
_QUADRATURE_REACH = 12.0


class Sampled(NamedTuple):
    """`steps` Gaussian releases, with noise z, of sums over Poisson samples at rate q; q = 1: all rows."""

    z: float
    q: float
    steps: int


class Response(NamedTuple):
    """`times` randomised responses, each with `epsilon`."""

    epsilon: float
    times: int


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The composed losses, in the two directions."""

    removing: GridLosses
    adding: GridLosses

    def epsilon(self, delta: float) -> float:
        """The least epsilon for this delta, in both directions; infinite if the cut tails exceed delta."""
        return float(max(part.epsilon(delta) for part in (self.removing, self.adding)))

    def delta(self, epsilon: float) -> float:
        """The least delta for this epsilon, in both directions."""
        return float(max(part.delta(epsilon) for part in (self.removing, self.adding)))


def compose(sampled: Sequence[Sampled], responses: Sequence[Response], tail: float) -> PrivacyLoss:
    """Composes the losses of all these releases; there must be at least one.

    `tail`: the mass that may be cut off for each of the entries, which adds to delta.
    """
    interval = _interval(sampled, responses, tail)
    removing: list[GridLosses] = []
    adding: list[GridLosses] = []
    for one in sampled:
        for direction, loss in zip((removing, adding), _sampled_losses(one, interval, tail), strict=True):
            direction.append(loss.self_composition(one.steps, tail))
    for response in responses:
        loss = _response_losses(response.epsilon, interval).self_composition(response.times, tail)
        removing.append(loss)
        adding.append(loss)
    return PrivacyLoss(_compose_all(removing, tail), _compose_all(adding, tail))


def _compose_all(losses: Sequence[GridLosses], tail: float) -> GridLosses:
    total, *others = losses
    for other in others:
        total = total.plus(other, tail)
    return total


# -- the grid ----------------------------------------------------------------------------------------


def _interval(sampled: Sequence[Sampled], responses: Sequence[Response], tail: float) -> float:
    """The distance of two grid points, from mean and variance of all losses; larger for a huge range."""
    moments = [(one.steps, *_sampled_moments(one)) for one in sampled]
    moments += [(response.times, *_response_moments(response.epsilon)) for response in responses]
    mean = sum(times * mean for times, mean, _ in moments)
    std = math.sqrt(sum(times * variance for times, _, variance in moments))
    steps = min(_FINE_STEPS, sum(times for times, _, _ in moments))
    fine = (std + mean / 100) / (_FINENESS * math.sqrt(steps))
    widest = max((np.ptp(_loss(one, _cuts(one, tail))) for one in sampled), default=0.0)
    return max(fine, float(widest) / _MOST_POINTS)


def _sampled_moments(one: Sampled) -> tuple[float, float]:
    """Returns an approximate (mean, variance) of one step's loss, removing: enough to choose a grid."""
    reach = _QUADRATURE_REACH * one.z
    x = np.linspace(-reach, 1 + reach, _QUADRATURE_POINTS)
    density = (1 - one.q) * np.exp(-((x / one.z) ** 2) / 2) + one.q * np.exp(-(((x - 1) / one.z) ** 2) / 2)
    density /= density.sum()
    loss = _loss(one, x)
    mean = float(density @ loss)
    return mean, float(density @ (loss - mean) ** 2)


def _response_moments(epsilon: float) -> tuple[float, float]:
    truth = float(special.expit(epsilon))
    return epsilon * (2 * truth - 1), 4 * epsilon**2 * truth * (1 - truth)


# -- one release -------------------------------------------------------------------------------------


def _loss(one: Sampled, x: Array) -> Array:
    """ln(P / Q) at the outcomes x, in the direction `removing`; it increases with x."""
    exponent = (x - 0.5) / one.z**2
    if one.q == 1:
        return exponent
    return np.logaddexp(math.log1p(-one.q), math.log(one.q) + exponent)


def _outcome(one: Sampled, loss: Array) -> Array:
    """The outcomes x with this `_loss`; minus infinity where no outcome has so small a loss."""
    if one.q == 1:
        return loss * one.z**2 + 0.5
    with np.errstate(divide="ignore"):
        exponent = np.where(
            loss > 1,  # e^loss could overflow, or absorb q
            loss + np.log1p((one.q - 1) * np.exp(-np.maximum(loss, 1))) - math.log(one.q),
            np.log1p(np.maximum(np.expm1(np.minimum(loss, 1)) / one.q, -1)),
        )
    return exponent * one.z**2 + 0.5


def _cuts(one: Sampled, tail: float) -> Array:
    """Returns (2,): the least and largest outcome; P and Q each hold at most `tail` / `steps` beyond them."""
    each = tail / one.steps / 2
    low = one.z * special.ndtri(each)
    high = 1 - one.z * special.ndtri(min(each / one.q, 0.5))
    return np.array([low, max(-low, high)])


def _sampled_losses(one: Sampled, interval: float, tail: float) -> tuple[GridLosses, GridLosses]:
    """Returns the losses of one step, (removing, adding)."""
    low, high = _loss(one, _cuts(one, tail)) / interval
    first, last = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    at = _outcome(one, np.arange(first, last + 1) * interval)
    without = _masses(at / one.z)  # (cells + 2,): below the grid, in each cell, above the grid
    having = (1 - one.q) * without + one.q * _masses((at - 1) / one.z)
    removing = _connect_dots(having, without, first, interval)
    adding = _connect_dots(without[::-1], having[::-1], -last, interval)
    return removing, adding


def _masses(at: Array) -> Array:
    """Returns (n + 1,) masses of the standard normal below, between and above the (n,) ascending points.

    Each is computed from the nearer tail, so small masses are accurate too.
    """
    below, above = special.ndtr(at), special.ndtr(-at)
    between = np.where(at[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return np.concatenate([below[:1], between, above[-1:]])


def _response_losses(epsilon: float, interval: float) -> GridLosses:
    """Randomised response: a loss of epsilon with probability e^epsilon / (1 + e^epsilon), else -epsilon."""
    last = math.ceil(epsilon / interval)
    upper, lower = np.zeros(2 * last + 2), np.zeros(2 * last + 2)
    cells = [1 + last + math.floor(-epsilon / interval), last + math.ceil(epsilon / interval)]
    upper[cells] = special.expit([-epsilon, epsilon])
    lower[cells] = special.expit([epsilon, -epsilon])
    return _connect_dots(upper, lower, -last, interval)


def _connect_dots(upper: Array, lower: Array, first: int, interval: float) -> GridLosses:
    """Connects the dots, from the (n + 1,) masses of P (`upper`) and Q (`lower`).

    They lie below, between and above n grid points, of which `first` is the number of the first. A cell
    between two points has P = u + v and Q = e^-loss (u + v e^-interval), with u the mass that its lower end
    gets, v that of its upper end.
    """
    cells, losses = upper[1:-1], interval * np.arange(first, first + len(upper) - 2)
    with np.errstate(over="ignore", invalid="ignore"):
        raised = (cells - lower[1:-1] * np.exp(losses)) / -math.expm1(-interval)
    raised = np.where(np.isfinite(raised), np.clip(raised, 0, cells), cells)
    probabilities = np.zeros(len(cells) + 1)
    probabilities[:-1] = cells - raised
    probabilities[1:] += raised
    probabilities[0] += upper[0]
    return GridLosses(interval, first, probabilities, float(upper[-1]))
