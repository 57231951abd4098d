"""Nodes with an exact job: one dies in any sum, comes late, stays away. All sums have the same members."""

from __future__ import annotations

import numpy as np
import pytest

from node.jobs.cohort import Cohort
from node.jobs.limbs import doubles_of
from node.runtime.record.events import RoundEnded
from protocol.wire.ids import Key
from protocol.wire.masked_messages import Join, JoinCertificate, Masked, Release
from protocol.wire.messages import Base, Message, Share, Sum
from tests import run_folders
from tests.box.box import Box, BoxNode, Watcher
from tests.box.ledgers import charges
from tests.box.moments import Moment, dies
from tests.box.test_privacy import participants, to_one_model
from tests.jobs import NEEDED, numbers_of, prepare_squares

WAIT_S = 200


class Members(Watcher):
    """Who sent of a sum on each base."""

    def __init__(self) -> None:
        self.on: dict[Base, set[tuple[Key, ...]]] = {}

    def saw(self, box: Box, node: BoxNode, way: str, message: Message) -> None:
        machine = None if node.engine is None else node.engine._node._machine
        if way == "out" and isinstance(message, Sum | Masked) and machine is not None:
            part = machine.participant
            self.on.setdefault(part.group.base, set()).add(part.members)


@pytest.fixture
def job(make_box):
    """Makes a box of nodes with the job, and notes who sent of each sum."""

    def make(count: int, least: int) -> tuple[Box, Members]:
        plain = ("privacy.mechanism=none", f"aggregation.min_participants={least}")
        box = make_box(
            count, NEEDED, *plain, usual=(), options=("--wait", str(WAIT_S)), prepare=prepare_squares
        )
        members = Members()
        box.watchers.append(members)
        return box, members

    return make


def has_all(box: Box, members: Members, sites: range) -> None:
    """Checks that every node has the same bits, which are those of the sites' numbers together."""
    bases = {node.agreed[1].tobytes() for node in box.nodes}
    assert len(bases) == 1
    whole = np.concatenate([numbers_of(site) for site in sites])
    sums, count, total, squares = doubles_of(np.frombuffer(bases.pop(), np.float32)[-16:])
    assert (sums, count) == (NEEDED, len(whole))
    assert total == pytest.approx(whole.sum(), abs=1e-7)
    assert squares == pytest.approx(((whole - whole.mean()) ** 2).sum(), abs=1e-7)
    assert {base.generation for base in members.on} == set(range(NEEDED)), "it is over before its most sums"
    after = [group for base, groups in members.on.items() if base.generation for group in groups]
    assert {len(group) for group in after} == {len(sites)}
    assert len(set(after)) == 1, "and no sum had other members than the first"


KILLS = {
    "joins": (5, Join, 2),
    "certified": (5, JoinCertificate, 1),
    "vectors": (5, Masked, 2),
    "voted": (5, Release, 2),
    "shares": (3, Share, 2),
    "sums": (3, Sum, 1),
}


DEATHS = [
    pytest.param(kill, session, marks=() if session == 1 + place % NEEDED else pytest.mark.soak)
    for place, kill in enumerate(KILLS)
    for session in range(1, NEEDED + 1)
]


@pytest.mark.sampled("joins-1", "shares-2", "sums-3")
@pytest.mark.parametrize(("kill", "session"), DEATHS)
def test_one_dies_in_any_sum_and_comes_back_and_the_bits_are_the_same(job, kill: str, session: int) -> None:
    count, kind, nth = KILLS[kill]
    box, members = job(count, count)
    victim = box.nodes[-1]
    dies(victim, Moment(kind, nth, session), power=session == 2)
    victim.start()
    to_one_model(box)
    has_all(box, members, range(count))
    assert all({*participants(box, node.number)} <= {0, count} for node in box.nodes)


