"""The rule alone, over very many plans: strong bases do not fork, and a free quorum goes on.

The tests check three things. The quorums of tests.simulation.rule equal those of protocol.quorum.electorate
for all sets of up to five electors. Each planted fault is found. On the same churn, the rule and the real
machines in the simulator have the same results: whether each era of 200 s made a strong base, whether any
was lost or forked, and that all peers hold one at the end. The number of bases in an era is not compared,
because a round of the rule has no length.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from protocol.quorum.electorate import Electorate, of_keys, strong_ballot
from protocol.wire.ids import RESIGNED
from protocol.wire.messages import Announce, Base, Group, Ready
from scenarios.simulator.network import START_S, Network
from scenarios.simulator.plans import Conditions, Leave, Links, Offers, Partition, Plan, split
from tests.cases import soak, soaks
from tests.simulation.churn import strong_lost
from tests.simulation.rule import (
    CALM_ROUNDS,
    Broken,
    Churn,
    Era,
    Fault,
    Swarm,
    Trouble,
    campaign,
    churn_of,
    is_quorum,
)

EACH_IN_CI = 3000
IN_SOAK = 1_000_000
SOAK_AT_ONCE = 20_000
FIRST_OF_SOAK = 1_000_000


def plans(trouble: Trouble, count: int) -> int:
    """Returns how many plans to run: a long partition takes 20 times longer than a usual trouble."""
    return count if trouble is not Trouble.LONG else count // 20


LATER = range(FIRST_OF_SOAK, FIRST_OF_SOAK + IN_SOAK // len(Trouble), SOAK_AT_ONCE)


@pytest.mark.sampled("late-0-3000", "crash-0-3000", "mixed-0-3000")
@pytest.mark.parametrize(
    ("first", "count"),
    [(0, EACH_IN_CI), *(soak(first, SOAK_AT_ONCE) for first in LATER)],
)
@pytest.mark.parametrize("trouble", Trouble)
def test_no_strong_base_stands_beside_another_and_a_free_quorum_goes_on(trouble, first, count):
    found = campaign(range(first, first + plans(trouble, count)), trouble)
    assert sum(each.strong for each in found) > len(found)
    assert sum(each.lost for each in found) == 0


WHERE_FOUND = {
    Fault.UNBOUND: (Trouble.CRASH, 500),
    Fault.HALVES: (Trouble.CUT, 1000),
    Fault.WEAK_ELECTS: (Trouble.LONG, 50),
    Fault.FORGETFUL: (Trouble.CRASH, 500),
    Fault.BASELESS: (Trouble.LONG, 500),
}
"""The trouble, and the number of plans, that show each fault."""


@pytest.mark.parametrize("fault", Fault)
def test_a_planted_fault_is_found(fault):
    trouble, count = WHERE_FOUND[fault]
    with pytest.raises(Broken, match=r"seed \d+: "):
        campaign(range(count), trouble, fault)
    campaign(range(min(count, 200)), trouble)


def test_one_seed_is_one_course():
    assert Swarm(churn_of(7, Trouble.MIXED), 7).run() == Swarm(churn_of(7, Trouble.MIXED), 7).run()
    assert len({str(churn_of(seed, Trouble.MIXED)) for seed in range(20)}) == 20


def test_quorums_are_those_of_the_protocol():
    names = [bytes([number]) for number in range(5)]

    def named(members: int) -> list[bytes]:
        return [name for number, name in enumerate(names) if members >> number & 1]

    for electors, voters, without in product(range(32), repeat=3):
        counted = voters & ~without  # who votes did not resign
        theirs = Electorate(tuple(named(electors))).is_quorum(named(counted), named(without))
        assert is_quorum(electors, counted, without) == theirs, (electors, counted, without)


def announced(peer: int, opened: tuple[bytes, ...]) -> Announce:
    base = Base(1, bytes(32), 3, bytes(32), 1)
    key, swarm = bytes([peer]) * 32, ("rule", bytes(32))
    return Announce(
        key, f"127.0.0.1:{7000 + peer}", *swarm, 3, bytes(16), 1, 1, 1, base, False, False, opened
    )


def test_groups_have_a_quorum_here_where_they_have_one_in_the_protocol():
    """Some members have open votes; others have resigned, with their records in the group."""
    rng = random.Random(3)
    found = []
    for _ in range(2000):
        electors, members, opened, resigned = (rng.getrandbits(6) for _ in range(4))
        resigned &= ~members
        electorate = of_keys(bytes([peer]) * 32 for peer in range(6) if electors >> peer & 1)
        readys = tuple(
            Ready(
                announced(peer, (b"s" * 32,) if opened >> peer & 1 else ()),
                *(bytes(32), bytes(16), bytes(32)),
                electors=electorate.digest,
            )
            for peer in range(6)
            if members >> peer & 1
        )
        excused = tuple(announced(peer, (RESIGNED,)) for peer in range(6) if resigned >> peer & 1)
        group = Group(readys, 0, bytes(32), excused)
        here = is_quorum(electors, members & ~opened & electors, resigned)
        assert here == (strong_ballot(group, electorate) is not None), (electors, members, opened, resigned)
        found.append(here)
    assert 100 < sum(found) < 1900


# -- against the real machines -------------------------------------------------------------------------

ERA_S = 200.0
TRAIN_S = (12.0, 15.0)
"""Shorter than T_group, so that peers out of step meet in it."""
ROUNDS_OF_AN_ERA = 8
"""For the rule; in an era the machines make about fourteen rounds that succeed, or six that fail."""


def calm_churn(seed: int) -> Churn:
    """Makes a churn of four to six peers, with other ones up in each era, perhaps cut in two."""
    rng = random.Random(seed)
    peers = rng.randint(4, 6)
    everybody = (1 << peers) - 1
    eras = [Era(ROUNDS_OF_AN_ERA, everybody)]
    for _ in range(2):
        up = everybody & ~(rng.getrandbits(peers) & rng.getrandbits(peers))
        eras.append(Era(ROUNDS_OF_AN_ERA, up, rng.getrandbits(peers) if rng.random() < 0.5 else 0))
    return Churn(peers, (*eras, Era(CALM_ROUNDS, everybody)), masked=False, is_rough=False)


def plan_of(churn: Churn, seed: int) -> Plan:
    """Makes the same plan for the simulator: a peer that is down in an era leaves for that time.

    Bit p is the peer with the p-th lowest key of this seed: half of the electors suffice with the first one.
    """
    peers = Network(Plan(churn.peers, 1), seed).peers
    churn = _renamed(churn, [peer.index for peer in sorted(peers, key=lambda peer: peer.key.public)])
    leaves: list[Leave] = []
    cuts: list[Partition] = []
    for number, era in enumerate(churn.eras):
        from_s, until_s = number * ERA_S, (number + 1) * ERA_S
        for peer in range(churn.peers):
            was_up = number == 0 or churn.eras[number - 1].up >> peer & 1
            if was_up and not era.up >> peer & 1:
                later = range(number + 1, len(churn.eras))
                back = next(each for each in later if churn.eras[each].up >> peer & 1)
                leaves.append(Leave(peer, from_s, back * ERA_S))
        side = [peer for peer in range(churn.peers) if era.side >> peer & 1]
        others = [peer for peer in range(churn.peers) if not era.side >> peer & 1]
        if side and others:
            cuts.append(split(side, others, from_s, until_s))
    links = Links(delay_s=(0.001, 0.02))
    conditions = Conditions(links, partitions=tuple(cuts), leaves=tuple(leaves))
    rounds = 1000  # nobody comes to its last round
    return Plan(churn.peers, rounds, conditions, offers=Offers(TRAIN_S))


def _renamed(churn: Churn, names: list[int]) -> Churn:
    def renamed(members: int) -> int:
        return sum(1 << name for bit, name in enumerate(names) if members >> bit & 1)

    eras = (replace(era, up=renamed(era.up), side=renamed(era.side)) for era in churn.eras)
    return replace(churn, eras=tuple(eras))


def made_at(network: Network) -> list[float]:
    """Returns when a member of its session first held each strong base."""
    strong = {base.sid for base in network.rules.parents if base.is_strong}
    ended: dict[bytes, float] = {}
    for outcome in network.rules.outcomes:
        if outcome.sid in strong and outcome.reason is None:
            ended.setdefault(outcome.sid, outcome.at_s - START_S)
    return list(ended.values())


@pytest.mark.sampled("2", "32")
@pytest.mark.parametrize(
    "seed",
    [*range(5), 32, *soaks(seed for seed in range(5, 200) if seed != 32)],
)
def test_the_real_machines_come_to_the_same(seed):
    churn = calm_churn(seed)
    found = Swarm(churn, seed).run()
    network = Network(plan_of(churn, seed), seed).run_for(ERA_S * len(churn.eras))
    made = made_at(network)
    progress = tuple(
        any(number * ERA_S <= at < (number + 1) * ERA_S for at in made) for number in range(len(churn.eras))
    )
    assert progress == found.progress, f"seed {seed}: {churn}"
    assert (strong_lost(network), found.lost) == (0, 0), f"seed {seed}"
    ends = {peer.base.anchor for peer in network.peers}
    assert (len(ends), found.ends) == (1, 1), f"seed {seed}"
