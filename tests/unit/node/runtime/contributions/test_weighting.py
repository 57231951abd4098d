"""Weights by samples: applied before the mechanism, summed behind the vector, divided alike by all."""

import numpy as np
import pytest

from node.runtime.contributions.weighting import BySamples, Uniform, make_weighting
from node.task.load import load_task
from protocol.wire.limits import MAX_MEMBERS
from tests.unit.node.sums import mean_of

CAP = 200
WEIGHTED = ("aggregation.weighting=samples", f"aggregation.sample_cap={CAP}")


def aggregated(rows, progress, bound=4.0, cap=CAP):
    """Returns (the mean that each member computes, the exact weighted mean)."""
    members = [BySamples(count, cap, bound) for count in rows]
    offers = [one.with_slots(one.weighed(mine)) for one, mine in zip(members, progress, strict=True)]
    means = [one.mean(mean_of(offers, bound).copy()) for one in members]
    weights = np.minimum(np.array(rows) / cap, 1)
    return means, weights @ np.array(progress, dtype=np.float64) / weights.sum()


def progress_of(count, dimension=7, scale=0.5):
    return list(np.random.default_rng(3).uniform(-scale, scale, (count, dimension)).astype(np.float32))


@pytest.mark.parametrize(("rows", "weight"), [(1, 1 / CAP), (50, 0.25), (CAP, 1.0), (CAP + 1, 1.0)])
def test_a_weight_is_rows_over_the_cap_at_most_1(rows, weight):
    one = BySamples(rows, CAP, 4.0)
    vector = np.array([1, -2, 0.5], dtype=np.float32)
    assert one.weight == weight
    assert np.allclose(one.weighed(vector), weight * vector, rtol=1e-6)
    assert np.array_equal(vector, np.float32([1, -2, 0.5])), "progress stays what it was"
    assert one.weighed(vector).dtype == one.with_slots(vector).dtype == np.float32
    assert one.with_slots(vector)[-1] == pytest.approx(4 * weight, rel=1e-6)
    assert one.with_slots(vector).shape == (4,)


def test_the_mean_counts_rows_and_everybody_has_the_same_bits():
    progress = progress_of(4)
    means, exact = aggregated([10, 150, 200, 900], progress)
    assert np.abs(means[0] - exact).max() < 1e-6
    assert {mean.tobytes() for mean in means} == {means[0].tobytes()}
    assert np.abs(means[0] - np.mean(progress, axis=0)).max() > 0.01, "it is not the plain mean"


@pytest.mark.parametrize("bound", [1e-3, 0.1, 0.3, 4.0, 123.456, 1e4])
def test_the_weight_is_never_cut_and_keeps_its_precision_whatever_the_bound(bound):
    progress = progress_of(5, scale=bound / 2)
    means, exact = aggregated([1, 3, 50, 100_000, 100_000], progress, bound, cap=100_000)
    assert np.abs(means[0] - exact).max() < 1e-5 * bound


@pytest.mark.parametrize("cap", [1000, 1_000_000])
@pytest.mark.parametrize("members", [3, MAX_MEMBERS])
def test_a_group_of_one_row_each_is_the_least_that_is_taken(members, cap):
    progress = progress_of(members, scale=0.5)
    means, exact = aggregated([1] * members, progress, cap=cap)
    assert means[0] is not None
    assert np.abs(means[0] - exact).max() < 0.1 * 0.5
    full, _ = aggregated([cap] * members, progress, cap=cap)
    assert full[0] is not None


@pytest.mark.parametrize("liar", [-2.0, -1.0, -0.999, 3.5])
def test_weights_that_honest_members_do_not_have_make_no_mean(liar):
    """One of three sends a weight below 0, or above 1."""
    vectors = [np.float32([0.5, 4 * weight]) for weight in (0.5, 0.5)]
    total = (sum(vector[-1] for vector in vectors) + 4 * liar) / 3
    for member in (BySamples(3, CAP, 4.0), BySamples(CAP, CAP, 4.0)):
        assert member.mean(np.float32([0.5, total])) is None


def test_a_mean_of_offers_is_known_before_it_is_divided_and_the_owner_reads_what_leaves():
    """What mechanisms learn from: the plain mean of the offers."""
    one = BySamples(CAP // 2, CAP, 4.0)
    words = np.float32([0.25, 0.5, 2.0])
    assert one.offers(words).tolist() == [0.25, 0.5]
    assert one.mean(words).tolist() == [0.5, 1.0]
    (told,) = one.words.values()
    assert told.startswith(
        "min(rows / 200, 1) = 0.5; the number of rows leaves this node only inside the sum"
    )


def test_a_task_says_which():
    plain, weighted = (load_task("digits", more).aggregation for more in ((), WEIGHTED))
    assert make_weighting(weighted, 100, 4.0) == BySamples(100, CAP, 4.0)
    uniform, vector = make_weighting(plain, 100, 4.0), np.arange(3, dtype=np.float32)
    assert isinstance(uniform, Uniform)
    for changes_nothing in (uniform.weighed, uniform.with_slots, uniform.offers, uniform.mean):
        assert changes_nothing(vector) is vector
    assert (uniform.slots, uniform.words) == (0, {})
