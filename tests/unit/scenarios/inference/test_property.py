"""Property inference: who is drawn, what sums contain, and what a classifier infers from them."""

import numpy as np
import pytest

from scenarios.inference.property import Makeup, counting_auc, inferred, sums

RNG = np.random.default_rng


def population() -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(0)
    return rng.random(600) < 0.4, (rng.random(600) < 0.3).astype(np.int64)


@pytest.mark.parametrize("with_trait", [0.7, 0.3])
def test_a_client_has_its_share_of_the_trait_and_labels_apart_from_it(with_trait: float) -> None:
    trait, y = population()
    pool = np.arange(100, 600)
    rows = Makeup(50, with_trait, 0.2).draw(pool, trait, y, RNG(1))
    assert len(np.unique(rows)) == 50
    assert rows.min() >= 100
    assert trait[rows].mean() == with_trait
    assert y[rows][trait[rows]].mean() == y[rows][~trait[rows]].mean() == 0.2
    assert not np.array_equal(rows, Makeup(50, with_trait, 0.2).draw(pool, trait, y, RNG(2)))


@pytest.mark.parametrize("members", [1, 2, 5, 6])
def test_a_sum_has_its_own_update_and_others(members: int) -> None:
    found = sums(np.eye(6), members, RNG(0))
    assert (np.diag(found) == 1).all()
    assert (found.sum(axis=1) == members).all()
    assert set(np.unique(found)) <= {0.0, 1.0}


def test_a_sum_of_random_companions_and_no_more_than_there_are_in_the_pool():
    drawn = np.sum([sums(np.eye(6), 3, RNG(seed)) for seed in range(500)], axis=0)
    assert np.abs(drawn[~np.eye(6, dtype=bool)] / 500 - 0.4).max() < 0.1
    with pytest.raises(ValueError, match="sums of 7 are not to be had of 6"):
        sums(np.eye(6), 7, RNG(0))
    with pytest.raises(ValueError, match="members = 0"):
        sums(np.eye(6), 0, RNG(0))
    trait, y = population()
    with pytest.raises(ValueError, match="120 rows with label 1, with the trait, are not to be had"):
        Makeup(300, 1.0, 0.4).draw(np.arange(600), trait, y, RNG(0))
    assert [counting_auc(members) for members in (1, 2, 3)] == [1.0, 0.875, 0.8125]
    coins = RNG(0).binomial(9, 0.5, (2, 200_000))
    gaps = coins[0] + 1 - coins[1]
    assert counting_auc(10) == pytest.approx((gaps > 0).mean() + (gaps == 0).mean() / 2, abs=0.005)


def test_a_property_that_shows_is_told_whatever_the_scales_and_one_that_does_not_is_not():
    rng = RNG(0)
    has = np.arange(400) % 2 == 1
    updates = rng.normal(size=(400, 5))
    hidden = inferred(updates[:200], has[:200], updates[200:], has[200:])
    assert abs(hidden.auc - 0.5) < 0.1
    updates[has, 3] += 5
    shown = inferred(updates[:200], has[:200], updates[200:], has[200:])
    assert min(shown.auc, shown.accuracy) > 0.95
    turned = inferred(updates[:200], ~has[:200], updates[200:], has[200:])
    assert max(turned.auc, turned.accuracy) < 0.05
    has = np.arange(200) % 2 == 1
    updates = rng.normal(size=(200, 3)) + has[:, None]
    scaled = updates * np.array([1e-6, 1, 1e6])
    one, other = (inferred(u[:100], has[:100], u[100:], has[100:]) for u in (updates, scaled))
    assert one.auc == pytest.approx(other.auc)
