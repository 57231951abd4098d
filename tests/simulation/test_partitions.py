"""In a partition the side with a quorum goes on, and the other side adopts its base afterwards."""

import pytest

from scenarios.simulator.network import START_S, Network
from scenarios.simulator.plans import Conditions, Deadlines, Links, Offers, Plan, Quorum, Summation, split
from tests.simulation.runs import FOREVER_S, reasons, run


def groups_during(network: Network, from_s: float, until_s: float) -> list[set[int | None]]:
    """Returns the members of the sessions that a peer completed between these times."""
    ended = {
        outcome.sid
        for outcome in network.rules.outcomes
        if outcome.reason is None and from_s <= outcome.at_s - START_S < until_s
    }
    return [
        {network.index_of(key) for key in network.rules.groups[sid]} for sid in sorted(filter(None, ended))
    ]


@pytest.mark.parametrize("notices", [True, False])
@pytest.mark.parametrize("lone", [[0, 1], [2, 4], [1, 2, 3]])
def test_a_side_without_a_quorum_forms_no_group(lone, notices):
    """Six agree; then `lone` is cut off. Of two halves the one with the first elector goes on."""
    others = [peer for peer in range(6) if peer not in lone]
    conditions = Conditions(Links(notices_loss=notices), partitions=(split(lone, others, 3.0, FOREVER_S),))
    network = run(Plan(6, 4, conditions, offers=Offers((1.0, 1.5))), seed=7)
    assert groups_during(network, 0.0, 5.0)
    assert not [members for members in groups_during(network, 7.0, FOREVER_S) if members <= set(lone)]
    first = min(network.peers, key=lambda peer: peer.key.public).index
    assert first not in lone or len(lone) < 3
    assert groups_during(network, 7.0, FOREVER_S)


@pytest.mark.sampled("0-True", "1-False", "2-True", "3-False")
@pytest.mark.parametrize("notices", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_lone_side_comes_back_when_the_partition_heals(seed, notices):
    conditions = Conditions(Links(notices_loss=notices), partitions=(split([0, 1], [2, 3, 4], 2.0, 25.0),))
    network = run(Plan(5, 12, conditions, offers=Offers((3.0, 4.0))), seed=seed)
    assert reasons(network, 0)[-2:] == [None, None], f"seed {seed}"
    assert len(network.digests()) == 1, f"seed {seed}"


def test_two_sides_that_forgot_each_other_meet_again_though_nobody_noticed_the_cut():
    """Each side has ended more rounds than it remembers the others for, and no link broke."""
    until_s = 62.0
    cut = Conditions(Links(notices_loss=False), partitions=(split([0, 1], [2, 3, 4], 2.0, until_s),))
    aggregation = Summation(timeouts=Deadlines(5.0, 5.0, 5.0))
    network = Network(Plan(5, 1000, cut, aggregation, offers=Offers((3.0, 4.0))), seed=1).run_for(
        until_s + 25.0
    )
    assert set(range(5)) in groups_during(network, until_s, until_s + 25.0)


def test_where_one_may_lie_four_of_seven_wait_for_a_fifth():
    conditions = Conditions(partitions=(split([0, 1, 2], [3, 4, 5, 6], 3.0, 30.0),))
    plan = Plan(7, 5, conditions, quorum=Quorum(weak=False), offers=Offers((1.0, 1.5)))
    network = run(plan, seed=8)

    assert not groups_during(network, 7.0, 30.0)
    assert len(network.digests()) == 1
