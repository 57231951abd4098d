"""The median of group sums: against a slow second way, at its breakdown point, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.noise.clipping import NotFinite
from mechanisms.servers.group_median import deal, group_means, group_median, lies_withstood, smallest_sum
from tests.unit.mechanisms.settings import words

SIZES = st.integers(3, 7).flatmap(lambda groups: st.tuples(st.integers(3 * groups, 40), st.just(groups)))


def updates(k: int, d: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((k, d)).astype(np.float32)


def one_liar_a_group(rows: np.ndarray, groups: int, liars: int, value: float) -> np.ndarray:
    """The worst liars: the first member of each of so many groups, as they are dealt with `words()`."""
    changed = rows.copy()
    for group in deal(len(rows), groups, words())[:liars]:
        changed[group[0]] = np.float32(value)
    return changed


@given(SIZES, st.integers(0, 10_000))
@settings(max_examples=40)
def test_every_member_is_in_one_group_and_groups_are_near_equal(sizes: tuple[int, int], seed: int) -> None:
    members, groups = sizes
    dealt = deal(members, groups, words(seed))
    assert sorted(np.concatenate(dealt).tolist()) == list(range(members))
    lengths = [len(group) for group in dealt]
    assert (len(lengths), min(lengths)) == (groups, smallest_sum(members, groups))
    assert 3 <= min(lengths) <= max(lengths) <= min(lengths) + 1


@given(SIZES, st.integers(0, 10_000))
@settings(max_examples=40)
def test_it_is_numpys_median_of_the_means(sizes: tuple[int, int], seed: int) -> None:
    members, groups = sizes
    rows = updates(members, 5, seed)
    means = [rows[group].astype(np.float64).mean(axis=0) for group in deal(members, groups, words(seed))]
    found = group_median(rows, groups, words(seed))
    np.testing.assert_allclose(found, np.median(means, axis=0), rtol=1e-5, atol=1e-6)
    assert (found.dtype, found.shape) == (np.float32, (5,))


@given(SIZES, st.integers(0, 10_000), st.floats(-3e38, 3e38))
@settings(max_examples=40)
def test_lies_within_the_bound_leave_it_between_honest_groups(sizes, seed, value) -> None:
    members, groups = sizes
    honest = updates(members, 4, seed)
    means = group_means(honest, deal(members, groups, words()))
    found = group_median(one_liar_a_group(honest, groups, lies_withstood(groups), value), groups, words())
    assert (found >= means.min(axis=0) - 1e-6).all()
    assert (found <= means.max(axis=0) + 1e-6).all()


@pytest.mark.parametrize(("members", "groups"), [(9, 3), (15, 5), (16, 5), (24, 8)])
def test_one_liar_more_in_a_group_of_its_own_carries_it_away(members: int, groups: int) -> None:
    honest = updates(members, 30, 6)
    assert lies_withstood(groups) == (groups - 1) // 2
    found = group_median(one_liar_a_group(honest, groups, lies_withstood(groups) + 1, 1e6), groups, words())
    assert np.linalg.norm(found) > 1e5


def test_each_deal_is_new_and_no_place_is_kept() -> None:
    source = words()
    dealt = [deal(9, 3, source) for _ in range(2000)]
    partners = [
        [member in group for member in range(1, 9)] for deals in dealt for group in deals if 0 in group
    ]
    # Member 0 shares its group with any other one in a quarter of the deals.
    np.testing.assert_allclose(np.mean(partners, axis=0), 0.25, atol=0.05)
    assert np.mean([0 in deals[0] for deals in dealt]) == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.parametrize(
    ("members", "groups", "message"),
    [
        (15, 6, "groups = 6 is not allowed: 3 to 5; there must be 3 groups of 3 members or more"),
        (15, 2, "groups = 2 is not allowed: 3 to 5"),
        (8, 3, "groups = 3 is not allowed: none, of 8 members; there must be 3 groups of 3"),
        (15, 0, "groups = 0"),
    ],
)
def test_groups_that_would_tell_too_much_or_withstand_nothing_are_refused(members, groups, message) -> None:
    with pytest.raises(ValueError, match=message):
        group_median(updates(members, 3, 0), groups, words())


def test_other_than_numbers_are_refused() -> None:
    rows = updates(9, 3, 0)
    with pytest.raises(TypeError, match="groups = True"):
        group_median(rows, True, words())
    with pytest.raises(TypeError, match="float64"):
        group_median(rows.astype(np.float64), 3, words())
    with pytest.raises(ValueError, match=r"shape \(9,\)"):
        group_median(rows[:, 0], 3, words())
    rows[4, 1] = np.nan
    with pytest.raises(NotFinite, match="drop those members first"):
        group_median(rows, 3, words())
