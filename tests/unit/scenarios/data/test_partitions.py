import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.data import partition
from scenarios.data.partitions import Parts, dirichlet, iid, natural, pieces, quantity, shards
from tests.unit.scenarios.refusals import refused

SEEDS = st.integers(0, 2**32 - 1)
ALPHAS = st.sampled_from([1e-3, 0.1, 0.5, 10.0, 1e6])
LABELS = np.random.default_rng(7).integers(0, 10, 2000)
unhurried = settings(deadline=None)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def every_way(labels, parts: int, alpha: float, seed: int) -> dict[str, Parts]:
    return {
        "iid": iid(labels, parts, rng(seed)),
        "dirichlet": dirichlet(labels, parts, rng(seed), alpha=alpha),
        "quantity": quantity(labels, parts, rng(seed), alpha=alpha),
        "shards": shards(labels, parts, rng(seed), shards_per_part=1),
    }


@unhurried
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.data(), ALPHAS, SEEDS)
def test_every_row_is_in_exactly_one_part_and_no_part_is_empty(labels, data, alpha, seed) -> None:
    parts = data.draw(st.integers(1, len(labels)))
    for way, divided in every_way(np.array(labels), parts, alpha, seed).items():
        assert_division(divided, len(labels), parts, way)


@unhurried
@given(st.lists(st.sampled_from(["CA", "ME", "NY", "TX"]), min_size=1, max_size=40), st.data(), SEEDS)
def test_an_owners_rows_stay_together(keys, data, seed) -> None:
    owners = len(set(keys))
    parts = data.draw(st.integers(1, owners))
    divided = natural(np.array(keys), parts, rng(seed))
    assert_division(divided, len(keys), parts, "natural")
    names = [{keys[row] for row in part} for part in divided]
    assert sum(map(len, names)) == owners
    assert max(map(len, names)) - min(map(len, names)) <= 1


@unhurried
@given(st.lists(st.sampled_from(["CA", "ME", "NY", "TX"]), min_size=1, max_size=40), st.data(), SEEDS)
def test_pieces_are_of_one_owner_each_and_nearly_equal(keys, data, seed) -> None:
    parts = data.draw(st.integers(len(set(keys)), len(keys)))
    divided = pieces(np.array(keys), parts, rng(seed))
    assert_division(divided, len(keys), parts, "pieces")
    whose = [{keys[row] for row in part} for part in divided]
    assert all(len(names) == 1 for names in whose)
    order = [name for names in whose for name in names]
    assert order == sorted(order)
    largest = max(keys.count(owner) / order.count(owner) for owner in order)
    for owner in set(keys):
        sizes = [len(part) for part, name in zip(divided, order, strict=True) if name == owner]
        assert max(sizes) - min(sizes) <= 1
        # With a piece less, this owner's would be the largest of all.
        assert len(sizes) == 1 or sum(sizes) / (len(sizes) - 1) >= largest


@unhurried
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 30), SEEDS)
def test_shards_of_any_number_hold_every_row_once(parts, dealt, more, seed) -> None:
    rows = parts * dealt + more
    labels = rng(seed).integers(0, 3, rows)
    divided = shards(labels, parts, rng(seed), shards_per_part=dealt)
    assert_division(divided, rows, parts, "shards")
    assert max(map(len, divided)) - min(map(len, divided)) <= dealt


def assert_division(divided: Parts, rows: int, parts: int, way: str) -> None:
    assert isinstance(divided, tuple), way
    assert len(divided) == parts, way
    assert all(len(part) > 0 for part in divided), way
    assert all(part.dtype == np.int64 and (np.diff(part) > 0).all() for part in divided), way
    assert sorted(np.concatenate(divided)) == list(range(rows)), way


def test_the_generator_alone_decides_and_iid_parts_are_equal_to_within_one_row():
    once, again, other = (every_way(LABELS, 20, 0.5, seed) for seed in (1, 1, 2))
    for way, divided in once.items():
        assert all(np.array_equal(a, b) for a, b in zip(divided, again[way], strict=True)), way
        assert not all(np.array_equal(a, b) for a, b in zip(divided, other[way], strict=True)), way
    divided = iid(LABELS, 7, rng())
    assert {len(part) for part in divided} == {285, 286}
    assert all(len(np.unique(LABELS[part])) == 10 for part in divided)


def test_a_small_alpha_skews_labels_as_the_nodes_own_partition_does():
    own = dirichlet(LABELS, 10, rng(3), alpha=0.3, min_rows=8)
    theirs = partition.dirichlet(LABELS, 10, 0.3, rng(3), min_rows=8)
    assert all(np.array_equal(a, b) for a, b in zip(own, theirs, strict=True))
    assert min(map(len, own)) >= 8
    skewed, even = (dirichlet(LABELS, 10, rng(), alpha=alpha) for alpha in (0.05, 1e6))
    assert np.mean([len(np.unique(LABELS[part])) for part in skewed]) < 4
    assert all(len(np.unique(LABELS[part])) == 10 for part in even)


