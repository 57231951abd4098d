"""How much one user moves an estimate: McMahan et al. 2018, Lemma 1, by brute force, and what a grid adds."""

import numpy as np
import pytest

from mechanisms.noise.clipping import clip_l2
from mechanisms.noise.noise import grid
from mechanisms.servers.estimators import ClippedDenominator, FixedDenominator

FINE = 2.0**-30


def estimate(estimator, users, q, spacing=FINE):
    """(d,) of `users`, pairs of an update (d,) and a weight."""
    return estimator.estimate(users, len(users[0][0]), q, spacing) * spacing


def distance(estimator, users, more, q, spacing=FINE):
    """How far the user `more` moves the estimate, in the L2 norm."""
    with_it = estimate(estimator, [*users, more], q, spacing)
    empty = np.zeros_like(with_it)
    without = estimate(estimator, users, q, spacing) if users else empty
    return float(np.linalg.norm(with_it - without))


def random_users(rng, clip, d, most):
    """Up to `most` users: many at the bound, many in one direction, with weights of 0 to 1, often 1."""
    users = []
    direction = rng.standard_normal(d)
    for _ in range(rng.integers(0, most + 1)):
        own = direction * rng.choice([-1, 1]) if rng.random() < 0.7 else rng.standard_normal(d)
        own = own / np.linalg.norm(own) * clip * (1 if rng.random() < 0.7 else rng.random())
        users.append((clip_l2(own.astype(np.float32), clip), 1.0 if rng.random() < 0.6 else rng.random()))
    return users


def worst(estimator, q, clip, seed, trials=1500):
    rng = np.random.default_rng(seed)
    far = 0.0
    for _ in range(trials):
        d = int(rng.integers(1, 4))
        users = random_users(rng, clip, d, 12)
        more = random_users(rng, clip, d, 1) or [(np.full(d, clip / d, np.float32), 1.0)]
        far = max(far, distance(estimator, users, more[0], q))
    return far


@pytest.mark.parametrize(("q", "total"), [(0.5, 8.0), (0.1, 30.0), (1.0, 3.0)])
def test_one_user_moves_the_fixed_denominator_by_at_most_the_lemma(q, total):
    """S / (q W)."""
    clip = 1.5
    bound = clip / (q * total)
    far = worst(FixedDenominator(total), q, clip, 1)
    assert 0.99 * bound < far <= bound * (1 + 1e-6)
    assert FixedDenominator(total).noise_std(2.0, q, clip, 3) == pytest.approx(2.0 * bound), "z S / (q W)"


@pytest.mark.parametrize("m", [0.3, 0.7, 1.0, 1.6, 4.0, 7.5])
def test_one_user_moves_the_clipped_denominator_by_at_most_the_derived_bound(m):
    """2 S / (m + 1), which is within the lemma's 2 S / m; m = q W_min."""
    clip, q = 1.5, 0.5
    estimator = ClippedDenominator(m / q)
    bound = 2 * clip / (m + 1)
    far = worst(estimator, q, clip, 2)
    assert 0.6 * bound < far <= bound * (1 + 1e-6) < 2 * clip / m
    assert estimator.noise_std(2.0, q, clip, 3) == pytest.approx(2.0 * 2 * clip / m), "2 z S / (q W_min)"


@pytest.mark.parametrize("m", [1, 2, 5])
def test_the_derived_bound_is_reached(m):
    """All against one: m users of weight 1 at -S, one more at S."""
    users = [(np.array([-1.5], np.float32), 1.0)] * m
    far = distance(ClippedDenominator(m / 0.5), users, (np.array([1.5], np.float32), 1.0), 0.5)
    assert far == pytest.approx(2 * 1.5 / (m + 1), rel=1e-6)


@pytest.mark.parametrize("spacing", [2.0**-4, 2.0**-9])
def test_a_coarse_grid_moves_the_fixed_denominator_no_further(spacing):
    """Each term is cut before the sum, so the difference is one term, cut towards zero."""
    rng, estimator = np.random.default_rng(4), FixedDenominator(4.0)
    for _ in range(500):
        users, more = random_users(rng, 1.0, 6, 5), rng.standard_normal(6) * rng.uniform(0, 2)
        moved = distance(estimator, users, (clip_l2(more.astype(np.float32), 1.0), 1.0), 0.5, spacing)
        assert moved <= 1.0 / (0.5 * 4.0)


@pytest.mark.parametrize(
    ("q", "least", "z", "d"), [(0.5, 4.0, 1.0, 50), (0.5, 4e7, 1e-3, 10**7), (1, 2e4, 5, 10**6)]
)
def test_noise_covers_what_the_grid_adds(q, least, z, d):
    """The sensitivity of the quotient on its grid, 2 S / (m + 1) + sqrt(d) steps, times z, at the least."""
    noise_std, m = ClippedDenominator(least).noise_std(z, q, 1.0, d), q * least
    assert noise_std >= z * max(2 / m, 2 / (m + 1) + np.sqrt(d) * grid(noise_std, 0.0))


def test_noise_grows_only_where_the_grid_is_too_coarse_for_the_lemma():
    assert ClippedDenominator(4.0).noise_std(1.0, 0.5, 1.0, 200_000) == 1.0
    many = ClippedDenominator(4e7).noise_std(1.0, 0.5, 1.0, 200_000)
    assert 1.0 < many / (2 / (0.5 * 4e7)) < 1.01


def test_a_quotient_is_cut_to_the_grid_and_nobody_gives_zeros():
    users = [(np.array([0.7, -0.7], np.float32), 1.0)]
    assert ClippedDenominator(1.0).estimate(users, 2, 1.0, 0.25).tolist() == [2.0, -2.0]
    for make in (FixedDenominator, ClippedDenominator):
        assert make(3.0).estimate([], 3, 0.5, FINE).tolist() == [0.0, 0.0, 0.0]
        with pytest.raises(ValueError, match=r"_weight = 0\.0 is not allowed: a number above 0"):
            make(0.0)
