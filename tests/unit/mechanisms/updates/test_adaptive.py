"""Radius rules: pure functions of a memory, exactly as specified, and what each leaves outside epsilon."""

import math
from functools import partial

import numpy as np
import pytest

from mechanisms.updates.adaptive import LEAST_RADIUS, AggregateWindow, Fixed, Quantile, Window, aggregate_norm
from tests.unit.mechanisms.settings import refused, vector, words


def after(rule, *sizes, memory=()):
    for size in sizes:
        memory = rule.after_offer(size, memory, words())
    return memory


def test_a_fixed_radius_remembers_nothing_and_a_window_is_the_mean_norm_of_the_updates_before():
    fixed, rule = Fixed(0.7), Window(clipping_radius=1.0, window=3)
    assert after(fixed, 3.0, 0.1) == fixed.after_aggregate(vector(1.0), 3, 1.0, ()) == ()
    assert (fixed.radius(()), fixed.outside) == (0.7, "")
    assert rule.radius(()) == 1.0, "an empty window: the cap"
    assert rule.radius(after(rule, 0.4)) == 0.4
    assert rule.radius(after(rule, 0.4, 0.2)) == pytest.approx(0.3)
    assert rule.radius(after(rule, 0.9, 0.4, 0.2, 0.3)) == pytest.approx(0.3), "only the last three"
    assert after(rule, 0.9, 0.4, 0.2, 0.3) == ((0.4, 0.2, 0.3),)
    assert rule.radius(after(rule, 5.0, 0.1)) == 1.0, "capped"
    assert after(rule, 5.0) == ((5.0,),), "norms are stored as they were, before clipping and noise"
    assert rule.radius(after(rule, 0.0)) == LEAST_RADIUS
    assert "mean norm of your last updates" in rule.outside
    assert rule.after_aggregate(vector(1.0), 3, 1.0, ((0.5,),)) == ((0.5,),)


def test_the_norm_of_an_aggregate_is_debiased():
    rng = np.random.default_rng(0)
    signal = np.zeros(200_000, np.float32)
    signal[0] = 50.0
    stds = (0.1, 0.2, 0.3)
    mean = signal + sum(rng.normal(0, std, len(signal)) for std in stds).astype(np.float32) / 3
    assert np.linalg.norm(mean) > 70
    assert aggregate_norm(mean, stds) == pytest.approx(50, rel=0.01)
    assert aggregate_norm(vector(0.1, 0.1), (9.0,)) == 0.0
    rule, mean = AggregateWindow(clipping_radius=9.0, window=1), np.full(100, 1.0, np.float32)
    norm = math.sqrt(100 - 100 / 4)  # d sigma^2 / n is taken off, not d sigma^2 and not d sigma^2 / n^2
    assert rule.after_aggregate(mean, 4, 1.0, ()) == (pytest.approx((norm,)),)


def test_an_aggregate_with_an_unnoised_member_is_refused():
    for stds in ((), (1.0, 0.0), (0.0,)):
        with pytest.raises(ValueError, match="every member's offer must be noised"):
            aggregate_norm(vector(1.0), stds)


def test_an_aggregate_window_can_grow_and_has_floor_and_cap():
    rule = AggregateWindow(clipping_radius=1.0, window=2, factor=2.0, least_share=0.05)
    assert rule.radius(()) == rule.radius(((0.1,),)) == 1.0, "before the window is full"
    assert rule.after_aggregate(vector(0.3, 0.4), 4, 1e-9, ()) == (pytest.approx((0.5,)),)
    assert rule.radius(((0.1, 0.2),)) == pytest.approx(0.3)
    assert rule.radius(((0.0, 0.0),)) == 0.05
    assert rule.radius(((0.9, 0.9),)) == 1.0
    assert rule.after_aggregate(vector(0.6, 0.8), 4, 1e-9, ((0.1, 0.2),)) == (pytest.approx((0.2, 1.0)),)
    assert rule.after_offer(3.0, ((0.1,),), words()) == ((0.1,),)
    assert rule.outside == ""


def test_a_quantile_moves_by_its_noised_bit():
    rule = Quantile(clipping_radius=10.0, bit_noise_std=1e-6)
    start = ((1.0,),)
    assert rule.after_offer(0.5, start, words()) == (pytest.approx((math.exp(-0.2 * 0.5),), rel=1e-4),)
    assert rule.after_offer(1.5, start, words()) == (pytest.approx((math.exp(0.2 * 0.5),), rel=1e-4),)
    assert rule.radius(()) == 10.0
    assert rule.radius(after(rule, *[99.0] * 60, memory=start)) == 10.0
    assert rule.radius(after(rule, *[0.0] * 60, memory=start)) == pytest.approx(0.1)
    assert rule.after_aggregate(vector(1.0), 3, 1.0, start) == start
    assert rule.outside == ""


def test_a_noised_bit_is_never_the_bit():
    """With the noise that local budgets want, the bit hardly shows: norms are told apart by little."""
    rule, drawn = Quantile(10.0, bit_noise_std=5.0), words(2)
    low, high = (
        np.log([rule.after_offer(size, ((1.0,),), drawn)[0][0] for _ in range(4000)]) for size in (0.5, 1.5)
    )
    assert abs(low.mean() - high.mean()) < 0.02 < low.std()
    assert np.abs(low).max() <= 0.1 + 1e-9, "one draw moves C by at most exp(rate / 2)"


def test_rules_that_can_not_be():
    refused(Fixed, clipping_radius=0.0)
    refused(partial(Window, 1.0), window=0)
    refused(partial(Window, window=3), clipping_radius=math.inf)
    refused(partial(AggregateWindow, 1.0, window=3), factor=-1.0, least_share=0.0, window=0)
    refused(partial(Quantile, 1.0, bit_noise_std=1.0), bit_noise_std=0.0, quantile=1.0, rate=0.0)
