"""One private gradient step on the rows of all members of a secure sum, with noise that they share.

Each member samples its own rows with probability q, clips each row's gradient to L2 norm C, adds noise to the
sum, and rounds to whole units g. The secure sum adds these whole numbers modulo 2^32. Decoded, it is what a
trusted server would have released (Kairouz et al. 2021 had the idea, with discrete noise). Nobody sees a
member's own numbers, so members can share the noise: each adds N(0, s^2), s = z C / sqrt(H + 1), if H other
members are honest.

Unit of privacy: one record (row) of a member; neighbours: add or remove it; norm: L2 of its gradient. Where
members sample persons (`dp_sgd`), it is one person of a member, and all counts of rows count persons. The
guarantee is against all others together, as long as at least H other members in the sum are honest: they add
their noise and tell nobody what it was. With h honest others the guarantee is that of the multiplier
z sqrt((h + 1) / (H + 1)): `mechanisms.accounting.terms`. A member that adds no noise counts as dishonest, and
nobody can tell.

Theorem. Let r members be honest, W_k = x_k + N_k their sums in units of g, N_k ~ N(0, s^2) independently, and
R the sum of the rounded W_k. Then R is a post-processing of T = sum of W_k, up to a ratio between 1 - eta and
1 + eta, whatever the x_k are, with

    eta <= (1 + 2 sum over j >= 1 of exp(-2 pi^2 s^2 j^2 / r))^(r - 1) - 1.

Proof. R = T - sum of v_k, v_k = W_k - rint(W_k) in [-1/2, 1/2]. Given T = t, the W_k have a Gaussian
density on the hyperplane sum W_k = t, of covariance s^2 (I - 1 1^T / r). The density of v, for sum v = t
mod 1, is its sum over a coset of the lattice A_(r-1) = {u in Z^r: sum u = 0}. By Poisson's formula that sum
is a constant times 1 + the sum over the nonzero points y of the dual lattice of c_y, |c_y| = exp(-2 pi^2
s^2 |y|^2). The dual lattice is the projection of Z^r: each of its points comes from one y' in Z^r with y'_r
= 0, and |y|^2 = |y'|^2 - (sum y')^2 / r >= |y'|^2 / r, as y' has r - 1 coordinates (Cauchy and Schwarz).
Summing over Z^(r-1) without 0 gives eta. So the density of v given T is within 1 +- eta of one that does
not depend on x. QED

T is (epsilon, delta)-private, as the accountant shows for the Gaussian mechanism with multiplier z. So R on d
coordinates is (epsilon + d ln((1 + eta) / (1 - eta)), (1 + eta)^d delta)-private: the coordinates' noise is
independent, and both factors enter the inequality once. The same holds for a sampled batch, which mixes such
R over samples, and for steps that follow one another. `SharedNoise` refuses a rule unless
d `steps` ln((1 + eta) / (1 - eta)) stays below 1e-9. What wraps around modulo 2^32 harms accuracy alone.

A member rounds x_k to whole units before it adds rounded noise. That is the same as rounding x_k + N_k, as
rint commutes with adding a whole number. `noisy_sum` bounds how far this rounding moves two neighbouring x_k
apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import SampledGaussian
from mechanisms.arguments import count, positive
from mechanisms.gradients.clipped_sum import Batch
from mechanisms.gradients.dp_sgd import GradientRule, record_events
from mechanisms.gradients.noisy_sum import NoisySum
from mechanisms.gradients.objective import Objective
from mechanisms.noise.noise import power_of_two
from mechanisms.noise.randomness import Words

RING_BITS = 32
_SLACK = 1e-9  # the most that rounding may add to epsilon
_MOST_ROUNDING = 0.25  # the most of C that rounding to units may take
_TAILS = 10.0  # standard deviations of the batch and of the noise for which the ring has room


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """What all members of a swarm agree on for steps on d = `size` parameters.

    `gradient`: C, q, and the multiplier z of the noise of H + 1 members together, H = `honest`.
    `expected_batch`: the mean number of rows of all members in a step. `members`: of the largest sum.
    `steps`: all that the budget pays for. Raises ValueError if rounding to units would take more than a
    quarter of C, if a member's share of the noise does not hide the rounding, or for a value out of range.
    """

    gradient: GradientRule
    honest: int
    expected_batch: float
    members: int
    size: int
    steps: int

    def __post_init__(self) -> None:
        positive("expected_batch", self.expected_batch)
        for name in ("honest", "members", "size", "steps"):
            count(name, getattr(self, name))
        if self.honest >= self.members:
            raise ValueError(f"honest = {self.honest} is not allowed: at most {self.members - 1}, all others")
        if math.sqrt(self.size) * self.unit > _MOST_ROUNDING * self.gradient.clipping_radius:
            raise ValueError(
                f"expected_batch = {self.expected_batch:g} is not allowed with {self.size} parameters: "
                f"rounding to {RING_BITS} bits would take more than a quarter of clipping_radius; lower it"
            )
        share_units = self.share_std / self.unit
        eta = rounding_ratio(share_units, self.members)
        if eta >= 1 or self.size * self.steps * 2 * math.atanh(eta) > _SLACK:
            raise ValueError(
                f"noise_multiplier = {self.gradient.noise_multiplier:g} is not allowed: a member's share of "
                f"the noise is {share_units:.3g} units, too few to hide the rounding; lower expected_batch"
            )

    @property
    def share_std(self) -> float:
        """s in the units of the gradient: the std of the noise that each member adds."""
        return self.gradient.noise_std / math.sqrt(self.honest + 1)

    @property
    def unit(self) -> float:
        """g: the least power of two for which the ring holds a large batch and 10 std of all the noise."""
        rows = self.expected_batch + _TAILS * math.sqrt(self.expected_batch)
        most = rows * self.gradient.clipping_radius + _TAILS * self.share_std * math.sqrt(self.members)
        return power_of_two(most / 2.0 ** (RING_BITS - 1))

    @property
    def events(self) -> tuple[SampledGaussian, ...]:
        """What one step costs a member's records, if `honest` other members are honest."""
        return (record_events(self.gradient, 1),)

    def decode(self, words: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Returns the private sum of gradients (d,), from the sum (d,) of all members' words modulo 2^32."""
        return words.view(np.int32).astype(np.float64) * self.unit


class SharedGradient:
    """One member's words for the secure sum of a step."""

    def __init__(
        self, objective: Objective, rule: SharedNoise, most_rows: int, rows_per_person: int | None = None
    ) -> None:
        """`most_rows`: the number of this member's rows, which counts as public. See ClippedSum for the rest.

        Raises ValueError if there are not `rule.size` parameters to train, or if so many rows are not exact.
        """
        size = sum(objective.sizes)
        if size != rule.size:
            raise ValueError(f"size = {rule.size} is not allowed: the model has {size} parameters to train")
        self._sum = NoisySum(
            objective=objective,
            radius=rule.gradient.clipping_radius,
            unit=rule.unit,
            noise_std=rule.share_std,
            most_rows=most_rows,
            expected_rows=rule.gradient.sampling_probability * most_rows,
            rows_per_person=rows_per_person,
        )

    @property
    def method(self) -> str:
        """How gradients of single rows are computed: BOOK_KEEPING, or a slower way and why."""
        return self._sum.clipped.method

    def offer(
        self, x: torch.Tensor, y: torch.Tensor, words: Words, persons: torch.Tensor | None = None
    ) -> tuple[NDArray[np.uint32], Batch]:
        """Returns this member's words (d,) for a Poisson batch x (n, ...), y (n, ...), and what stays here.

        n may be 0. Each call needs a new batch, and draws new noise from `words`. For `persons` (n,) and what
        it raises see ClippedSum.
        """
        units, batch = self._sum(x, y, words, persons)
        return in_ring(units), batch


def in_ring(units: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Returns whole numbers (d,) modulo 2^32."""
    return units.astype(np.int64).astype(np.uint32)


def rounding_ratio(share_std: float, members: int) -> float:
    """eta of the theorem, rounded up, for r = `members` shares with a std of `share_std` units each."""
    exponent = 2 * math.pi**2 * positive("share_std", share_std) ** 2 / count("members", members)
    # j^2 - 1 >= 3 (j - 1): the terms fall faster than a geometric series with the ratio exp(-3 exponent).
    first = math.exp(-exponent)
    terms = 2 * first / -math.expm1(-3 * exponent)
    return math.expm1((members - 1) * math.log1p(terms)) * (1 + 2.0**-40)
