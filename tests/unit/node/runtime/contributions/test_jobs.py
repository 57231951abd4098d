"""A node's part in shared steps: what a step costs, what a sum makes of the base, rounds of several steps."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mechanisms.accounting.ledger import Ledger
from mechanisms.units import ONE_PERSON, ONE_RECORD
from mechanisms.updates.distributed import charged_steps
from node.runtime.privacy.budget import (
    affordable_steps,
    epsilon_by_honest,
    facts,
    introduction,
    ledger_text,
    planned_by_honest,
    spent_alone,
    trust_text,
)
from node.system.errors import UserError
from protocol.actions import Healed, OpenVote, Spend, Vote
from tests import run_folders
from tests.unit.node.alone import ended, sid, spend, step, voted

MECHANISM = "distributed-dp-sgd"


async def test_a_certificate_gives_the_step_that_the_sum_gave_the_others(alone):
    node = alone(MECHANISM)
    words = np.arange(node.learning.offered, dtype=np.uint32)
    proof = ended(node, words)
    made = (proof.group, words, proof.contributors, proof.certificate)
    healed = Healed(*made, proof.contributors[0])
    one = node.peer._contribution.following(node.state.base, node.state.base_vector, proof)
    other = node.peer._contribution.following(node.state.base, node.state.base_vector, healed)
    assert one.vector.tobytes() == other.vector.tobytes()
    assert one.memory == ()


@pytest.mark.parametrize("votes", [False, True])
async def test_the_budget_covers_the_run_and_its_reserve_and_then_ends(alone, votes):
    node = alone(MECHANISM)
    planned = charged_steps(6)
    assert affordable_steps(node.mechanism, Ledger(), 0) == planned
    for number in range(1, planned + 1):
        assert node.peer._train(number).offered
        spend(node, number)
        if votes:
            voted(node, number)
    assert node.state.offers == planned
    assert not node.peer._train(planned + 1).offered
    with pytest.raises(UserError, match="nothing to offer"):
        node.peer._contribution.offer()
    assert facts(node.mechanism, node.state.ledger)["epsilon_spent"] <= 3.0
    node.state.close()
    assert not alone(MECHANISM).peer._train(1).offered, "nor after a restart"


async def test_a_vote_charges_the_next_step_of_its_run_and_the_last_one_charges_none(alone):
    node = alone(MECHANISM)
    charged = []
    for number, goes_on in ((1, True), (2, True), (3, False), (4, True)):
        assert node.peer._train(number).offered
        spend(node, number)
        charged.append(node.state.offers)
        voted(node, number, goes_on)
        charged.append(node.state.offers)
    assert charged == [1, 2, 2, 3, 3, 3, 4, 5], "once for each step, and never less than what was offered"
    assert set(node.state.votes) == {sid(number) for number in range(1, 5)}


async def test_a_charge_that_no_offer_has_used_serves_the_next_one_and_after_a_restart_none(alone):
    node = alone(MECHANISM)
    node.peer._train(1)
    spend(node, 1)
    voted(node, 1)
    voted(node, 2)  # as when its session failed after the vote, and the run was over
    node.peer._train(2)
    spend(node, 3)
    assert node.state.offers == 2
    voted(node, 3)
    assert node.state.offers == 3
    node.state.close()
    again = alone(MECHANISM)
    assert again.state.offers == 3
    again.peer._train(3)
    spend(again, 4)
    assert again.state.offers == 4, "nobody can tell whether an offer used the last charge"


async def test_a_node_that_is_told_to_stop_charges_for_no_further_step(alone):
    node = alone(MECHANISM)
    for number in (1, 2):
        node.peer._train(number)
        node.peer._store(Spend(sid(number), number, 0))
        node.peer._store(Vote(OpenVote(sid(number), 0), goes_on=True))
        assert node.state.offers == 2
        node.peer.stopping.ask()


async def test_what_was_spent_before_under_another_rule_leaves_less(alone):
    node = alone(MECHANISM)
    (event,) = node.mechanism.per_offer
    earlier = Ledger.of([type(event)(event.noise_multiplier * 0.9, event.sampling_probability, 4)])
    left = affordable_steps(node.mechanism, earlier, 0)
    assert 0 < left < charged_steps(6) - 4
    last, over = (facts(node.mechanism, earlier.adding([event] * more)) for more in (left, left + 1))
    assert last["epsilon_spent"] <= 3.0 < over["epsilon_spent"]


async def test_epsilon_is_told_by_the_number_of_honest_members(alone):
    mechanism = alone(MECHANISM, "privacy.honest=6").mechanism
    by_honest = planned_by_honest(mechanism)
    assert list(by_honest) == [6, 4, 2, 0]
    assert list(by_honest.values()) == sorted(by_honest.values())
    assert by_honest[6] <= 3.0 < by_honest[4]
    told = introduction(mechanism)["trust"]
    assert told == trust_text(by_honest, ONE_RECORD)
    assert told.startswith("each record (row) in your data is protected with epsilon 3 as long as at least 6")
    for words in ("With 4 it is", "only your own noise is left: epsilon", "nobody can tell"):
        assert words in told
    one = trust_text({1: 3.0, 0: 5.0}, ONE_PERSON)
    assert one.startswith("each person in your data is protected with epsilon 3 as long as at least 1 of")
    assert "the other members is honest: it adds its noise and tells nobody. If all" in one
    ledger = Ledger.of(mechanism.per_offer * 5)
    found = facts(mechanism, ledger)
    assert found["honest"] == 6
    assert found["epsilon_alone"] > found["epsilon_spent"]
    assert found["epsilon_by_honest"] == {str(h): e for h, e in epsilon_by_honest(mechanism, ledger).items()}
    told = ledger_text(found)
    assert "as long as at least 6 of the other members are honest; with 4 it is" in told
    assert "; if all others work together it is" in told
    assert "\n" not in told
    told = ledger_text({**found, "epsilon_by_honest": {"1": 2.5, "0": 4.0}})
    assert "as long as at least 1 of the other members is honest; if all others work together it is 4" in told


async def test_each_line_and_the_summary_say_what_is_left_if_all_others_collude(alone):
    node = alone(MECHANISM, "privacy.honest=2")
    for number in range(1, 4):
        await step(node, number)
    (line,) = run_folders.history(node.folder)
    summary = await node.peer.summarise()
    assert line["epsilon_alone"] == pytest.approx(spent_alone(node.mechanism, node.state.ledger), abs=1e-6)
    assert line["epsilon_alone"] > 1.5 * line["epsilon"]
    assert summary.epsilon_alone == pytest.approx(line["epsilon_alone"], abs=1e-6)
    assert summary.privacy["budget_by_honest"]["2"] == pytest.approx(3.0, rel=0.01)
    assert summary.privacy["steps_charged"] == 3
    written = json.loads((node.folder / "summary.json").read_text())
    assert written["epsilon_alone"] == line["epsilon_alone"]


async def test_without_a_bound_an_epsilon_is_null(alone):
    """So much epsilon that one's own noise alone is next to none."""
    node = alone(MECHANISM, "privacy.honest=6", "aggregation.min_participants=7")
    (event,) = node.mechanism.per_offer
    ledger = Ledger.of([replace(event, noise_multiplier=2e-3, sampling_probability=0.5)])
    assert spent_alone(node.mechanism, ledger) is None
    found = facts(node.mechanism, ledger)
    assert (found["epsilon_alone"], found["epsilon_by_honest"]["0"]) == (None, None)
    assert "if all others work together there is no bound" in ledger_text(found)


async def test_a_mechanism_that_trusts_nobody_has_one_epsilon(alone):
    plain = alone("dp-sgd")
    told = facts(plain.mechanism, plain.state.ledger)
    assert spent_alone(plain.mechanism, plain.state.ledger) is None
    assert "epsilon_alone" not in told
    assert "honest" not in ledger_text(told)
    assert planned_by_honest(plain.mechanism) == {}
    assert "trust" not in introduction(plain.mechanism)
