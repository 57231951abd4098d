"""The link between two members is cut for a minute, and both reach all others: what it costs whom.

A sum that is under way as the link is cut may fail, and the next one, in which the cut is found. All other
members are in every sum after that, and so is one of the two: always the same one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.crypto.node_key import NodeKey
from protocol.wire import signing
from protocol.wire.messages import Group, Key, LeftOut, Message, Ready, Sum
from scenarios.simulator.network import START_S, Network, by_key
from scenarios.simulator.plans import Conditions, Liar, Links, Offers, Plan, Summation, split
from scenarios.simulator.spoilers import ALL_OR_NONE, LEAVE_OUT, TOLERANT
from tests.cases import soak

CUT_S, MENDED_S, LASTS_S = 20.0, 80.0, 100.0
LOST = 2
"""How many sums may fail: the one under way, and the one in which the cut is found."""
BACK = 4
"""After so many more sums all are in one again."""
LEAST = 0.9
SEED = 7
COORDINATES, OTHERS = "coordinates", "others"
LINKS = pytest.mark.parametrize("link", [COORDINATES, OTHERS])


def plan_of(peers: int, masked: MaskedSettings | None, notices: bool = True) -> Plan:
    conditions = Conditions(Links(reordering=0.0, notices_loss=notices))
    aggregation = Summation(masked=masked, leave_out=LEAVE_OUT)
    return Plan(peers, 10**6, conditions, aggregation, offers=Offers((2.0, 3.0)))


@cache
def usual(peers: int, masked: MaskedSettings | None, seed: int) -> int:
    """Returns how many sums are made while no link is cut."""
    return len(made(Network(plan_of(peers, masked), seed).run_for(LASTS_S)))


def ends_of(peers: int, link: str, seed: int) -> tuple[int, int]:
    """Returns the two whose link is cut: the first in the order of keys coordinates."""
    order = by_key(peers, seed)
    return (order[0], order[-1]) if link == COORDINATES else (order[1], order[-1])


def cut(plan: Plan, ends: tuple[int, int], seed: int) -> Network:
    conditions = replace(plan.conditions, partitions=(split([ends[0]], [ends[1]], CUT_S, MENDED_S),))
    return Network(replace(plan, conditions=conditions), seed).run_for(LASTS_S)


def made(network: Network, from_s: float = 0.0, until_s: float = LASTS_S) -> list[set[int | None]]:
    """Returns the members of each sum, in the order in which their first member had the result."""
    at: dict[bytes, float] = {}
    for end in network.rules.outcomes:
        if end.sid is not None and end.reason is None:
            at.setdefault(end.sid, end.at_s - START_S)
    return [
        {network.index_of(key) for key in network.rules.groups[sid]}
        for sid, at_s in at.items()
        if from_s <= at_s < until_s
    ]


def spoiled(network: Network) -> int:
    """Returns how many groups that were closed while the link was cut made no sum."""
    closed = {
        signing.session_id(sent.message)
        for sent in network.transcript
        if isinstance(sent.message, Group) and CUT_S - 1 <= sent.at_s < MENDED_S - 1
    }
    return len(closed - network.rules.groups.keys())


def missed(sums: list[set[int | None]], peer: int) -> int:
    return sum(peer not in members for members in sums)


def check(
    peers: int, masked: MaskedSettings | None, link: str, seed: int = SEED, notices: bool = True
) -> None:
    ends = ends_of(peers, link, seed)
    network = cut(plan_of(peers, masked, notices), ends, seed)
    during = made(network, CUT_S, MENDED_S)
    for peer in set(range(peers)) - set(ends):
        assert missed(during, peer) <= LOST, (peer, during)
    assert min(missed(during, end) for end in ends) <= LOST, during
    assert spoiled(network) <= LOST
    assert set(range(peers)) in made(network, MENDED_S)[: BACK + 1], "both are back"
    assert len(made(network)) >= LEAST * usual(peers, masked, seed)


@pytest.mark.sampled("5-shares-others")
@LINKS
@pytest.mark.parametrize("masked", [TOLERANT, ALL_OR_NONE, None], ids=["tolerant", "all or none", "shares"])
@pytest.mark.parametrize("peers", [soak(4), 5])
def test_all_others_and_one_of_the_two_are_in_all_sums_but_the_first(peers, masked, link):
    check(peers, masked, link)


@pytest.mark.soak
@LINKS
def test_among_eight_too(link):
    check(8, TOLERANT, link)


@pytest.mark.parametrize("notices", [True, False])
@pytest.mark.parametrize(("link", "back"), [(COORDINATES, 3), (OTHERS, 5)])
def test_of_three_each_sum_needs_both_ends_and_the_third_is_charged_once_for_nothing(link, back, notices):
    """A SUM that is sent is a charge. So many sums are made in the 20 s after the link is back."""
    ends = ends_of(3, link, SEED)
    network = cut(plan_of(3, TOLERANT, notices), ends, SEED)
    offered = {
        (sent.sender, sent.message.sid)
        for sent in network.transcript
        if isinstance(sent.message, Sum) and CUT_S + 5.0 <= sent.at_s < MENDED_S
    }
    assert len(offered) <= 1
    assert not made(network, CUT_S + 5.0, MENDED_S)
    assert len(made(network, MENDED_S)) >= back


def accuses(*victims: Key) -> Liar:
    """A member that would leave these out of each group."""

    def lie(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
        if isinstance(message, LeftOut):
            return ()
        return (LeftOut(message.nonce, victims), message) if isinstance(message, Ready) else (message,)

    return lie


def shares_of_sums(accused: int, first: int = 1) -> list[float]:
    """Returns in what share of the sums each peer is, in the order of keys; the last one accuses so many."""
    plan, order = plan_of(5, TOLERANT), by_key(5, SEED)
    keys = [Network(plan, SEED).peers[peer].key.public for peer in order]
    lies = ((order[-1], accuses(*keys[first : first + accused])),)
    conditions = replace(plan.conditions, lies=lies)
    sums = made(Network(replace(plan, conditions=conditions), SEED).run_for(LASTS_S))
    return [1 - missed(sums, peer) / len(sums) for peer in order]


def test_who_accuses_one_is_left_out_as_often_as_that_one():
    *others, liar = shares_of_sums(1)
    victim = others.pop(1)
    assert min(others) == 1.0
    assert victim >= 0.4
    assert liar <= 0.6


@pytest.mark.sampled
@pytest.mark.parametrize("accused", [2, 4])
def test_who_accuses_more_than_one_is_left_out_itself(accused):
    *others, liar = shares_of_sums(accused, 1 if accused == 2 else 0)
    assert min(others) == 1.0
    assert liar == 0.0


@pytest.mark.soak
@LINKS
@pytest.mark.parametrize("masked", [TOLERANT, ALL_OR_NONE, None], ids=["tolerant", "all or none", "shares"])
@pytest.mark.parametrize("peers", [4, 5, 8])
@pytest.mark.parametrize("seed", range(100, 110))
def test_from_many_seeds(peers, masked, link, seed):
    check(peers, masked, link, seed)
