"""Counts in offers: exact through the sums of real sessions, each member's once, and never a wrong figure."""

import numpy as np
import pytest
import torch

from node.runtime.contributions.metric_of_all import (
    DIGIT,
    STAMP_DIGITS,
    Counted,
    DigitWords,
    NoMetric,
    digits_of,
    numbers_of,
)
from node.runtime.record.figures import Record
from node.task.load import load_task, read_kept_task
from node.training.figures.tallies import Confusion, Errors, Scores
from node.training.model_file import task_table
from protocol.wire.limits import MAX_MEMBERS
from tests import run_folders
from tests.unit.node.alone import ended, spend
from tests.unit.node.sums import mean_of

EVERY = 5
METRIC = ("aggregation.swarm_metric=confusion", "aggregation.swarm_metric_every=1")


def rows(seed, count, weight=1):
    """Returns outputs (count, 3) and labels (count,)."""
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(rng.integers(3, size=count))
    noise = torch.from_numpy(rng.normal(size=(count, 3)).astype(np.float32))
    return noise + weight * torch.nn.functional.one_hot(labels, 3), labels


def member(seed, count=50, bound=4.0, every=EVERY):
    tally = Confusion(3, ())
    return Counted(tally, every, DigitWords.of_tally(tally, bound), lambda _: rows(seed, count))


def words_of(members, generation=9):
    return [one.words(np.zeros(1, np.float32), generation) for one in members]


@pytest.mark.parametrize("bound", [4.0, 0.1, 7.3, 1e4])
@pytest.mark.parametrize("count", [3, 7, MAX_MEMBERS])
def test_all_members_read_the_metric_of_all_rows_and_their_own(count, bound):
    members = [member(seed, 20 + 3 * seed, bound) for seed in range(count)]
    mean = mean_of(words_of(members), bound)
    outputs, labels = zip(*(rows(seed, 20 + 3 * seed) for seed in range(count)), strict=True)
    right = [float((one.argmax(1) == y).double().mean()) for one, y in zip(outputs, labels, strict=True)]
    for position, one in enumerate(members):
        found = one.read(9, mean, count)
        every = torch.cat(labels)
        assert (found.rows, found.peers, found.generation) == (len(every), count, 9)
        assert found.metric == "accuracy"
        assert found.value == pytest.approx(float((torch.cat(outputs).argmax(1) == every).double().mean()))
        assert found.baseline == pytest.approx(float(every.bincount().max() / len(every)))
        assert found.mine == pytest.approx(right[position])


@pytest.mark.parametrize("tally", [Confusion(2, ()), Scores(()), Errors(1.0)])
@pytest.mark.parametrize("bound", [4.0, 0.3])
def test_the_largest_counts_of_the_largest_group_are_exact(tally, bound):
    """Every digit is the largest one, which is the worst case for float32 and for fixed point."""
    carrier, counts = DigitWords.of_tally(tally, bound), np.full(tally.size, float(DIGIT**tally.digits - 1))
    words = carrier.words(DIGIT**STAMP_DIGITS - 1, counts)
    assert np.array_equal(words, carrier.words(DIGIT**STAMP_DIGITS - 1, 2 * counts)), "more is cut"
    assert np.unique(words).tolist() == [np.float32((DIGIT - 1) / DIGIT * carrier.one)]
    mean = mean_of([words] * MAX_MEMBERS, bound)
    exact = mean.astype(np.float64) * (MAX_MEMBERS * DIGIT / carrier.one)
    assert np.abs(exact - np.rint(exact)).max() < 0.2
    assert (carrier.total(mean, MAX_MEMBERS).units == MAX_MEMBERS * counts).all()


def test_digits_and_numbers():
    numbers = np.array([0, 1, 4095, 4096, 2**24 - 1])
    assert digits_of(numbers, 2).tolist() == [0, 0, 1, 0, 4095, 0, 0, 1, 4095, 4095]
    assert (numbers_of(digits_of(numbers, 2) * 3, 2) == 3 * numbers).all()