def test_two_shards_a_part_are_few_labels_a_part_of_random_rows():
    labels = np.repeat(np.arange(10), 200)[rng(4).permutation(2000)]
    divided = shards(labels, 20, rng())
    assert {len(part) for part in divided} == {100}
    assert max(len(np.unique(labels[part])) for part in divided) == 2
    assert len({tuple(np.unique(labels[part])) for part in divided}) > 5
    divided = shards(np.zeros(100, np.int64), 2, rng(), shards_per_part=1)
    assert not np.array_equal(divided[0], np.arange(50))
    assert not np.array_equal(divided[0], np.arange(50, 100))


def test_pieces_follow_the_rows_of_their_owners_who_come_in_order():
    divided = natural(np.array([30, 10, 30, 20, 10]), 3, rng())
    assert [list(part) for part in divided] == [[1, 4], [3], [0, 2]]
    divided = pieces(np.repeat([7, 5], [80, 40]), 6, rng())
    assert [len(part) for part in divided] == [20] * 6
    assert [int(part[0] >= 80) for part in divided] == [1, 1, 0, 0, 0, 0]  # owner 5 comes first
    keys = np.zeros(100, np.int64)
    divided, again, other = (pieces(keys, 2, rng(seed)) for seed in (0, 0, 1))
    assert not np.array_equal(divided[0], np.arange(50))
    assert np.array_equal(divided[0], again[0])
    assert not np.array_equal(divided[0], other[0])


@pytest.mark.parametrize("parts", [1, 3, 5])
def test_no_more_pieces_than_owners_are_as_they_come(parts) -> None:
    keys = rng().integers(0, 5, 60)
    divided, expected = pieces(keys, parts, rng(4)), natural(keys, parts, rng(4))
    assert all(np.array_equal(one, other) for one, other in zip(divided, expected, strict=True))


def test_quantity_skew_is_in_the_sizes_alone_and_none_for_a_large_alpha():
    divided = quantity(LABELS, 10, rng(), alpha=0.5)
    sizes = sorted(map(len, divided))
    assert sizes[-1] > 5 * sizes[0]
    largest = max(divided, key=len)
    share = np.bincount(LABELS[largest], minlength=10) / len(largest)
    assert np.abs(share - np.bincount(LABELS) / len(LABELS)).max() < 0.05
    sizes = [len(part) for part in quantity(LABELS, 10, rng(), alpha=1e6)]
    assert max(sizes) - min(sizes) <= 10


ROWS = np.zeros(12, np.int64)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: iid(ROWS, 0, rng()), ValueError, "parts = 0 is not allowed: a whole number"),
        (lambda: iid(ROWS, 2.0, rng()), TypeError, "parts = 2.0 is not allowed"),
        (lambda: iid(ROWS, 13, rng()), ValueError, "parts = 13 is not allowed: 1 to 12, as there are 12 row"),
        (lambda: dirichlet(ROWS, 3, rng(), alpha=0), ValueError, "alpha = 0 is not allowed"),
        (lambda: dirichlet(ROWS, 3, rng(), alpha=float("nan")), ValueError, "alpha = nan"),
        (lambda: dirichlet(ROWS, 3, rng(), alpha=1e-9), ValueError, "alpha = 1e-09 is not allowed: 0.001 to"),
        (lambda: quantity(ROWS, 3, rng(), alpha=1e7), ValueError, "alpha = 10000000.0 is not allowed"),
        (lambda: quantity(ROWS, 3, rng(), alpha="1"), TypeError, "alpha = '1' is not allowed"),
        (lambda: quantity(ROWS, 13, rng(), alpha=1), ValueError, "parts = 13"),
        (lambda: dirichlet(ROWS, 3, rng(), alpha=1, min_rows=5), ValueError, "1 to 2, as there are 12 rows"),
        (lambda: dirichlet(ROWS, 3, rng(), alpha=1, min_rows=0), ValueError, "min_rows = 0 is not allowed"),
        (lambda: shards(ROWS, 7, rng()), ValueError, "parts * shards_per_part = 14 is not allowed: 1 to 12"),
        (lambda: shards(ROWS, 2, rng(), shards_per_part=0), ValueError, "shards_per_part = 0"),
        (lambda: natural(ROWS, 2, rng()), ValueError, "parts = 2 is not allowed: 1 to 1, one for each owner"),
        (lambda: natural(ROWS, 0, rng()), ValueError, "parts = 0 is not allowed"),
        (lambda: pieces(ROWS, 0, rng()), ValueError, "parts = 0 is not allowed"),
        (lambda: pieces(ROWS, 13, rng()), ValueError, "parts = 13 is not allowed: 1 to 12, as there are 12"),
        (lambda: pieces(ROWS, "2", rng()), TypeError, "parts = '2' is not allowed"),
    ],
)
def test_what_can_not_be_is_refused_by_name_and_value(call, error, said):
    with refused(said, error):
        call()
