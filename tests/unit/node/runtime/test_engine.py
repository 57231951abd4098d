"""What a lone node trains, offers and remembers under its privacy budget."""

import asyncio

import numpy as np
import pytest

from mechanisms.accounting.ledger import Ledger
from node.net.traffic import Counts
from protocol.actions import Spend
from tests import run_folders
from tests.unit.node.alone import ended, words


async def test_training_is_charged_beside_what_pends_and_what_was_trained_is_offered_to_the_end(alone):
    node = alone("dp-sgd")
    for number in (1, 2):
        assert node.peer._train(number).offered
    assert node.state.pending == node.mechanism.per_training * 2
    assert not node.state.ledger
    fresh = node.state.fresh.copy()
    again = node.peer._train(3)
    assert (again.loss, again.seconds, again.offered) == (None, 0.0, True), "it can train no more"
    assert np.array_equal(node.state.fresh, fresh)
    assert node.state.pending == node.mechanism.per_training * 2


async def test_a_node_that_can_not_afford_its_offer_follows_and_trains_nothing(alone):
    """As when a folder of one data set continues with another."""
    node = alone("ldp")
    node.peer._train(1)
    node.state.ledger = Ledger.of(node.mechanism.per_offer * 2)
    fresh = node.state.fresh.copy()
    again = node.peer._train(2)
    assert (again.loss, again.offered) == (None, False)
    assert np.array_equal(node.state.fresh, fresh)


async def test_rows_that_counted_as_zero_are_reported_to_the_owner(alone):
    node = alone("dp-sgd")
    node.peer._warn_of_rows(node.peer._train(1))
    assert node.said.getvalue() == ""
    node.learning.trainer._dataset.train_x[:] = float("nan")
    training = node.peer._train(2)
    assert training.not_finite > 0
    node.peer._warn_of_rows(training)
    assert f"not finite {training.not_finite} times" in node.said.getvalue()


RAW = ("privacy.window_source=raw", "privacy.public_radius=true")


async def test_what_leaves_is_noised_anew_each_time_and_its_receipt_says_what_it_costs(alone):
    node = alone("aldp", *RAW)
    node.peer._train(1)
    one, other = node.peer._contribution.offer(), node.peer._contribution.offer()
    noise_std = 2 * node.mechanism.noise_multiplier
    assert float(np.std(one - other)) == pytest.approx(noise_std * np.sqrt(2), rel=0.15)
    assert float(np.std(one - node.state.fresh)) == pytest.approx(noise_std, rel=0.15)
    receipt = node.peer._contribution.receipt
    assert receipt.events == node.mechanism.per_offer
    assert receipt.memory == ((pytest.approx(float(np.linalg.norm(node.state.fresh))),),)


WEIGHTED = ("aggregation.weighting=samples", "aggregation.sample_cap=1000")


async def begun(node, round=1):
    """Starts a round whose offer is in a session."""
    node.peer._train(round)
    node.peer._contribution.offer()
    node.peer._outcome = asyncio.get_running_loop().create_future()
    await node.peer._perform(Spend(b"s" * 32, round, 0))


async def test_a_mechanism_clips_and_remembers_what_is_weighted_already(alone):
    node = alone("aldp", *RAW, "aggregation.public_weights=true", *WEIGHTED)
    node.peer._train(1)
    offer = node.peer._contribution.offer()
    weight = node.rows / 1000
    norm = weight * float(np.linalg.norm(node.state.fresh))
    assert node.peer._contribution.receipt.memory == ((pytest.approx(norm, rel=1e-4),),)
    assert offer[-1] == pytest.approx(weight * node.learning.bound, rel=1e-6), "no noise on the weight"


async def test_a_mean_is_divided_by_the_weights_that_were_summed(alone):
    node = alone("none", *WEIGHTED)
    before = node.state.base_vector.copy()
    await begun(node)
    await node.peer._perform(ended(node, words(node, 0.25, weight=0.5)))
    assert np.allclose(node.state.base_vector, before + 0.5, atol=1e-6)
    assert node.state.base_vector.shape == before.shape
    assert (node.state.base.generation, node.state.base.members, node.state.spent) == (1, 3, None)


@pytest.mark.parametrize(("weight", "memory"), [(0.5, ((0.25, 4.0),)), (-0.5, ())])
async def test_a_mechanism_learns_from_the_plain_mean_of_what_the_contributors_offered(alone, weight, memory):
    """And nothing from a mean with wrong weights."""
    node = alone("tests.own_mechanisms:Learning", "aggregation.public_weights=true", *WEIGHTED)
    await begun(node)
    await node.peer._perform(ended(node, words(node, 0.25, weight), members=5, contributors=4))
    assert node.state.memory == memory
    assert node.state.base.members == (4 if memory else 0)
    assert memory or not node.peer._contribution.receipt.memory


@pytest.mark.parametrize("weight", [-0.5, 0.0, 0.0009, 1.01])
async def test_weights_that_can_not_be_leave_the_base_and_end_the_round(alone, weight):
    node = alone("none", *WEIGHTED)
    before, digest = node.state.base_vector.copy(), node.state.base.digest
    await begun(node)
    spent = node.state.spent.copy()
    action = ended(node, words(node, 0.25, weight))
    await node.peer._perform(action)
    failed = node.peer._outcome.result()
    assert (failed.reason, failed.round, failed.missing, failed.sid) == ("wrong-weights", 1, (), action.sid)
    assert node.state.base.digest == digest
    assert np.array_equal(node.state.base_vector, before)
    assert (node.state.round, node.state.fresh) == (1, None)
    assert np.array_equal(node.state.spent, spent), "it is offered no more, and stays in the working model"
    assert "somebody lied about its number of rows" in node.said.getvalue()


async def test_a_round_whose_line_the_next_start_writes_counts_once_in_the_summary(alone):
    """The process ended between the round's step on disk and its line."""
    node = alone("none")
    node.peer.transport.counts.sent["sums"] += 12_345
    node.peer._train(1)
    await node.peer._perform(ended(node, words(node, 0.0)))
    assert not (node.folder / "history.jsonl").exists()
    node.state.close()
    again = alone("none")
    await again.peer._history.begin()
    (line,) = run_folders.history(again.folder)
    summary = await again.peer._history.summarise(Counts(), {}, finished=True)
    assert summary.bytes_sent == line["bytes_sent"] == 12_345


async def test_what_is_wrong_with_the_base_stands_in_the_history_and_the_summary(alone):
    """An untrained model, of which nobody would say that it tells ten digits apart."""
    node = alone("none")
    node.peer._train(1)
    mean = np.zeros(node.learning.offered, np.float32)
    await node.peer._perform(ended(node, mean))
    await node.peer._history.catch_up()
    flaws = node.learning.trainer.evaluate(node.state.base_vector).flaws
    assert any(flaw.startswith("it never says ") for flaw in flaws)
    assert run_folders.history(node.folder)[-1]["flaws"] == list(flaws)
    assert (await node.peer._history.summarise(Counts(), {}, finished=True)).flaws == flaws