@pytest.mark.parametrize("word", [-0.5, 0.5 / DIGIT, -1.0])
def test_there_is_no_figure_if_a_member_did_not_count_for_this_base_or_sends_what_no_honest_one_does(word):
    """A negative count, and half a row."""
    members = [member(seed) for seed in range(3)]
    offers = words_of(members)
    mean = mean_of(offers, 4.0)
    (late,) = words_of(members[2:], 4)
    odd = offers[2].copy()
    odd[5] += np.float32(4 * word)
    for last in (np.zeros_like(late), late, odd):
        assert members[0].read(9, mean_of([*offers[:2], last], 4.0), 3) is None
    assert members[0].read(9, mean, 3) is not None
    assert members[0].read(9, mean, 4) is None
    assert members[0].read(8, mean, 3) is None
    assert member(0).read(9, mean, 3).mine is None, "it did not count itself"


def test_without_a_metric_an_offer_has_no_words_for_it():
    nothing = NoMetric()
    assert nothing.slots == 0
    assert not nothing.is_due(9)
    assert len(nothing.words(np.zeros(1, np.float32), 9)) == len(nothing.empty()) == 0
    assert nothing.read(9, np.empty(0, np.float32), 3) is None


async def test_a_node_offers_counts_and_stores_the_figure_of_a_sum(alone):
    node = alone("none", *METRIC)
    size, before = node.state.dimension, node.state.base_vector.copy()
    assert node.learning.offered == size + 2 + 2 * 100
    mine = node.learning.trainer.evaluate(before)
    node.peer._contribution.prepare(1, node.peer.stopping.training)
    offer = node.peer._contribution.offer()
    assert offer.shape == (node.learning.offered,)
    await node.peer._perform(ended(node, offer.copy()))
    assert np.array_equal(node.state.base_vector, before + offer[:size])
    found = Record.from_ending(node.state.ending).swarm
    rows = len(node.learning.trainer.outputs(before)[1])
    assert (found.metric, found.peers, found.rows, found.generation) == ("accuracy", 3, 3 * rows, 0)
    assert found.value == found.mine == pytest.approx(mine.accuracy)
    await node.peer._history.catch_up()
    line = run_folders.history(node.folder)[-1]
    rounded = {name: round(getattr(found, name), 6) for name in ("value", "mine", "baseline")}
    assert line["swarm"] == {**vars(found), **rounded}


async def test_a_weight_stands_between_update_and_counts(alone):
    node = alone("none", *METRIC, "aggregation.weighting=samples", "aggregation.sample_cap=1000")
    assert node.learning.offered == node.state.dimension + 1 + 2 + 2 * 100
    before = node.state.base_vector.copy()
    node.peer._contribution.prepare(1, node.peer.stopping.training)
    fresh = node.state.fresh.copy()
    await node.peer._perform(ended(node, node.peer._contribution.offer().copy()))
    assert node.state.base_vector == pytest.approx(before + fresh, abs=1e-6)
    found = Record.from_ending(node.state.ending).swarm
    assert found.value == found.mine


async def test_after_an_offer_was_spent_on_a_base_its_counts_are_not_offered_again(alone):
    """Two sums for one base, of members that differ by one, would show that one's counts."""
    node = alone("none", *METRIC)
    for number, has_counts in ((1, True), (2, False)):
        node.peer._contribution.prepare(number, node.peer.stopping.training)
        assert node.peer._contribution.offer()[node.state.dimension :].any() == has_counts
        spend(node, number)


SUMS = ("aggregation.swarm_metric=sums", "aggregation.swarm_metric_every=1")
NOISED = (*SUMS, "privacy.mechanism=dp-sgd", "privacy.metric_share=0.4")


@pytest.mark.parametrize("overrides", [(), METRIC, NOISED])
def test_a_model_file_has_all_keys_and_its_task_can_be_read_again(overrides):
    task = load_task("digits", overrides)
    kept = read_kept_task(task_table(task))
    assert (kept.aggregation, kept.privacy) == (task.aggregation, task.privacy)