def test_who_comes_late_gets_the_result_and_adds_nothing(job) -> None:
    box, members = job(5, 4)
    *early, late = box.nodes
    for node in early:
        node.start()
    box.run(until=early[0].has_aggregated)
    late.start()
    to_one_model(box)
    has_all(box, members, range(4))
    assert charges(late.folder) == []
    assert all(len(charges(node.folder)) == NEEDED for node in early)


def test_without_one_of_them_the_job_stops_and_says_who_and_goes_on_once_it_is_back(job) -> None:
    box, members = job(5, 4)
    *others, gone = box.nodes
    dies(gone, Moment(Masked, 1, 2), power=False)
    box.run(until=lambda: all(node.is_over for node in others))
    for node in others:
        assert node.status == 1
        assert node.has_said("the job stopped unfinished: all its sums have the members of the first one")
        assert node.has_said(f"{gone.endpoint} did not come")
        assert (node.summary["finished"], node.summary["generation"]) == (False, 1)
    opened = {base: set(groups) for base, groups in members.on.items()}
    assert all(len(groups) == 1 for groups in opened.values())
    box.start_all()
    to_one_model(box)
    has_all(box, members, range(5))
    others[0].start()
    box.run_to_the_end()
    assert others[0].status == 0, "a node that comes back knows that the job is over"


@pytest.mark.sampled
def test_who_waits_for_ever_says_for_whom_and_how_to_end_it_again_and_again(job) -> None:
    box, _ = job(5, 4)
    *others, gone = box.nodes
    gone.when(gone.tell_to_end, RoundEnded)
    for node in box.nodes:
        node.start("--wait", "forever", "--set", "aggregation.group_timeout_s=100")
    box.run_for(1000)
    told = f"waiting for {gone.endpoint}, who made the last model; all sums have the members of the first one"
    for node in others:
        assert not node.is_over
        lines = [line for line in node.lines if line.startswith(told)]
        assert 9 <= len(lines) <= 10
        assert all("Ctrl-C, and --again at all that are left" in line for line in lines)
        node.tell_to_end()
    box.run_to_the_end()
    assert [node.summary["gone"] for node in others] == [[gone.endpoint]] * 4, "as --again needs to know"


def test_another_job_begins_with_the_rest_once_that_is_affirmed(job) -> None:
    box, _ = job(5, 4)
    *others, gone = box.nodes
    gone.when(gone.tell_to_end, RoundEnded)
    for node in box.nodes:  # one gives up before the others, and they do not count it as gone
        node.start("--wait", str(WAIT_S // 2 if node is others[1] else WAIT_S))
    box.run_to_the_end()
    assert [node.summary["gone"] for node in others] == [[gone.endpoint]] * 4
    assert all(node.has_said("with --again to begin another job with the rest") for node in others)
    first, *_ = others
    before = first.summary
    first.start("--again")
    box.run_to_the_end()
    assert first.has_said("--again was not affirmed")
    box.watchers = [members := Members()]  # of another swarm: its bases are no rivals of the first one's
    for node in others:
        node.start("--again", "--yes")
    box.run_to_the_end()
    assert {node.status for node in others} == {0}
    assert run_folders.summary(first.folder / "unfinished-1") == before
    gone.start()
    first.start()
    box.run(until=lambda: gone.has_said("has begun another job, without members that were gone"))
    gone.tell_to_end()
    box.run_to_the_end()
    assert gone.summary["left_behind"]
    for node in (gone, *others):  # it gets their result, and adds nothing to it
        node.start("--again", "--yes")
    box.run_to_the_end()
    assert {node.status for node in box.nodes} == {0}
    has_all(box, members, range(4))


def test_a_base_that_names_others_than_its_makers_is_not_built_on(job, monkeypatch) -> None:
    box, _ = job(3, 3)
    monkeypatch.setattr(Cohort, "names", lambda *_: False)
    box.start_all()
    box.run_to_the_end()
    assert [node.status for node in box.nodes] == [1] * 3
    assert all(node.has_said("a base names other members than those that made it") for node in box.nodes)
