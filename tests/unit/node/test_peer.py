"""What a node trains, offers and remembers under its privacy budget; nobody else is there."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from mechanisms.accounting import Ledger
from node.privacy import NOTHING, Receipt
from protocol.actions import Adopted, Spend


async def test_training_is_charged_beside_what_pends_already(alone):
    node = alone("dp-sgd")
    for number in (1, 2):
        assert node.peer._train(number).offered
    assert node.state.pending == node.mechanism.per_training * 2
    assert not node.state.ledger


async def test_a_node_that_can_not_train_any_more_offers_what_it_has_trained(alone):
    node = alone("dp-sgd")
    node.peer._train(1)
    node.peer._train(2)
    fresh = node.state.fresh.copy()
    again = node.peer._train(3)
    assert (again.loss, again.seconds, again.offered) == (None, 0.0, True)
    assert np.array_equal(node.state.fresh, fresh)
    assert node.state.pending == node.mechanism.per_training * 2


async def test_a_node_that_can_not_afford_its_offer_follows_and_trains_nothing(alone):
    """As where the folder of one data set goes on with another."""
    node = alone("ldp")
    node.peer._train(1)
    node.state.ledger = Ledger.of(node.mechanism.per_offer * 2)
    fresh = node.state.fresh.copy()
    again = node.peer._train(2)
    assert (again.loss, again.offered) == (None, False)
    assert np.array_equal(node.state.fresh, fresh)


@pytest.mark.parametrize("mechanism", ["ldp", "dp-sgd"])
async def test_a_spent_budget_leaves_nothing_to_offer(alone, mechanism):
    node = alone(mechanism)
    node.state.ledger = Ledger.of((*node.mechanism.per_training, *node.mechanism.per_offer) * 2)
    assert not node.peer._train(3).offered
    assert node.state.fresh is None


async def test_what_leaves_is_noised_anew_each_time_and_its_receipt_says_what_it_costs(alone):
    node = alone("aldp")
    node.peer._train(1)
    one, other = node.peer._protected(), node.peer._protected()
    noise_std = 2 * node.mechanism.noise_multiplier
    assert float(np.std(one - other)) == pytest.approx(noise_std * np.sqrt(2), rel=0.15)
    assert float(np.std(one - node.state.fresh)) == pytest.approx(noise_std, rel=0.15)
    receipt = node.peer._receipt
    assert receipt.events == node.mechanism.per_offer
    assert receipt.memory == ((pytest.approx(float(np.linalg.norm(node.state.fresh))),),)


async def test_a_charge_is_in_the_ledger_when_its_action_is_done(alone):
    node = alone("ldp")
    node.peer._train(1)
    node.peer._protected()
    assert node.peer._receipt != NOTHING
    await node.peer._perform(Spend(b"s" * 32, 1, 0))
    assert node.state.ledger == Ledger.of(node.mechanism.per_offer)
    assert node.state.fresh is None


async def test_a_base_that_is_taken_on_trust_leaves_what_is_remembered(alone):
    node = alone("aldp")
    node.peer._train(1)
    memory = ((3.0, 4.0),)
    node.state.spend(b"s" * 32, 1, 0, 1000, Receipt((), memory, None))
    vector = np.ones(node.state.dimension, np.float32)
    await node.peer._perform(Adopted(node.base(4, vector), vector, (b"k" * 32,)))
    await asyncio.sleep(0)
    assert node.state.base.generation == 4
    assert node.state.memory == memory
