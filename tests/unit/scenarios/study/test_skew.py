"""How unequal clients' rows are: distances by hand, and distances by chance against dealing at random."""

import numpy as np
import pytest

from scenarios.study.skew import (
    BY_CHANCE,
    CLIENTS,
    DISTANCE,
    FARTHEST,
    FEWEST,
    MOST,
    SIZE_SPREAD,
    chance_distances,
    label_counts,
    label_distances,
    size_facts,
    skew_facts,
)

COUNTS = np.array([[6, 2], [0, 4], [6, 6]])
"""All together: half of the rows have each label."""


def test_labels_are_counted_client_by_client_those_without_rows_too() -> None:
    found = label_counts([np.array([0, 2, 2]), np.array([1])], 4)
    assert found.tolist() == [[1, 0, 2, 0], [0, 1, 0, 0]]


def test_a_distance_is_the_share_of_labels_that_would_have_to_change() -> None:
    assert label_distances(COUNTS).tolist() == pytest.approx([0.25, 0.5, 0.0])


def test_facts_of_a_partition() -> None:
    facts = skew_facts(COUNTS)
    assert (facts[DISTANCE], facts[FARTHEST]) == (pytest.approx(0.25), pytest.approx(0.5))
    assert (facts[CLIENTS], facts[FEWEST], facts[MOST]) == (3, 4, 12)
    assert facts[SIZE_SPREAD] == pytest.approx(np.std([8, 4, 12]) / 8)
    assert facts[BY_CHANCE] == pytest.approx(chance_distances(COUNTS).mean())


def test_clients_without_labels_have_sizes_alone() -> None:
    assert size_facts([3, 3]) == {CLIENTS: 2, FEWEST: 3, MOST: 3, SIZE_SPREAD: 0.0}


def test_one_client_with_all_rows_is_at_no_distance_and_cannot_be_by_chance() -> None:
    everything = COUNTS.sum(axis=0, keepdims=True)
    assert label_distances(everything).tolist() == [0.0]
    assert chance_distances(everything) == pytest.approx([0.0], abs=1e-12)


def test_the_distance_by_chance_is_that_of_dealt_rows_in_the_mean() -> None:
    """Of clients with 5, 15 and 40 rows; the standard error of 2,000 deals is below .003."""
    rng, sizes, labels = np.random.default_rng(5), [5, 15, 40], np.repeat([0, 1, 2], [30, 20, 10])
    dealt = [np.split(rng.permutation(labels), np.cumsum(sizes)[:-1]) for _ in range(2000)]
    distances = np.array([label_distances(label_counts(parts, 3)) for parts in dealt])
    expected = chance_distances(label_counts(dealt[0], 3))
    assert distances.mean(axis=0) == pytest.approx(expected, abs=0.01)
    assert expected[0] > expected[1] > expected[2] > 0.02
