"""Counts with noise in offers: read from real sums, due and charged as planned, and never sent uncharged."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mechanisms.accounting.ledger import Ledger, SampledGaussian, privacy_spent
from mechanisms.mechanism import CountPlan
from mechanisms.noised_counts import CountGrid, CountNoise
from mechanisms.updates.record import dp_sgd
from node.runtime.contributions.metric_of_all import DIGIT, Counted, DigitWords, Noise, RingWords
from node.runtime.privacy.budget import (
    affordable_counts,
    affordable_steps,
    can_count,
    counts_charged,
    planned_ledger,
)
from node.storage.plain import restored
from node.storage.records import SwarmFigure
from node.system.errors import ConfigError
from node.training.figures.metric_words import swarm_text
from node.training.figures.tallies import Recalls, Scores
from protocol.actions import Failed, Reason
from protocol.wire.limits import MAX_MEMBERS
from tests.unit.mechanisms.settings import setting
from tests.unit.mechanisms.settings import words as noise_words
from tests.unit.node.alone import Alone, ended, prepared, sid, spend, step, voted
from tests.unit.node.runtime.contributions.test_metric_of_all import rows
from tests.unit.node.sums import mean_of

STEPS, RECORDS = "distributed-dp-sgd", "dp-sgd"
METRIC = ("aggregation.swarm_metric=sums", "aggregation.swarm_metric_every=1")
NOWHERE = np.zeros(1, np.float32)
TALLY = Recalls(3, noised=True)
GRID = CountGrid(CountNoise(4.0, 5, 2), 1.0, MAX_MEMBERS)


def member(seed, carrier, every=5, count=4000):
    data = rows(seed, count, weight=2)
    return Counted(TALLY, every, carrier, lambda _: data, noise=Noise(GRID, noise_words(seed)))


def test_rows_that_are_too_few_for_a_figure_count_with_the_others():
    """The others' figure has them, and there is none of their own."""
    data, carrier = rows(0, 4000, weight=2), RingWords(TALLY.size)
    one = Counted(TALLY, 5, carrier, lambda _: data, shows_own=False, noise=Noise(GRID, noise_words(0)))
    found = one.read(9, one.words(NOWHERE, 9), 1)
    assert found.rows == pytest.approx(4000, rel=0.1)
    assert found.mine is None


def test_scores_have_coarser_steps_under_noise_and_finer_ones_for_a_node_s_own_figure():
    """A row of either class, in neighbouring fine steps of one coarse step: a tie for the others alone."""
    tally = Scores((), noised=True)
    data = torch.tensor([[0.01], [0.06]] * 4000), torch.tensor([0, 1] * 4000)
    noise = Noise(GRID, noise_words(0))
    one = Counted(tally, 5, RingWords(tally.size), lambda _: data, noise=noise)
    found = one.read(9, one.words(NOWHERE, 9), 1)
    assert len(one.empty()) == 1 + 2 * 64
    assert (replace(tally, noised=False).measured(one._own[1]).metrics["auc"], found.rows > 7000) == (
        1.0,
        True,
    )
    assert tally.measured(tally.counted(*data)).metrics["auc"] == 0.5


def test_each_person_counts_once():
    """Rows 0 to 2999 are of one person each, the other thousand of one person, all of them wrong."""
    outputs, labels = rows(0, 4000, weight=2)
    outputs[3000:] = 1.0 * torch.nn.functional.one_hot((labels[3000:] + 1) % 3, 3)
    persons = np.minimum(np.arange(4000), 3000)
    noise = Noise(GRID, noise_words(0), persons)
    one = Counted(TALLY, 5, RingWords(TALLY.size), lambda _: (outputs, labels), noise=noise)
    found = one.read(9, one.words(NOWHERE, 9), 1)
    right = (outputs.argmax(1) == labels).double()
    assert found.rows == pytest.approx(3001, abs=60)
    assert found.value == pytest.approx(float(right[:3000].mean()), abs=5 * found.error)
    assert found.mine == pytest.approx(float(right.mean())), "what stays here is of all rows"
    assert f"about {found.rows} persons of 1 peers" in swarm_text(found)


