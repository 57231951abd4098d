"""One release of the Gaussian mechanism: delta, epsilon and the noise that a budget requires, all exact.

Everywhere z = `noise_multiplier` = noise_std / sensitivity, without unit. The guarantee holds for any two
inputs whose un-noised values differ by at most the sensitivity in the L2 norm. Which inputs are neighbours is
for the caller to say. Balle & Wang 2018, Theorem 8, with mu = 1 / z:

    delta(epsilon) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)

The relative error of computed values is below 1e-9 for z up to 1e4. Each search rounds its result up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from scipy import special

from mechanisms.arguments import at_least_zero, positive, probability

_CLASSIC_EPSILON_AT_MOST = 1.0
_SMALLEST_NOISE, _LARGEST_NOISE = 1e-150, 1e150


def delta(epsilon: float, noise_multiplier: float) -> float:
    """The smallest delta for this epsilon (at least 0); 1 without noise. Balle & Wang 2018, Theorem 8."""
    return _delta(at_least_zero("epsilon", epsilon), at_least_zero("noise_multiplier", noise_multiplier))


def epsilon(delta: float, noise_multiplier: float) -> float:
    """The smallest epsilon for this delta, rounded up: the inverse of `delta` in epsilon.

    It is infinite without noise, and 0 if the release is (0, delta)-private.
    """
    delta = probability("delta", delta)
    z = at_least_zero("noise_multiplier", noise_multiplier)
    if _delta(0.0, z) <= delta:
        return 0.0
    above = 1.0
    while _delta(above, z) > delta:
        above *= 2
        if math.isinf(above):
            return math.inf
    return _least(lambda candidate: _delta(candidate, z) <= delta, 0.0, above)


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest z for this epsilon (above 0) and delta, rounded up: the inverse of `delta` in z.

    It is the calibration of Balle & Wang 2018, Algorithm 1, by bisection.
    """
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    above = 1.0
    while _delta(epsilon, above) > delta and above < _LARGEST_NOISE:
        above *= 2
    return _least(lambda candidate: _delta(epsilon, candidate) <= delta, _SMALLEST_NOISE, above)


def noise_std(epsilon: float, delta: float, sensitivity: float) -> float:
    """The smallest standard deviation for this budget, in the unit of `sensitivity`, an L2 norm above 0."""
    return noise_multiplier(epsilon, delta) * positive("sensitivity", sensitivity)


def classic_noise_multiplier(epsilon: float, delta: float, *, replay: bool) -> float:
    """sqrt(2 ln(1.25 / delta)) / epsilon: Dwork & Roth 2014, Theorem 3.22, proved for epsilon < 1 only.

    For epsilon > 1 the result may not be private: at delta = 1e-5 it is not from epsilon = 8.42 on. So the
    function raises ValueError for epsilon > 1, unless `replay` asks for what an older system does.
    """
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    if epsilon > _CLASSIC_EPSILON_AT_MOST and not replay:
        raise ValueError(
            f"epsilon = {epsilon!r} is not allowed: at most 1, where the classic formula is proved"
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def compose(noise_multipliers: Iterable[float]) -> float:
    """Returns z of the single release that costs exactly as much as all of these: (sum z^-2)^(-1/2).

    Dong, Roth & Su 2022, Corollary 3.3. A release may depend on earlier results, its z may not. The result is
    0 if any z is 0, and infinite if there are none.
    """
    each = [at_least_zero("noise_multipliers", z) for z in noise_multipliers]
    least = min(each, default=math.inf)
    if least == 0 or not each:
        return least
    return least / math.sqrt(math.fsum((least / z) ** 2 for z in each))


def _delta(epsilon: float, z: float) -> float:
    """Theorem 8 in a form that neither overflows nor underflows.

    Let t = epsilon / mu - mu / 2 and t' = t + mu. Then phi(t) = e^epsilon phi(t'), and Phi(-t) = phi(t)
    sqrt(pi / 2) erfcx(t / sqrt 2): phi(t) is a factor of both terms.
    """
    if z == 0:
        return 1.0
    t, beyond = epsilon * z - 0.5 / z, epsilon * z + 0.5 / z
    if t < 0:
        return float(special.ndtr(-t) - math.exp(epsilon + special.log_ndtr(-beyond)))
    tails = special.erfcx(t / math.sqrt(2)) - special.erfcx(beyond / math.sqrt(2))
    return float(0.5 * math.exp(-t * t / 2) * tails)


def _least(enough: Callable[[float], bool], below: float, above: float) -> float:
    """The least number from `below` to `above` that is enough, rounded up; `above` must be enough."""
    while True:
        middle = math.sqrt(below * above) if below > 0 else above / 2
        if not below < middle < above or above - below <= 1e-15 * above:
            return above
        if enough(middle):
            above = middle
        else:
            below = middle
