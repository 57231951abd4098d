"""A node with a loss gate: which bases it refuses, what it trains from afterwards, and what it offers."""

import json

import numpy as np
import pytest
from scipy.optimize import brentq

from node.app.run import _introduction
from node.runtime.contributions.loss_gate import Refused, RowsLossGate, make_loss_gate
from node.runtime.record.figures import Record
from node.system.errors import ConfigError
from node.task.load import load_task
from node.task.parameters import canonical_parameters
from protocol.actions import Adopted, Failed, Reason, Spend
from protocol.quorum.lineage import FIRST
from tests import run_folders
from tests.unit.node.alone import HERE, prepared

GATE = "aggregation.loss_gate=0.5"


async def take(node, generation, vector):
    """Adopts a base that the swarm has agreed on."""
    await node.peer._perform(Adopted(node.base(generation, vector), vector, (b"k" * 32,), FIRST))


def spoilt(node):
    """Makes a base that is wrong on every row, and far away."""
    return (-20 * node.state.base_vector).astype(np.float32)


def warnings(node):
    lines = map(json.loads, node.said.getvalue().splitlines())
    return [line["text"] for line in lines if line["event"] == "warning"]


async def refuses(alone, *overrides, mechanism="none"):
    """Returns a node that has offered and then refuses a base, the last good base, and the bad one."""
    node = alone(mechanism, GATE, *overrides)
    node.peer._train(1)
    good = node.state.base_vector
    node.state.spend(b"s" * 32, 1, 0, 1000, node.peer._contribution.receipt)
    bad = spoilt(node)
    await take(node, 1, bad)
    return node, good, bad


async def test_training_starts_from_the_last_good_base_and_the_offer_leads_back_to_it(alone):
    node, good, bad = await refuses(alone)
    node.peer._train(2)
    trained = node.learning.trainer.train(good, 2, node.peer.stopping.training).vector
    np.testing.assert_array_equal(node.state.working, good + (trained - good))
    np.testing.assert_allclose(bad + node.peer._contribution.offer(), trained, atol=1e-5)
    assert node.state.base.generation == 1, "what was agreed stays agreed"


async def test_a_good_base_is_trained_on_as_without_a_gate(alone):
    node = alone("none", GATE)
    node.peer._train(1)
    better = node.state.working
    await take(node, 1, better)
    node.peer._train(2)
    assert node.state.way_back is None
    assert warnings(node) == []
    np.testing.assert_array_equal(node.state.last_good, better)


async def test_the_way_back_goes_with_an_offer_until_one_is_in_an_aggregate(alone):
    """Also after a round that failed; the learned part is offered once."""
    node, good, bad = await refuses(alone)
    for number, sid in ((2, b"t" * 32), (3, b"u" * 32)):
        node.peer._train(number)
        fresh = node.state.fresh.copy()
        np.testing.assert_array_equal(node.peer._contribution.offer(), fresh + (good - bad))
        await node.peer._perform(Spend(sid, number, 0))
        await node.peer._perform(Failed(Reason.SUMS_TIMEOUT, number, (), sid))
    await take(node, 2, good)
    node.peer._train(4)
    np.testing.assert_array_equal(node.peer._contribution.offer(), node.state.fresh)


async def test_a_way_back_is_clipped_and_noised_with_the_rest_of_the_offer(alone):
    node, _, _ = await refuses(alone, "privacy.epsilon=1000000", "train.rounds=3", mechanism="ldp")
    node.peer._train(2)
    assert np.linalg.norm(node.state.way_back) > 10
    assert np.linalg.norm(node.peer._contribution.offer()) < 1.5, "the clipping radius, and little noise"


async def falls_back(node, training):
    """Ends a round without a group; returns its line in the history."""
    node.peer._training = training
    ended = node.peer._ending(Failed(Reason.GROUP_TIMEOUT, 1, (), None))
    await node.peer._history.write(Record.from_ending(ended.text))
    (line,) = run_folders.history(node.folder)
    return line