def summed(offers, bound):
    """Returns the result of a group's session: words modulo 2^32 if `bound` is None, else their mean."""
    if bound is None:
        return np.sum(offers, axis=0, dtype=np.uint32)
    return mean_of(offers, bound)


CARRIERS = [(RingWords(TALLY.size), None), (DigitWords.of_tally(TALLY, 4.0), 4.0)]
BOTH = pytest.mark.parametrize(("carrier", "bound"), CARRIERS, ids=["ring", "digits"])


@BOTH
@pytest.mark.parametrize("count", [3, 7, MAX_MEMBERS])
def test_all_members_read_about_the_metric_of_all_rows_and_exactly_their_own(carrier, bound, count):
    members = [member(seed, carrier) for seed in range(count)]
    total = summed([one.words(NOWHERE, 9) for one in members], bound)
    every = [rows(seed, 4000, weight=2) for seed in range(count)]
    outputs, labels = (torch.cat(parts) for parts in zip(*every, strict=True))
    true = float((outputs.argmax(1) == labels).double().mean())
    figures = [one.read(9, total.copy(), count) for one in members]
    assert len({replace(figure, mine=None) for figure in figures}) == 1
    for figure, (own, wanted) in zip(figures, every, strict=True):
        assert (figure.metric, figure.noised, figure.peers, figure.generation) == ("accuracy", True, count, 9)
        assert figure.value == pytest.approx(true, abs=5 * figure.error)
        assert figure.rows == pytest.approx(4000 * count, rel=0.02)
        assert figure.mine == pytest.approx(float((own.argmax(1) == wanted).double().mean()))


@BOTH
@pytest.mark.parametrize("count", [3, MAX_MEMBERS])
def test_sums_are_exact_whatever_their_sign(carrier, bound, count):
    rng = np.random.default_rng(count)
    units = [np.rint(rng.normal(0, 2.0**20, TALLY.size)) for _ in range(count)]
    total = carrier.total(summed([carrier.words(77, one) for one in units], bound), count)
    assert np.array_equal(total.units, np.sum(units, axis=0))
    assert (np.sum(units, axis=0) < 0).any()
    assert total.stamps == 77 * count


def test_digits_are_cut_where_they_have_too_many():
    carrier = DigitWords.of_tally(Recalls(1, noised=True), 4.0)
    most = carrier.total(summed([carrier.words(1, np.array([1e15, -1e15]))] * 3, 4.0), 3)
    assert most.units.tolist() == [3 * (2**35 - 1), -3 * 2**35]


@BOTH
def test_there_is_no_figure_if_a_member_did_not_count_for_this_base(carrier, bound):
    members = [member(seed, carrier) for seed in range(3)]
    offers = [one.words(NOWHERE, 9) for one in members]
    late = members[2].words(NOWHERE, 4)
    one = members[0]
    assert one.read(9, summed(offers, bound), 3) is not None
    for silent in ([*offers[:2], late], [*offers[:2], one.empty()], [one.empty()] * 3):
        assert one.read(9, summed(silent, bound), 3) is None
    assert one.read(8, summed(offers, bound), 3) is None, "not due"
    assert [at for at in range(12) if one.is_due(at)] == [4, 9]
    assert len(one.empty()) == one.slots == len(offers[0])
    assert member(0, carrier).read(9, summed(offers, bound), 3).mine is None, "it did not count itself"
    assert not np.array_equal(one.words(NOWHERE, 9), offers[0]), "counts twice are two draws"
    if bound is not None:
        offers[2][5] += np.float32(0.5 * 4.0 / DIGIT)  # half a row, which no honest member sends
        assert one.read(9, summed(offers, bound), 3) is None


def offered(node, number):
    """Prepares an offer, spends it, and returns its last words, which are the counts."""
    assert node.peer._train(number).offered
    words = node.peer._contribution.offer()
    spend(node, number)
    return words[node.mechanism.shared.size :]


