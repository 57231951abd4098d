import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.data.partition import dirichlet, even, hold_out


def rng(seed=0):
    return np.random.default_rng(seed)


@settings(max_examples=50)
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    parts=st.integers(1, 12),
    alpha=st.sampled_from([0.01, 0.5, 100.0]),
    data=st.data(),
)
def test_every_row_is_in_one_part_and_every_part_is_large_enough(labels, parts, alpha, data):
    min_rows = data.draw(st.integers(0, len(labels) // parts))
    divided = dirichlet(np.array(labels), parts, alpha, rng(), min_rows=min_rows)
    assert len(divided) == parts
    assert sorted(np.concatenate(divided)) == list(range(len(labels)))
    assert min(map(len, divided)) >= min_rows


def test_a_small_alpha_gives_parts_of_few_labels():
    labels = np.arange(2000) % 10

    def largest_label(alpha):
        divided = dirichlet(labels, 5, alpha, rng(1), min_rows=8)
        return np.mean([np.bincount(labels[part]).max() / len(part) for part in divided])

    assert largest_label(0.1) > 2 * largest_label(100.0)


def test_more_parts_than_rows_allow():
    with pytest.raises(ValueError, match="10 rows cannot make 3 parts of at least 4"):
        dirichlet(np.zeros(10, int), 3, 0.5, rng(), min_rows=4)


def test_even_parts():
    divided = even(11, 4, rng())
    assert sorted(map(len, divided)) == [2, 3, 3, 3]
    assert sorted(np.concatenate(divided)) == list(range(11))


@settings(max_examples=50)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=50), st.floats(0.001, 0.999))
def test_a_hold_out_leaves_rows_on_both_sides(targets, fraction):
    kept, held_out = hold_out(np.array(targets), fraction, rng())
    assert sorted([*kept, *held_out]) == list(range(len(targets)))
    assert len(kept) >= 1
    assert abs(len(held_out) - max(1, len(targets) * fraction)) <= 1


def test_a_hold_out_is_stratified():
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    _, held_out = hold_out(labels, 0.2, rng())
    assert list(np.bincount(labels[held_out])) == [20, 10, 2]
