"""One of five nodes is killed at each step of a round, and comes back.

The others end the round without waiting for a deadline, finish the run and end with one base. If their votes
need the dead node's answer, they wait until it is back. The killed node restarts on its folder, catches up,
ends with the same base, and spends nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from node.runtime.record.events import RoundStarted
from protocol.wire.masked_messages import Check, Join, JoinCertificate, Masked, Release, Total
from protocol.wire.messages import Accepted, Group, Share, Sum
from tests.box.box import Box, BoxNode
from tests.box.ledgers import booked_once
from tests.box.moments import Moment

PEERS = 5
COORDINATOR, MEMBER = 0, 3
ADDITIVE, MASKED = ("aggregation.protocol=additive",), ("aggregation.protocol=masked",)
WIDE = (*MASKED, "model.args.sizes=[64,256,10]")  # 77 kB: each chunk is added up by one member
WEIGHTED = ("aggregation.weighting=samples", "aggregation.sample_cap=1000")
AWAY_S = 60.0

SHARES, SUMS, SKIPPED = "shares-timeout", "sums-timeout", "skipped"


@dataclass(frozen=True)
class Kill:
    """Where a node dies in its second round, and whether its vector is spent by then.

    `ends`: how the others' round ended: the participants or the reason; SKIPPED if a node did not receive the
    GROUP with the dead node, so that this round of its own was the next one of the others.

    `rounds`: of the run: the killed node has to be in the last one.

    `binds`: by their sums the others have voted for a result that needs the dead node's sum, which nobody
    else has. Only that node may know the result, so the others wait for it.
    """

    name: str
    who: int
    moment: Moment | None
    spent: bool
    ends: set[int | str]
    protocol: tuple[str, ...] = ADDITIVE
    binds: bool = False
    rounds: int = 5


KILLS = [
    Kill("training", MEMBER, None, False, {4}),  # None: as its second round begins
    Kill("ready-held-by-the-coordinator", MEMBER, Moment(Accepted, way="in"), False, {SHARES}),
    Kill("group-came", MEMBER, Moment(Group, way="in"), False, {SHARES}),
    Kill("no-share-sent", MEMBER, Moment(Share), False, {SHARES}),
    Kill("one-share-sent", MEMBER, Moment(Share, 2), False, {SHARES}),
    Kill("all-shares-sent", MEMBER, Moment(Share, 4, after=True), False, {SHARES, SUMS}),
    Kill("spent-and-no-sum-sent", MEMBER, Moment(Sum), True, {SUMS}, binds=True),
    Kill("some-sums-sent", MEMBER, Moment(Sum, 3), True, {5, SUMS}),
    Kill("all-sums-sent", MEMBER, Moment(Sum, 4, after=True), True, {5}, rounds=10),
    Kill("coordinator-training", COORDINATOR, None, False, {4}),
    Kill("coordinator-took-readys", COORDINATOR, Moment(Accepted, 3), False, {4}),
    Kill("coordinator-sent-half-of-the-groups", COORDINATOR, Moment(Group, 3), False, {SHARES, SKIPPED}),
    Kill("coordinator-one-share-sent", COORDINATOR, Moment(Share, 2), False, {SHARES, SKIPPED}),
    Kill("coordinator-spent-and-no-sum-sent", COORDINATOR, Moment(Sum), True, {SUMS}, binds=True),
    Kill("coordinator-some-sums-sent", COORDINATOR, Moment(Sum, 3), True, {5, SUMS}),
    Kill("coordinator-all-sums-sent", COORDINATOR, Moment(Sum, 4, after=True), True, {5}),
    Kill("no-join-sent", MEMBER, Moment(Join), False, {4}, MASKED),
    Kill("some-joins-sent", MEMBER, Moment(Join, 3), False, {4}, MASKED),
    Kill("certificate-not-passed-on", MEMBER, Moment(JoinCertificate), False, {4}, MASKED),
    Kill("spent-and-nothing-sent", MEMBER, Moment(Masked), True, {4}, MASKED),
    Kill("some-have-its-vector", MEMBER, Moment(Masked, 3), True, {5}, MASKED),
    Kill("all-have-its-vector", MEMBER, Moment(Masked, 4, after=True), True, {5}, MASKED),
    Kill("some-releases-sent", MEMBER, Moment(Release, 2), True, {5}, MASKED),
    Kill("reducer-sent-no-total", MEMBER, Moment(Total), True, {4}, WIDE),
    Kill("reducer-sent-some-totals", MEMBER, Moment(Total, 3), True, {4}, WIDE),
    Kill("some-checks-sent", MEMBER, Moment(Check, 2), True, {5}, WIDE),
    Kill("all-releases-sent", MEMBER, Moment(Release, 4, after=True), True, {5}, (*WIDE, *WEIGHTED)),
]


@pytest.mark.sampled(
    *("training", "spent-and-no-sum-sent", "some-sums-sent", "coordinator-training"),
    *("some-joins-sent", "all-have-its-vector", "reducer-sent-some-totals"),
)
@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.name)
def test_one_of_five_killed(make_box, kill: Kill) -> None:
    box: Box = make_box(PEERS, kill.rounds, *kill.protocol)
    victim, others = box.nodes[kill.who], [node for node in box.nodes if node.number != kill.who]
    if kill.moment:
        kill.moment.arrange(victim, victim.kill)
    else:
        victim.when(victim.kill, RoundStarted, nth=2)
    box.start_all()
    box.run(lambda: victim.is_over)
    if kill.binds:
        box.run_for(AWAY_S)
        assert {len(node.records) for node in others} == {2}
    else:
        box.run(lambda: all(node.records and node.records[-1].own > 1 for node in others))
    victim.start()
    at_rest(victim, kill)
    box.run_to_the_end()
    assert len({node.summary["base_digest"] for node in box.nodes}) == 1
    elsewhere = {3, 4} if SKIPPED in kill.ends else set()
    assert set().union(*(ends_of(node, 2) for node in others)) - elsewhere == kill.ends - {SKIPPED}
    for node in others:
        went_on(node, kill)
    caught_up(victim, kill)
    for node in box.nodes:
        booked_once(node)


def at_rest(node: BoxNode, kill: Kill) -> None:
    """Checks the state that a kill left on the node's disk."""
    last = node.rows("select max(round) from ledger")[0][0]
    assert (last, node.fact("round")) == (2 if kill.spent else 1, 1)
    assert (node.fact("spent") is not None) == kill.spent
    assert (node.fact("fresh") is None) == (kill.spent or kill.moment is None)