def charged(node):
    return counts_charged(node.mechanism, node.state.ledger)


@pytest.fixture
async def due(alone):
    """Makes a node whose next step has counts."""
    node = alone(STEPS, *METRIC)
    for number in (1, 2):
        await step(node, number)
    return node


async def test_counts_of_a_sum_that_fails_are_paid_and_made_anew_also_after_a_restart(due, alone):
    first = offered(due, 3)
    await due.peer._fall_back(Failed(Reason.MASKS_TIMEOUT, 3, (b"k" * 32,), sid(3)))
    assert charged(due) == 1
    second = offered(due, 4)
    assert second.any()
    assert not np.array_equal(first, second)
    assert charged(due) == 2
    due.state.close()
    again = alone(STEPS, *METRIC)
    assert charged(again) == 2
    assert offered(again, 5).any()
    assert charged(again) == due.mechanism.counts.releases == 3
    assert [offered(again, number).any() for number in (6, 7)] == [False] * 2, "after the planned counts"
    assert charged(again) == 3


async def test_a_vote_charges_the_counts_of_the_next_step_once(alone):
    node = alone(STEPS, *METRIC)
    await step(node, 1)
    node.peer._train(2)
    spend(node, 2)
    voted(node, 2)
    words = node.peer._contribution.offer()
    await node.peer._take_mean(replace(ended(node, words * np.uint32(3), session=sid(2)), round=2))
    assert node.state.base.generation == 2
    assert (node.state.offers, charged(node)) == (3, 1), "before there is an offer"
    assert offered(node, 3).any()
    assert (node.state.offers, charged(node)) == (3, 1), "no charge is paid twice"
    assert offered(node, 4).any(), "of a sum that failed, say"
    assert (node.state.offers, charged(node)) == (4, 2), "and none serves two offers"


async def test_a_vote_s_charge_without_counts_does_not_serve_an_offer_with_counts(alone):
    """A base came that the vote did not foresee: what is lacking is charged before the offer leaves."""
    node = alone(STEPS, *METRIC)
    node.peer._train(1)
    spend(node, 1)
    voted(node, 1)
    assert (node.state.offers, charged(node)) == (2, 0)
    node.state.base = replace(node.state.base, generation=2)
    assert offered(node, 2).any()
    assert (node.state.offers, charged(node)) == (3, 1)
    steps = next(event for event, _ in node.state.ledger.counts if isinstance(event, SampledGaussian))
    assert steps.steps == 2


async def test_steps_and_counts_of_a_whole_run_and_its_reserve_stay_within_epsilon(alone):
    node = alone(STEPS, *METRIC, "privacy.metric_share=0.6")
    mechanism = node.mechanism
    whole = planned_ledger(mechanism)
    assert counts_charged(mechanism, whole) == mechanism.counts.releases
    assert 0.97 * 3.0 < privacy_spent(whole, 1e-5).epsilon <= 3.0
    assert affordable_counts(mechanism, Ledger()) == mechanism.counts.releases
    assert affordable_counts(mechanism, whole) == 0
    more = Ledger.of([replace(mechanism.shared.events[0], steps=400)])
    assert affordable_counts(mechanism, more) == affordable_steps(mechanism, more, 0) == 0
    foreign = Ledger.of([replace(mechanism.counts.event, noise_multiplier=3.0)])
    left = affordable_counts(mechanism, foreign)
    steps = affordable_steps(mechanism, foreign, left)
    events = [*[mechanism.counts.event] * left, replace(mechanism.shared.events[0], steps=steps)]
    assert privacy_spent(foreign.adding(events), 1e-5).epsilon <= 3.0 * (1 + 1e-9)


def update(node, number):
    """Trains and makes an offer; returns the words of its counts."""
    assert node.peer._contribution.prepare(number, node.peer.stopping.training).offered
    return node.peer._contribution.offer()[node.state.dimension :]


