"""Renyi differential privacy (RDP) at integer orders: looser than `privacy_loss`, never slow.

A release is (alpha, rho)-RDP if the Renyi divergence of order alpha between its distributions under two
neighbouring inputs is at most rho, in either direction; under composition the rho of an order add up
(Mironov 2017, Definition 4 and Proposition 1). Relation of sampled releases: add or remove one row.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]

ORDERS: tuple[int, ...] = (*range(2, 64), *(2**power for power in range(6, 15)))
_ALPHAS = np.array(ORDERS, dtype=np.float64)


def sampled_gaussian(noise_multiplier: float, sampling_probability: float) -> Array:
    """The divergences (orders,) of one Poisson-sampled Gaussian release, q < 1.

    ln(sum_k binom(alpha, k) (1 - q)^(alpha - k) q^k e^(k (k - 1) / (2 z^2))) / (alpha - 1): Mironov, Talwar &
    Zhang 2019, section 3.3, with Theorem 5 for the direction.
    """
    return np.array([_sampled_divergence(noise_multiplier, sampling_probability, order) for order in ORDERS])


def _sampled_divergence(z: float, q: float, order: int) -> float:
    k = np.arange(order + 1, dtype=np.float64)
    choose = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    terms = choose + (order - k) * math.log1p(-q) + k * math.log(q) + k * (k - 1) / 2 / z / z
    return float(special.logsumexp(terms)) / (order - 1)


def gaussian(noise_multiplier: float) -> Array:
    """The divergences (orders,) of one Gaussian release: alpha / (2 z^2), Mironov 2017, Corollary 3."""
    return _ALPHAS / 2 / noise_multiplier / noise_multiplier


def response(epsilon: float) -> Array:
    """The divergences (orders,) of one pure release: those of randomised response, the worst (Prop. 5)."""
    truth, lie = special.log_expit(epsilon), special.log_expit(-epsilon)
    there, back = _ALPHAS * truth + (1 - _ALPHAS) * lie, _ALPHAS * lie + (1 - _ALPHAS) * truth
    divergences: Array = np.logaddexp(there, back) / (_ALPHAS - 1)
    return divergences


def epsilon(divergences: Array, delta: float) -> float:
    """The least epsilon over all orders: Canonne, Kamath & Steinke 2020, Proposition 12."""
    conversion = np.log1p(-1 / _ALPHAS) - (math.log(delta) + np.log(_ALPHAS)) / (_ALPHAS - 1)
    return max(0.0, float((divergences + conversion).min()))


def delta(divergences: Array, epsilon: float) -> float:
    """The least delta over all orders, at most 1: Canonne, Kamath & Steinke 2020, Proposition 12."""
    logarithms = (_ALPHAS - 1) * (divergences - epsilon + np.log1p(-1 / _ALPHAS)) - np.log(_ALPHAS)
    return math.exp(min(0.0, float(logarithms.min())))
