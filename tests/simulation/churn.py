"""Plans with peers that come late, die, return, are cut off, and leave, one kind of trouble at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum

from protocol.actions import Reason
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.quorum.electorate import Electorate, of_keys, of_names
from scenarios.simulator.network import START_S, Network
from scenarios.simulator.peer import SimulatedPeer
from scenarios.simulator.plans import (
    MIN_PARTICIPANTS,
    SEEDS,
    Conditions,
    Crash,
    Leave,
    Links,
    Offers,
    Partition,
    Plan,
    Summation,
    split,
)


class Trouble(StrEnum):
    """What happens in a plan."""

    LATE = "late"
    """Some start later, or never."""
    CRASH = "crash"
    """Some die, up to three times, and come back or do not."""
    CUT = "cut"
    """Up to three successive partitions, of up to 200 s each."""
    MIXED = "mixed"
    """All of these."""


def churn_plan(seed: int, trouble: Trouble, tracker: bool = False) -> Plan:
    """Draws a plan with four to eight peers, eight rounds and this trouble from a seed."""
    rng = random.Random(seed * 7919 + 17)
    peers = rng.randint(4, 8)
    masked = None
    if rng.random() < 0.75:
        masked = MaskedSettings(4.0, rng.choice([None, 1]), rng.choice([0, ALL_TO_ALL_BYTES]))
    crashes: list[Crash] = []
    cuts: list[Partition] = []
    if trouble in (Trouble.LATE, Trouble.MIXED):
        late = rng.sample(range(peers), rng.randint(0, peers // 2))
        crashes += [
            Crash(peer, 1, rng.choice([rng.uniform(3, 40), rng.uniform(3, 40), None])) for peer in late
        ]
    if trouble in (Trouble.CRASH, Trouble.MIXED):
        for peer in rng.sample(range(peers), rng.randint(0, peers - 1)):
            at = rng.randint(2, 60)
            for _ in range(rng.randint(1, 3)):
                back_s = rng.choice([rng.uniform(0.2, 30), rng.uniform(0.2, 30), None])
                crashes.append(Crash(peer, at, back_s))
                at += rng.randint(3, 80)
    if trouble in (Trouble.CUT, Trouble.MIXED):
        cuts = _cuts(rng, peers)
    conditions = Conditions(
        Links(delay_s=(0.001, rng.choice([0.02, 0.2])), notices_loss=rng.random() < 0.7),
        crashes=tuple(crashes),
        partitions=tuple(cuts),
    )
    return Plan(peers, 8, conditions, Summation(SEEDS, masked), tracker=tracker)


def _cuts(rng: random.Random, peers: int) -> list[Partition]:
    at, cuts = rng.uniform(0, 6), []
    for _ in range(rng.randint(1, 3)):
        order, size = rng.sample(range(peers), peers), rng.randint(1, peers - 1)
        for_s = rng.choice([rng.uniform(1, 10), rng.uniform(10, 60), rng.uniform(60, 200)])
        cuts.append(split(order[:size], order[size:], at, at + for_s))
        at += for_s + rng.uniform(0.5, 10)
    return cuts


def long_cut(until_s: float, rounds: int = 40, train_s: tuple[float, float] = (1.0, 2.0)) -> Plan:
    """Makes a plan of eight peers; three are cut off at 3 s, for longer than peers remember each other."""
    cut = split(range(5), range(5, 8), 3.0, until_s)
    conditions = Conditions(Links(delay_s=(0.001, 0.02)), partitions=(cut,))
    aggregation = Summation(masked=MaskedSettings(4.0, None, 0))
    return Plan(8, rounds, conditions, aggregation, offers=Offers(train_s))


FIRST_LEAVES_S = 6.0
FIRST_BACK_S = 30.0


def leave_and_return(order: Sequence[int], between_s: float) -> Plan:
    """Makes a plan of six peers that leave one after another; from 30 s on they restart in this order."""
    leaves = tuple(
        Leave(peer, FIRST_LEAVES_S + 3.0 * peer, FIRST_BACK_S + between_s * order.index(peer))
        for peer in range(6)
    )
    conditions = Conditions(Links(delay_s=(0.001, 0.02)), leaves=leaves)
    aggregation = Summation(masked=MaskedSettings(4.0, None, 0))
    return Plan(6, 30, conditions, aggregation, offers=Offers((1.0, 1.5)))


# -- what a run came to ----------------------------------------------------------------------------

PATIENT_FOR = 4
"""Within this many rounds a quorum that can talk has made a base: two to take the newest one, two more."""


def strong_lost(network: Network) -> int:
    """Returns how many strong bases are lost: no disk holds them or a base that was built on them."""
    return len(network.rules.lost(peer.base for peer in network.peers)[0])


def is_stuck(network: Network) -> bool:
    """Returns whether a quorum of the newest anchor's free electors could talk, but its rounds failed.

    Only peers that ended count, those that offer, and their last rounds after the last start and the last
    partition. Where messages are lost to the end, nobody could talk: a sum of shares needs every one of them.
    """
    ended = [peer for peer in network.peers if peer.done]
    if not ended or network.plan.conditions.links.loss:
        return False
    newest = max((peer.base for peer in ended), key=lambda base: base.rank)
    holder = next(peer for peer in ended if peer.base == newest)
    electorate = _electorate_of(network, holder)
    offering = [peer for peer in ended if not peer.disk.state.following]
    free = [peer for peer in offering if not peer.disk.votes and _has_failed(network, peer)]
    voters = {electorate.elector_at(peer.key.public, peer.endpoint) for peer in free} - {None}
    return len(free) >= MIN_PARTICIPANTS and electorate.is_quorum(
        {voter for voter in voters if voter is not None}
    )


def _electorate_of(network: Network, holder: SimulatedPeer) -> Electorate:
    line = holder.disk.lines.get(holder.base.digest)
    if line is not None and line.electors is not None:
        return line.electors
    if network.tracker is not None:
        return of_keys(network.tracker.first_electors)
    return of_names(peer.endpoint for peer in network.peers)


def _has_failed(network: Network, peer: SimulatedPeer) -> bool:
    """Returns whether this peer's last rounds all failed, after all events of the plan."""
    starts = [host.started_at for host in network.hosts]
    ends = [START_S + cut.until_s for cut in network.plan.conditions.partitions]
    since = [
        outcome.reason
        for outcome in network.rules.outcomes
        if outcome.peer == peer.index and outcome.at_s > max([*starts, *ends])
    ]
    return (
        len(since) >= PATIENT_FOR
        and all(since[-PATIENT_FOR:])
        and Reason.SWARM_FINISHED not in since[-PATIENT_FOR:]
    )
