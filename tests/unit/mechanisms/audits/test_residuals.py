"""The tests of what is left of sums with shared noise: their distributions, their power, bad arguments."""

import math

import numpy as np
import pytest

from mechanisms.audits.residuals import REPEAT, SIZE, SLOPE, Residuals, finding, size_power, slope_power
from tests.unit.mechanisms.settings import refused

STEPS, SIZE_OF_SUM, STD = 6, 500, 3.0


def residuals(std=STD, seed=0, shift=0.0, steps=STEPS, same=0.0):
    """Noise of this std, `shift` times the direction, and `same` times one noise in every step."""
    rng = np.random.default_rng(seed)
    toward = rng.normal(size=(steps, SIZE_OF_SUM))
    left = rng.normal(size=(steps, SIZE_OF_SUM)) * std
    return Residuals(left + shift * toward + same * rng.normal(size=SIZE_OF_SUM), toward, STD)


@pytest.fixture(scope="module")
def right():
    """Findings of 1,000 right claims at alpha .05."""
    return [finding(residuals(seed=seed), 0.05) for seed in range(1000)]


def p_values(found):
    return np.array([[statistic.p_value for statistic in each.statistics] for each in found])


def test_a_right_claim_is_refuted_as_rarely_as_alpha_says(right):
    """76 alarms or more have a probability below 1e-3."""
    assert sum(each.is_refuted for each in right) <= 75
    p = p_values(right)
    assert np.abs((p < 0.5).mean(axis=0) - 0.5).max() < 0.06, "each p-value is uniform"
    assert 0 < p.min() <= p.max() <= 1


def test_each_statistic_is_what_its_formula_says():
    of = residuals()
    size, slope, repeat = finding(of, 0.05).statistics
    squares = sum(float(value) ** 2 for value in of.left.ravel())
    assert size.value == pytest.approx(math.sqrt(squares / of.left.size) / STD)
    terms = [left @ toward / np.linalg.norm(toward) for left, toward in zip(of.left, of.toward, strict=True)]
    assert slope.value == pytest.approx(sum(terms) / STD / math.sqrt(STEPS))
    terms = [now @ before / np.linalg.norm(before) for before, now in zip(of.left, of.left[1:], strict=False)]
    assert repeat.value == pytest.approx(sum(terms) / STD / math.sqrt(STEPS - 1))
    assert [size.name, slope.name, repeat.name] == [SIZE, SLOPE, REPEAT]


@pytest.mark.parametrize(
    ("changed", "by"),
    [
        ({"std": 0.9 * STD}, SIZE),
        ({"std": 1.1 * STD}, SIZE),
        ({"shift": 0.5}, SLOPE),
        ({"shift": -0.5}, SLOPE),
        ({"same": 0.5 * STD, "std": STD * math.sqrt(0.75)}, REPEAT),
    ],
)
def test_each_statistic_finds_its_fault_alone(changed, by):
    found = finding(residuals(**changed), 1e-3)
    assert found.refuted_by == (by,)
    assert f"the claim is refuted by {by} at alpha 0.001" in found.words


def test_a_finding_is_told_in_one_line_and_with_one_step_nothing_can_repeat():
    told = finding(residuals(), 1e-3).words
    assert told.startswith("size ")
    assert told.endswith("the claim is not refuted at alpha 0.001")
    assert "\n" not in told
    assert [each.name for each in finding(residuals(steps=1), 0.05).statistics] == [SIZE, SLOPE]


def test_no_noise_at_all_is_refuted_and_divides_by_nothing():
    of = residuals()
    found = finding(Residuals(np.zeros_like(of.left), of.toward, STD), 1e-3)
    assert found.refuted_by == (SIZE,)
    assert found.statistics[2].value == 0.0


def test_the_powers_are_those_of_simulations(right):
    """Both within 4 standard errors of 1,000 simulations."""
    share, values = 0.05 / 3, STEPS * SIZE_OF_SUM

    def check(found, expected):
        assert abs(found - expected) < 4 * math.sqrt(max(expected * (1 - expected), 0.01) / 1000)

    for place, expected in ((0, size_power(1.0, values, share)), (1, slope_power(0.0, share))):
        assert expected == pytest.approx(share)
        check((p_values(right)[:, place] < share).mean(), expected)
    for ratio in (0.97, 1.03):
        found = p_values([finding(residuals(std=ratio * STD, seed=seed), 0.05) for seed in range(1000)])
        check((found[:, 0] < share).mean(), size_power(ratio, values, share))
    of = [residuals(seed=seed, shift=0.1) for seed in range(1000)]
    lengths = [np.linalg.norm(each.toward, axis=1).sum() for each in of]
    found = p_values([finding(each, 0.05) for each in of])
    check((found[:, 1] < share).mean(), slope_power(0.1 * np.mean(lengths) / STD / math.sqrt(STEPS), share))


def test_the_known_power_against_the_smallest_fault():
    """Noise for 8 instead of 7, in 86,580 values at alpha .001 / 3: certain; one adds none: the same."""
    powers = [size_power(ratio, 86_580, 1e-3 / 3) for ratio in (math.sqrt(7 / 8), math.sqrt(6 / 7), 0.98)]
    assert min(powers[:2]) > 1 - 1e-12
    assert powers[2] > 0.99


@pytest.mark.parametrize(
    ("left", "toward", "noise_std", "said"),
    [
        (np.ones(3), np.ones(3), 1.0, r"left, toward of shapes \(3,\), \(3,\) are not allowed"),
        (np.ones((0, 3)), np.ones((0, 3)), 1.0, "are not allowed"),
        (np.ones((1, 3)), np.ones((1, 2)), 1.0, "are not allowed"),
        (np.full((1, 3), np.nan), np.ones((1, 3)), 1.0, "with NaN or infinity"),
        (np.ones((1, 3)), np.full((1, 3), np.inf), 1.0, "with NaN or infinity"),
        (np.ones((2, 2)), np.array([[1.0, 0.0], [0.0, 0.0]]), 1.0, "toward with a zero row"),
        (np.ones((1, 3)), np.ones((1, 3)), 0.0, "noise_std = 0.0 is not allowed"),
    ],
)
def test_what_is_no_residual_is_refused(left, toward, noise_std, said):
    with pytest.raises(ValueError, match=said):
        Residuals(left, toward, noise_std)


def test_an_alpha_or_a_ratio_out_of_range_is_refused():
    refused(lambda alpha: finding(residuals(), alpha), alpha=1.0)
    refused(lambda ratio: size_power(ratio, 10, 0.05), ratio=0.0)
    refused(lambda alpha: slope_power(1.0, alpha), alpha=0.0)
