"""One Gaussian release: against high precision, against dp-accounting, at the extremes."""

import math
from functools import partial

import mpmath
import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

from mechanisms.accounting.gaussian import (
    classic_noise_multiplier,
    compose,
    delta,
    epsilon,
    noise_multiplier,
    noise_std,
)


def exact(eps: float, z: float) -> mpmath.mpf:
    with mpmath.workdps(400):
        eps, mu = mpmath.mpf(eps), 1 / mpmath.mpf(z)
        return mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)


@pytest.mark.parametrize("z", [0.05, 0.2, 0.5, 1.0, 3.0, 50.0, 1e4])
def test_delta_is_the_theorem_at_400_digits_and_what_dp_accounting_has(z):
    for eps in (0.0, 1e-3, 0.1, 1.0, 8.0, 30.0, 100.0):
        expected, theirs = exact(eps, z), GaussianPrivacyLoss(z).get_delta_for_epsilon(eps)
        if expected > mpmath.mpf("1e-290"):
            assert abs(delta(eps, z) / expected - 1) < 1e-9, eps
        else:
            assert delta(eps, z) < 1e-289, eps
        if theirs > 1e-12:  # below, the difference of two numbers near 1 has no digits left there
            assert delta(eps, z) == pytest.approx(theirs, rel=1e-3), eps


@pytest.mark.parametrize("eps", [0.1, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("of", [1e-3, 1e-5, 1e-10])
def test_inverses_are_what_dp_accounting_has(eps, of):
    z = noise_multiplier(eps, of)
    assert z == pytest.approx(get_sigma_gaussian(eps, of), rel=1e-9)
    assert epsilon(of, z) == pytest.approx(get_epsilon_gaussian(z, of), rel=1e-9)


@pytest.mark.parametrize("eps", [1e-3, 0.1, 1.0, 20.0, 100.0])
@pytest.mark.parametrize("of", [0.1, 1e-5, 1e-12, 1e-100])
def test_the_noise_found_is_enough_at_400_digits_and_a_billionth_less_is_not(eps, of):
    z = noise_multiplier(eps, of)
    assert delta(eps, z) <= of
    assert exact(eps, z) <= of * (1 + 1e-9)
    assert exact(eps, z * (1 - 1e-9)) > of
    assert epsilon(of, z) == pytest.approx(eps, rel=1e-9)
    assert delta(epsilon(of, z), z) <= of


def test_without_noise_nothing_is_private_and_a_budget_near_everything_or_nothing_ends():
    assert delta(100.0, 0) == delta(1e300, 1e-200) == 1
    assert epsilon(0.5, 0) == epsilon(0.5, 1e-300) == math.inf
    assert 0 < noise_multiplier(1e300, 0.5) < 1e-149
    assert delta(1e-3, noise_multiplier(1e-3, 1e-300)) <= 1e-300


def test_so_much_noise_that_delta_alone_is_enough():
    assert epsilon(0.01, 100.0) == 0.0
    assert epsilon(0.001, 100.0) > 0.0
    assert noise_multiplier(1e-9, 1e-5) == pytest.approx(1 / (math.sqrt(2 * math.pi) * 1e-5), rel=1e-3)
    assert noise_std(1.0, 1e-5, 2.5) == 2.5 * noise_multiplier(1.0, 1e-5), "for a sensitivity of 2.5"


def test_the_classic_formula():
    assert classic_noise_multiplier(0.5, 1e-5, replay=False) == pytest.approx(9.689618, rel=1e-6)
    assert classic_noise_multiplier(1.0, 1e-5, replay=False) == pytest.approx(4.844809, rel=1e-6)
    assert classic_noise_multiplier(20.0, 1e-5, replay=True) == pytest.approx(0.24224, rel=1e-4)
    with pytest.raises(ValueError, match=r"epsilon = 1\.5 is not allowed: at most 1, where"):
        classic_noise_multiplier(1.5, 1e-5, replay=False)


def test_releases_compose_as_one_of_their_precisions():
    assert compose([2.0] * 16) == pytest.approx(0.5)
    assert compose([3.0, 4.0]) == pytest.approx(12 / 5)
    assert compose(iter([1e-200, 1e200])) == 1e-200
    assert compose([1.0, 0.0]) == 0.0
    assert compose([]) == math.inf


@pytest.mark.parametrize(
    ("call", "bad"),
    [
        (delta, [(-1.0, 1.0), (1.0, -1.0), (math.nan, 1.0)]),
        (epsilon, [(0.0, 1.0), (1.0, 1.0), (0.5, -1.0)]),
        (noise_multiplier, [(0.0, 0.5), (1.0, 0.0)]),
        (noise_std, [(1.0, 0.5, 0.0)]),
        (partial(classic_noise_multiplier, replay=True), [(0.0, 0.5), (0.5, 2.0)]),
        (compose, [([1.0, -1.0],)]),
    ],
)
def test_bad_arguments_are_refused(call, bad):
    for arguments in bad:
        with pytest.raises(ValueError, match="is not allowed"):
            call(*arguments)
