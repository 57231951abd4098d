"""Shared noise: the theorem on rounded sums in exact arithmetic, a member's words, and what is refused."""

from dataclasses import replace
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import SampledGaussian
from mechanisms.gradients.clipped_sum import ClippedSum
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.gradients.shared_noise import SharedGradient, SharedNoise, in_ring, rounding_ratio
from mechanisms.noise.clipping import NotFinite
from tests.unit.mechanisms.gradients.models import built, objective
from tests.unit.mechanisms.settings import refused, words

GRADIENT = GradientRule(clipping_radius=0.5, noise_multiplier=1.5, sampling_probability=0.25)
RULE = SharedNoise(GRADIENT, honest=2, expected_batch=40.0, members=5, size=66, steps=200)


def changed(**changes):
    """RULE with other values, of its own or of its rule for gradients."""
    own = {name: changes.pop(name) for name in list(changes) if name in SharedNoise.__slots__}
    return replace(RULE, gradient=replace(RULE.gradient, **changes), **own)


def rounded(x, s, reach):
    """P(rint(x + N(0, s^2)) = k) for k from -reach to reach."""
    cuts = [(mpmath.mpf(k) - 0.5 - x) / s for k in range(-reach, reach + 2)]
    cdf = [mpmath.ncdf(cut) for cut in cuts]
    return [high - low for low, high in pairwise(cdf)]


def convolved(first, second):
    total = [mpmath.mpf(0)] * (len(first) + len(second) - 1)
    for i, p in enumerate(first):
        for j, q in enumerate(second):
            total[i + j] += p * q
    return total


def released(xs, s, reach):
    """The distribution of the sum of rounded members, from -len(xs) reach on."""
    total = rounded(xs[0], s, reach)
    for x in xs[1:]:
        total = convolved(total, rounded(x, s, reach))
    return total


def delta(p, q, epsilon):
    return sum(max(a - mpmath.exp(epsilon) * b, 0) for a, b in zip(p, q, strict=True))


def gaussian_delta(shift, std, epsilon):
    """Balle & Wang 2018, Theorem 8."""
    a, b = shift / (2 * std), epsilon * std / shift
    return mpmath.ncdf(a - b) - mpmath.exp(epsilon) * mpmath.ncdf(-a - b)


@pytest.mark.parametrize(("members", "s"), [(2, 0.8), (2, 1.2), (3, 0.9), (3, 1.4)])
def test_the_rounded_sum_is_as_private_as_the_theorem_says(members, s):
    """Against all fractions that a member's own sum may have; neighbours differ by a real number."""
    reach, shift = round(9 * s) + 4, mpmath.mpf(s) * 0.8
    eta = mpmath.mpf(rounding_ratio(s, members))
    std = s * mpmath.sqrt(members)
    slack = mpmath.log((1 + eta) / (1 - eta))
    assert slack < 0.05
    for fraction in (0.0, 0.2, 0.37, 0.5):
        xs = [mpmath.mpf(fraction), mpmath.mpf("0.31"), mpmath.mpf("-0.12")][:members]
        others = [xs[0] + shift, *xs[1:]]
        p, q = released(xs, s, reach), released(others, s, reach)
        for epsilon in (0.5, 1.0, 2.0):
            allowed = (1 + eta) * gaussian_delta(shift, std, epsilon - slack)
            for one, other in ((p, q), (q, p)):
                assert delta(one, other, epsilon) <= allowed + mpmath.mpf(10) ** -12


@pytest.mark.parametrize(("members", "s"), [(2, 0.8), (3, 1.0), (4, 1.2)])
def test_the_bound_is_above_the_exact_lattice_sum(members, s):
    """Sum over Z^r / (1, ..., 1) without 0 of exp(-2 pi^2 s^2 |projection|^2), counted out."""
    reach = range(-4, 5)
    grid = np.stack(np.meshgrid(*[reach] * (members - 1)), -1).reshape(-1, members - 1)
    squares = (grid**2).sum(1) - grid.sum(1) ** 2 / members
    exact = np.exp(-2 * np.pi**2 * s**2 * squares).sum() - 1
    assert exact <= rounding_ratio(s, members)
    assert rounding_ratio(0.1, 1) == 0, "one member needs nothing, and more need more"
    assert rounding_ratio(4.0, 2) == pytest.approx(2 * np.exp(-(np.pi**2) * 16), rel=1e-9)
    assert rounding_ratio(4.0, 7) < rounding_ratio(4.0, 10) < 1e-10


