"""The tests of what is left of sums with shared noise: their distributions, their power, bad arguments."""

import math

import numpy as np
import pytest

from mechanisms.audits.residuals import (
    REPEAT,
    SIZE,
    SLOPE,
    Residuals,
    finding,
    size_power,
    slope_power,
)

STEPS, SIZE_OF_SUM, STD = 6, 500, 3.0


def residuals(std=STD, seed=0, shift=0.0, steps=STEPS, same=0.0):
    """Noise of this std, `shift` times the direction, and `same` times one noise in every step."""
    rng = np.random.default_rng(seed)
    toward = rng.normal(size=(steps, SIZE_OF_SUM))
    left = rng.normal(size=(steps, SIZE_OF_SUM)) * std
    return Residuals(left + shift * toward + same * rng.normal(size=SIZE_OF_SUM), toward, STD)


def test_a_right_claim_is_refuted_as_rarely_as_alpha_says():
    """1,000 claims at alpha .05: 76 alarms or more have a probability below 1e-3."""
    found = [finding(residuals(seed=seed), 0.05) for seed in range(1000)]
    assert sum(each.refuted for each in found) <= 75
    p_values = np.array([[statistic.p_value for statistic in each.statistics] for each in found])
    assert np.abs((p_values < 0.5).mean(axis=0) - 0.5).max() < 0.06, "each p-value is uniform"
    assert (p_values > 0).all()
    assert (p_values <= 1).all()


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


def test_a_finding_is_told_in_one_line():
    told = finding(residuals(), 1e-3).words
    assert told.startswith("size ")
    assert told.endswith("the claim is not refuted at alpha 0.001")
    assert "\n" not in told


def test_with_one_step_nothing_can_repeat():
    found = finding(residuals(steps=1), 0.05)
    assert [each.name for each in found.statistics] == [SIZE, SLOPE]


def test_no_noise_at_all_is_refuted_and_divides_by_nothing():
    of = residuals()
    found = finding(Residuals(np.zeros_like(of.left), of.toward, STD), 1e-3)
    assert found.refuted_by == (SIZE,)
    assert found.statistics[2].value == 0.0


def test_the_powers_are_those_of_simulations():
    """Both within 4 standard errors of 1,000 simulations."""
    share = 0.05 / 3
    values = STEPS * SIZE_OF_SUM
    for ratio in (0.97, 1.03, 1.0):
        found = np.mean([_p_value(residuals(std=ratio * STD, seed=seed), 0) < share for seed in range(1000)])
        expected = size_power(ratio, values, share)
        assert abs(found - expected) < 4 * math.sqrt(max(expected * (1 - expected), 0.01) / 1000)
    for shift in (0.0, 0.1):
        of = [residuals(seed=seed, shift=shift) for seed in range(1000)]
        mean = np.mean(
            [shift * np.linalg.norm(each.toward, axis=1).sum() / STD / math.sqrt(STEPS) for each in of]
        )
        found = np.mean([_p_value(each, 1) < share for each in of])
        expected = slope_power(float(mean), share)
        assert abs(found - expected) < 4 * math.sqrt(max(expected * (1 - expected), 0.01) / 1000)
    assert size_power(1.0, values, share) == pytest.approx(share)
    assert slope_power(0.0, share) == pytest.approx(share)


def _p_value(of, place):
    return finding(of, 0.05).statistics[place].p_value


def test_the_known_power_against_the_smallest_fault():
    """Noise for 8 instead of 7, in 86,580 values at alpha .001 / 3: certain; one adds none: the same."""
    assert size_power(math.sqrt(7 / 8), 86_580, 1e-3 / 3) > 1 - 1e-12
    assert size_power(math.sqrt(6 / 7), 86_580, 1e-3 / 3) > 1 - 1e-12
    assert size_power(0.98, 86_580, 1e-3 / 3) > 0.99


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
    with pytest.raises(ValueError, match=r"alpha = 1\.0 is not allowed"):
        finding(residuals(), 1.0)
    with pytest.raises(ValueError, match=r"ratio = 0\.0 is not allowed"):
        size_power(0.0, 10, 0.05)
    with pytest.raises(ValueError, match=r"alpha = 0\.0 is not allowed"):
        slope_power(1.0, 0.0)