def ends_of(node: BoxNode, number: int) -> set[Any]:
    """Returns the participants of a node's own round, or why it ended without."""
    return {line["reason"] or line["participants"] for line in node.history if line["own"] == number}


def went_on(node: BoxNode, kill: Kill) -> None:
    """Checks that a node's rounds came in order, that none waited for a deadline, and that all ended.

    The coordinator's return may cost one more round; a death in the next training, the last sums of a round.
    """
    lines = node.history
    assert [line["own"] for line in lines] == [*range(1, len(lines) + 1)]
    made = [line["round"] for line in lines if not line["reason"]]
    assert made == sorted(set(made))
    assert (made[-1], lines[-1]["participants"]) == (kill.rounds, PEERS)
    longest_s = AWAY_S + 1.0 if kill.binds else 1.5  # a round waits a second for one that is not READY
    assert max(line["aggregate_s"] for line in lines) < longest_s
    failed = [line for line in lines if line["reason"] and line["own"] != 2]
    assert len(failed) <= (kill.who == COORDINATOR or kill.moment is None), failed


def caught_up(node: BoxNode, kill: Kill) -> None:
    lines = node.history
    own = [line["own"] for line in lines]
    assert own == sorted(set(own))
    assert (lines[-1]["round"], lines[-1]["participants"]) == (kill.rounds, PEERS)