def test_shares_add_up_to_the_noise_of_the_honest_and_their_owner_in_units_with_room_for_a_batch():
    assert RULE.share_std**2 * 3 == pytest.approx((1.5 * 0.5) ** 2)
    assert RULE.events == (SampledGaussian(1.5, 0.25, 1),)
    most = (40 + 10 * np.sqrt(40)) * 0.5 + 10 * RULE.share_std * np.sqrt(5)
    assert most < 2**31 * RULE.unit <= 2 * most
    assert RULE.share_std / RULE.unit > 1e6
    assert in_ring(np.array([-1.0, 2.0**31, 2.0**32 + 5])).tolist() == [2**32 - 1, 2**31, 5]
    assert RULE.decode(np.array([2**32 - 1, 1], dtype=np.uint32)).tolist() == [-RULE.unit, RULE.unit]


def test_a_rule_that_does_not_hold_is_refused():
    refused(
        changed, honest=0, sampling_probability=0.0, noise_multiplier=0.0, expected_batch=0.0, size=0, steps=0
    )
    refused(changed, sampling_probability=1.5)
    said = r"expected_batch = 1e\+09 is not allowed with 66 parameters: rounding to 32 bits"
    with pytest.raises(ValueError, match=said):
        changed(expected_batch=1e9)
    with pytest.raises(ValueError, match="honest = 5 is not allowed: at most 4, all other"):
        changed(honest=5)
    with pytest.raises(
        ValueError, match="noise_multiplier = 1e-08 is not allowed: a member's share of the noise"
    ):
        changed(noise_multiplier=1e-8)
    model, x, y = built("linear", 8)
    with pytest.raises(ValueError, match="size = 67 is not allowed: the model has 66 parameters"):
        prepared(model, x, y, changed(size=67))
    with pytest.raises(ValueError, match="most_rows = 1000000000 is not allowed: sums of so many rows"):
        prepared(model, x, y, changed(expected_batch=1.0), 10**9)


def prepared(model, x, y, rule=RULE, most_rows=32):
    return SharedGradient(objective(model, x, y), rule, most_rows)


def test_words_of_all_members_add_up_to_the_sum_with_the_noise_of_all():
    model, x, y = built("linear", 160)
    quiet = changed(noise_multiplier=1e-4)
    member = prepared(model, x, y, quiet, 160)
    parts = [slice(start, start + 32) for start in range(0, 160, 32)]
    sums = sum(member.offer(x[part], y[part], words(part.start))[0] for part in parts)
    total = ClippedSum(objective(model, x, y), 0.5, 160, 40.0)
    assert sums.dtype == np.uint32
    assert quiet.decode(sums) == pytest.approx(total(x, y).vector, abs=10 * quiet.share_std * np.sqrt(5))


def test_the_noise_of_a_member_is_its_share():
    model, x, y = built("linear", 8)
    member = prepared(model, x, y)
    drawn = np.concatenate([RULE.decode(member.offer(x[:0], y[:0], words(n))[0]) for n in range(100)])
    assert drawn.std() == pytest.approx(RULE.share_std, rel=5 / np.sqrt(2 * len(drawn)))
    assert len(np.unique(drawn)) > 0.999 * len(drawn)


def test_a_row_moves_the_words_by_no_more_than_the_radius():
    """With the same noise, in whole units: what the accountant charges for."""
    model, x, y = built("linear", 20)
    member = prepared(model, x, y)
    for row in range(5):
        others = [number for number in range(20) if number != row]
        with_row, _ = member.offer(x, y, words(3))
        without, _ = member.offer(x[others], y[others], words(3))
        moved = np.linalg.norm((with_row - without).view(np.int32).astype(float)) * RULE.unit
        assert 0.4999 * 0.5 < moved <= 0.5


def test_an_unrounded_clip_would_show():
    """Planted: without what rounding takes from the radius, a row with many small parts moves it beyond C."""
    rule = changed(expected_batch=2.0**20)
    model, x, y = built("linear", 20)
    member = prepared(model, x, y, rule)
    assert member._sum.clipped._clip < 0.5 - np.sqrt(66) * rule.unit
    member._sum.clipped._clip = 0.5
    offers = [member.offer(x[row:], y[row:], words(3))[0] for row in range(20)]
    moved = [np.linalg.norm((one - two).view(np.int32).astype(float)) for one, two in pairwise(offers)]
    assert max(moved) * rule.unit > 0.5


def test_rows_that_are_not_finite_and_models_that_diverged():
    model, x, y = built("linear", 8)
    member = prepared(model, x, y)
    assert member.method == "book-keeping"
    x[2] = float("nan")
    offered, batch = member.offer(x, y, words())
    assert batch.not_finite == 1
    assert np.abs(RULE.decode(offered)).max() < 100
    with torch.no_grad():
        model[0].bias[0] = float("inf")
    with pytest.raises(NotFinite):
        member.offer(x, y, words())
