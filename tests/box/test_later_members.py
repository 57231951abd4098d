"""Members who come later to a swarm that learns, and members who are removed: each owner decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node.members.run import members
from node.storage.swarm_file import SWARM, read_swarm, write_swarm
from protocol.invitation.roster import close_list
from protocol.invitation.sealed import NONCE_BYTES
from tests.box.box import Box, BoxNode
from tests.cases import soak

WITHIN_S = 120.0


def swarm(make_box, late: int) -> Box:
    """Four members learn; one node is not invited yet."""
    box: Box = make_box(5, 1000)
    box.network.slowest_s = 0.25
    box.with_relays(late=[late])
    first = [node for node in box.nodes if node.number != late]
    for node in first:
        node.start()
    together(box, *first)
    return box


def together(box: Box, *nodes: BoxNode, sums: int = 2) -> None:
    """Runs until each of these was in so many more sums of just so many members."""
    known = [len(node.records) for node in nodes]

    def were(node: BoxNode, old: int) -> bool:
        return sum(each.participants == len(nodes) for each in node.records[old:]) >= sums

    box.run(lambda: all(map(were, nodes, known)), within_s=WITHIN_S)


def restart(box: Box, node: BoxNode) -> None:
    node.kill()
    box.run(lambda: node.is_over)
    node.start()


def failures(*nodes: BoxNode) -> int:
    return sum(record.reason is not None for node in nodes for record in node.records)


def accept(late: BoxNode, *owners: BoxNode) -> None:
    for node in owners:
        members(node.folder, late.name, None)


def test_a_later_member_learns_with_all_once_all_owners_have_accepted_it(make_box) -> None:
    """Before that, the sums of the others go on without it, as often as it waits beside whom it may not."""
    box = swarm(make_box, late=3)
    first, sponsor, careful, late, last = box.nodes
    box.invite(late, by=sponsor)
    late.start()
    others = (first, careful, last)
    box.run(lambda: all(node.has_said(f"{sponsor.name} vouches for a newcomer") for node in others), WITHIN_S)
    accept(late, first, last)
    together(box, first, sponsor, careful, last)
    assert not late.records
    rules = [node.engine._node._settings.quorum for node in box.nodes]
    assert all(each == rules[0] for each in rules)
    whole = (careful.folder / SWARM).read_text()
    (careful.folder / SWARM).write_text(whole.replace("[own]", "own"))
    box.run(lambda: careful.has_said("until then the members stay as they are"), WITHIN_S)
    (careful.folder / SWARM).write_text(whole)
    accept(late, careful)
    together(box, *box.nodes)
    assert not failures(*box.nodes)
    restart(box, last)
    together(box, *box.nodes)


def test_another_list_in_the_folder_of_a_node_that_runs_holds_from_its_next_start(
    make_box,
) -> None:
    box = swarm(make_box, late=4)
    one = box.nodes[1]
    here = read_swarm(one.folder)
    fewer, relays = here.roster.members[:3], here.roster.relays
    other = close_list(box.nodes[0].key, fewer, b"", relays, bytes([1] * NONCE_BYTES))
    write_swarm(one.folder, replace(here, roster=other), one.disk)
    box.run(lambda: one.has_said("has another list: it holds from the next start"), WITHIN_S)
    together(box, *box.nodes[:4])


def test_who_is_removed_is_cut_off_at_once_and_no_word_brings_it_back(make_box) -> None:
    box = swarm(make_box, late=4)
    *others, gone, late = box.nodes
    known = len(gone.records)
    for node in others:
        members(node.folder, None, gone.name)
    together(box, *others)
    restart(box, others[1])
    box.invite(late, by=gone)
    members(gone.folder, None, others[0].name)  # so that it reads its file again
    together(box, *others)
    assert all(record.reason is not None for record in gone.records[known + 1 :])
    assert not any(node.has_said("vouches for") for node in others)


@pytest.mark.parametrize("number", [0, soak(3)])  # 0 coordinates
def test_whom_one_owner_alone_removed_learns_on_with_the_others(make_box, number: int) -> None:
    box = swarm(make_box, late=4)
    one, gone = box.nodes[1], box.nodes[number]
    members(one.folder, None, gone.name)
    known = len(gone.records)
    box.run(lambda: len(gone.records) >= known + 4, WITHIN_S)
    assert failures(*box.nodes) <= 1 * 4  # the sum under way
    assert not gone.records[-1].reason
    if number == 0:
        assert one.has_said(f"{gone.name} coordinates the others")
        gone.tell_to_end()
        together(box, *box.nodes[1:4])