async def test_what_was_refused_is_said_once_with_both_losses_and_stands_in_the_round_s_line(alone):
    node = alone("none", GATE)
    training = node.peer._train(1)
    await take(node, 1, spoilt(node))
    node.peer._history.check_base()
    node.peer._history.check_base()
    lowest, loss = map(node.learning.trainer.own_loss, (node.state.last_good, node.state.base_vector))
    assert node.peer._history._refused == Refused(1, lowest, loss)
    (text,) = warnings(node)
    assert text.startswith(f"rolled back: loss on own rows {lowest:.4g} -> {loss:.4g} with the base of gen")
    assert "\n" not in text
    line = await falls_back(node, training)
    assert (line["rolled_back"], line["outcome"]) == ([round(lowest, 6), round(loss, 6)], "fallback")


def with_loss(node, good, rise):
    """Makes a base between a good one and a distant one, with the good one's loss plus this much."""
    trainer, away = node.learning.trainer, -20 * good

    def base(share):
        return (good + share * (away - good)).astype(np.float32)

    wanted = trainer.own_loss(good) + rise
    return base(brentq(lambda share: trainer.own_loss(base(share)) - wanted, 0, 1, xtol=1e-6))


async def test_the_lowest_loss_counts_and_after_a_restart_the_last_good_base_s(alone):
    node = alone("none", "aggregation.loss_gate=0.3")
    node.peer._history.check_base()
    first = node.state.base_vector
    await take(node, 1, with_loss(node, first, 0.2))
    node.peer._history.check_base()
    assert node.peer._history._refused is None
    await take(node, 2, with_loss(node, first, 0.4))
    again = RowsLossGate(0.3, node.learning.trainer, node.state)
    node.peer._history.check_base()
    assert node.peer._history._refused is not None, "0.4 above the lowest"
    await take(node, 3, with_loss(node, first, 0.4))
    assert again.check_base() is None, "0.2 above the last good one, which is all that a restart knows"
    await take(node, 4, spoilt(node))
    assert RowsLossGate(0.3, node.learning.trainer, node.state).check_base() is not None


async def test_a_node_that_is_started_without_its_gate_goes_on_from_the_base(alone):
    node = alone("none", GATE)
    node.peer._history.check_base()
    bad = spoilt(node)
    await take(node, 1, bad)
    node.peer._history.check_base()
    assert not np.array_equal(node.state.working, bad)
    gate = make_loss_gate(load_task("digits", []), node.learning.trainer, node.state)
    assert gate.check_base() is None
    np.testing.assert_array_equal(node.state.working, bad)


async def test_a_base_of_no_finite_loss_is_refused_and_can_be_written_down(alone):
    node = alone("none", GATE)
    node.peer._history.check_base()
    await take(node, 1, np.full(node.state.dimension, 3e38, np.float32))
    node.peer._history.check_base()
    refused = node.peer._history._refused
    assert refused.losses == (round(refused.lowest_loss, 6), None)
    assert np.isfinite(node.state.working).all()


def test_the_gate_is_off_by_default_and_each_owner_s_own_choice():
    off, on = load_task("digits", []), load_task("digits", [GATE])
    assert (off.aggregation.loss_gate, on.aggregation.loss_gate) == (None, 0.5)
    assert canonical_parameters(off, [], 4.0) == canonical_parameters(on, [], 4.0)
    assert "loss_gate" not in canonical_parameters(on, [], 4.0)


def test_record_level_noise_does_not_cover_a_gate_and_both_are_refused():
    with pytest.raises(ConfigError) as said:
        prepared("dp-sgd", GATE)
    assert str(said.value) == (
        "aggregation.loss_gate = 0.5 is refused with privacy.mechanism = 'dp-sgd': that you refuse a base "
        "depends on your records, and shows in what you offer, which its noise does not cover; leave the "
        "gate out, or use 'ldp' or 'aldp'"
    )
    assert said.value.status == 2


async def test_the_owner_is_told_at_the_start(alone, tmp_path):
    node = alone("none", GATE)
    lines = _introduction(node.prepared, node.peer._sums, HERE, tmp_path, node.state)
    assert "more than 0.5 above the lowest" in lines["loss gate"]
