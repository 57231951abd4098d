"""How unequal clients' rows are: distances by hand, and distances by chance against dealing at random."""

import numpy as np
import pytest

from scenarios.study import skew

COUNTS = np.array([[6, 2], [0, 4], [6, 6]])
"""All together: half of the rows have each label."""


def test_labels_are_counted_and_a_distance_is_the_share_that_would_have_to_change():
    found = skew.label_counts([np.array([0, 2, 2]), np.array([1])], 4)
    assert found.tolist() == [[1, 0, 2, 0], [0, 1, 0, 0]]
    assert skew.label_distances(COUNTS).tolist() == pytest.approx([0.25, 0.5, 0.0])
    everything = COUNTS.sum(axis=0, keepdims=True)
    assert skew.label_distances(everything).tolist() == [0.0]
    assert skew.chance_distances(everything) == pytest.approx([0.0], abs=1e-12)


def test_facts_of_a_partition_and_sizes_alone_where_there_are_no_labels():
    facts = skew.skew_facts(COUNTS)
    assert (facts[skew.DISTANCE], facts[skew.FARTHEST]) == (pytest.approx(0.25), pytest.approx(0.5))
    assert (facts[skew.CLIENTS], facts[skew.FEWEST], facts[skew.MOST]) == (3, 4, 12)
    assert facts[skew.SIZE_SPREAD] == pytest.approx(np.std([8, 4, 12]) / 8)
    assert facts[skew.BY_CHANCE] == pytest.approx(skew.chance_distances(COUNTS).mean())
    assert skew.size_facts([3, 3]) == {skew.CLIENTS: 2, skew.FEWEST: 3, skew.MOST: 3, skew.SIZE_SPREAD: 0.0}


def test_the_distance_by_chance_is_that_of_dealt_rows_in_the_mean() -> None:
    """Of clients with 5, 15 and 40 rows; the standard error of 2,000 deals is below .003."""
    rng, sizes, labels = np.random.default_rng(5), [5, 15, 40], np.repeat([0, 1, 2], [30, 20, 10])
    dealt = [np.split(rng.permutation(labels), np.cumsum(sizes)[:-1]) for _ in range(2000)]
    distances = np.array([skew.label_distances(skew.label_counts(parts, 3)) for parts in dealt])
    expected = skew.chance_distances(skew.label_counts(dealt[0], 3))
    assert distances.mean(axis=0) == pytest.approx(expected, abs=0.01)
    assert expected[0] > expected[1] > expected[2] > 0.02