async def test_with_dp_sgd_counts_are_charged_with_the_offer_and_sent_once_for_a_base(alone):
    node = alone(RECORDS, *METRIC)
    assert update(node, 1).any()
    assert charged(node) == 0, "nothing has left"
    spend(node, 1)
    assert charged(node) == 1
    assert not update(node, 2).any(), "the base is the same, and something was offered on it"
    spend(node, 2)
    assert charged(node) == 1


def test_offers_have_counts_as_often_as_planned_and_as_the_budget_allows():
    noise = CountNoise(20.0, 3, 0)
    mechanism = replace(dp_sgd(setting(epsilon=2.0, counts=CountPlan(0.2, 3))), counts=noise)
    cost, training = (noise.event,), mechanism.per_training
    assert can_count(mechanism, cost, Ledger.of([noise.event] * 2), training)
    assert not can_count(mechanism, cost, Ledger.of([noise.event] * 3), training), "the plan"
    assert not can_count(mechanism, cost, Ledger.of([replace(training[0], steps=2000)]), training), (
        "the budget"
    )
    assert can_count(mechanism, (), Ledger.of([noise.event] * 3), training), "without a cost"


@pytest.mark.parametrize("mechanism", [STEPS, RECORDS])
async def test_rows_are_counted_one_by_one(alone, mechanism):
    """In a batch of several, a row's output could depend on the others."""
    node, seen = alone(mechanism, *METRIC), []
    trainer = node.learning.trainer
    trainer._model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    vector = node.state.base_vector
    outputs, targets = trainer.outputs_by_row(vector)
    assert seen == [1] * len(targets)
    assert torch.allclose(outputs, trainer.outputs(vector)[0], atol=1e-5)
    seen.clear()
    if mechanism == STEPS:
        node.state.base = replace(node.state.base, generation=2)
        assert offered(node, 1).any()
    else:
        assert update(node, 1).any()
    assert seen.count(1) >= len(targets), "this is how an offer counts"


@pytest.mark.parametrize("mechanism", [STEPS, RECORDS])
async def test_a_folder_without_a_metric_goes_on_with_its_parameters(alone, mechanism):
    plain, counted = alone(mechanism), prepared(mechanism, *METRIC)
    assert plain.mechanism.counts is None
    for word in ("swarm_metric", "metric_share", "metric_noise_multiplier"):
        assert word not in plain.prepared.plan.parameters
        assert f'"{word}' in counted.plan.parameters
    notes = counted.about.notes["metric of all"]
    assert "noise covers them" in notes
    assert "epsilon" in notes


@pytest.mark.parametrize("mechanism", [STEPS, RECORDS])
def test_counts_that_would_never_be_due_are_refused(tmp_path, mechanism):
    with pytest.raises(ConfigError, match="nothing would ever be counted; allowed: at most 2"):
        Alone(tmp_path, mechanism, METRIC[0], "aggregation.swarm_metric_every=3")


def test_noise_that_drowns_all_counts_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^aggregation\.swarm_metric = 'sums': .* or count less often$"):
        Alone(tmp_path, RECORDS, *METRIC, "privacy.epsilon=0.000001", "privacy.delta=1e-9")


def test_a_figure_with_noise_says_about_and_how_far_off_and_one_of_before_can_be_read():
    found = SwarmFigure("auc", 0.7741, 0.5, None, 0.779, 812, 3, 9, noised=True, error=0.021)
    assert swarm_text(found) == (
        "all about 812 rows of 3 peers (generation 9): about AUC 0.774 (guessing 0.500), noise +-0.021, "
        "mine 0.779"
    )
    assert "noise" not in swarm_text(replace(found, value=None, error=None))
    found = SwarmFigure("auc", 0.7, 0.5, None, None, 30, 3, 4)
    former = {name: value for name, value in vars(found).items() if name not in ("noised", "error", "unit")}
    assert restored(SwarmFigure, former) == restored(SwarmFigure, vars(found)) == found
