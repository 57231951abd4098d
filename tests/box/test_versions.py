"""Swarms of mixed versions: who runs which is said at once, and no round is spent until all run the same."""

from __future__ import annotations

import pytest

from protocol.wire.limits import VERSION
from tests.box.box import Box, BoxNode
from tests.cases import soak

SOON = "aggregation.group_timeout_s=1"
OLDER = f"runs an older version (protocol {VERSION - 1}, this node {VERSION}): upgrade all nodes of the swarm"
NEWER = "upgrade this node, and all others with it"
WAITS = (
    "of another version of the protocol; no group can form without them: upgrade all nodes of the swarm "
    "together; no round is spent meanwhile"
)


def mixed(make_box, count: int, older: int, *more: str, **options) -> tuple[Box, list[BoxNode]]:
    """Returns a box whose last nodes are of the version before, and these nodes."""
    box: Box = make_box(count, 2, SOON, *more, **options)
    for node in box.nodes[count - older :]:
        node.version = VERSION - 1
    return box, box.nodes[count - older :]


def lines_with(node: BoxNode, text: str) -> list[str]:
    return [line for line in node.lines if text in line]


def has_spent_nothing(node: BoxNode) -> bool:
    return node.records == [] and node.fact("round") == 0


def check_that_no_round_was_lost(node: BoxNode) -> None:
    assert node.status == 0
    assert [(line["own"], line["participants"]) for line in node.history] == [(1, 3), (2, 3)]


def upgrade(box: Box, node: BoxNode, version: int = VERSION) -> None:
    """Stops a node and starts it with another version."""
    node.tell_to_end()
    box.run(lambda: node.is_over)
    node.version = version
    node.start()


@pytest.mark.sampled
@pytest.mark.parametrize("older", [1, soak(2)])
def test_a_mixed_swarm_spends_no_round_says_so_and_goes_on_once_all_are_upgraded(make_box, older: int):
    box, old = mixed(make_box, 3, older)
    new = box.nodes[: 3 - older]
    box.start_all()
    box.run(lambda: all(lines_with(node, f"{one.endpoint} {OLDER}") for node in new for one in old), 2.0)
    box.run_for(600)
    for node in box.nodes:
        assert has_spent_nothing(node)
    for node in new:
        assert [len(lines_with(node, f"{one.endpoint} {OLDER}")) for one in old] == [1] * older
        names = ", ".join(sorted(one.endpoint for one in old))
        assert lines_with(node, "waiting for") == [f"waiting for {names}, {WAITS}"]
        assert node.engine.inspector.waiting == f"waiting for {names}, {WAITS}"
        assert "127.0.0.1" not in node.engine.inspector.troubles["waiting"]
    for node in old:
        said = f"runs a newer version (protocol {VERSION}, this node {VERSION - 1}): {NEWER}"
        assert [len(lines_with(node, f"{one.endpoint} {said}")) for one in new] == [1] * len(new)
    for node in old:
        upgrade(box, node)
    box.run_to_the_end()
    for node in box.nodes:
        check_that_no_round_was_lost(node)


def test_three_of_five_go_on_without_two_older_ones(make_box):
    box, old = mixed(make_box, 5, 2)
    box.start_all()
    box.run(lambda: all(node.is_over for node in box.nodes[:3]))
    for node in box.nodes[:3]:
        assert node.status == 0
        assert [line["participants"] for line in node.history] == [3, 3]
        assert not lines_with(node, WAITS)
    for node in old:
        assert has_spent_nothing(node)


def test_who_could_do_without_the_older_ones_ends_its_rounds_alone_as_ever(make_box):
    """Three of five would do: two of them are late, and one of another version changes nothing."""
    box, (old,) = mixed(make_box, 5, 1)
    node = box.nodes[0]
    node.start()
    old.start()
    box.run(lambda: node.is_over)
    assert node.status == 1
    assert [(line["reason"], line["alone"]) for line in node.history] == [
        ("group-timeout", 1),
        ("group-timeout", 2),
    ]
    assert node.lines[-1].startswith("error: 2 rounds alone in a row, after round 0 of 2; ")
    assert f"; {old.endpoint} {OLDER}" in node.lines[-1]


def test_no_quorum_of_electors_without_the_older_ones_is_waited_for_too(make_box):
    """Three of seven are a group, but no quorum: weak models come after a while, and no round is lost."""
    box, _ = mixed(make_box, 7, 4)
    box.start_all()
    box.run(lambda: all(node.is_over for node in box.nodes[:3]))
    for node in box.nodes[:3]:
        check_that_no_round_was_lost(node)
        assert lines_with(node, WAITS)
        assert lines_with(node, "was agreed without a quorum")


@pytest.mark.parametrize("limit", ["1", "5"])
def test_the_owner_s_limit_ends_the_wait_for_an_upgrade_and_names_the_reason(make_box, limit: str):
    box, (old,) = mixed(make_box, 3, 1)
    begun_s = box.loop.time()
    node = box.nodes[0]
    node.start("--wait", limit)
    old.start()
    box.run(lambda: node.is_over)
    assert box.loop.time() - begun_s == pytest.approx(float(limit), abs=0.1)
    assert node.status == 1
    assert [(line["reason"], line["alone"]) for line in node.history] == [("group-timeout", 1)]
    assert node.lines[-1] == (
        f"error: no group came while this node waited for one: {box.nodes[1].endpoint} did not "
        "come, after round 0 of 2; "
        f"{old.endpoint} {OLDER} together; start the same command line again when the others are there; "
        "--wait says how long it waits"
    )


def test_a_version_that_a_stranger_claims_makes_nobody_wait(make_box):
    """It dials as one of another version, and this node never dialled it."""
    box, (stranger,) = mixed(make_box, 3, 1)
    node = box.nodes[0]
    elsewhere = f"{node.endpoint},{box.nodes[1].endpoint},127.0.0.1:29999"
    node.start("--peers", elsewhere)
    stranger.start()
    box.run(lambda: node.is_over)
    assert lines_with(node, f"a node that comes from 127.0.0.1 {OLDER}")
    assert not lines_with(node, f"{stranger.endpoint} {OLDER}")
    assert [line["reason"] for line in node.history] == ["group-timeout"] * 2


def test_a_tracker_of_another_version_is_waited_for(make_box):
    box: Box = make_box(3, 2, SOON)
    tracker = box.with_tracker()
    for node in box.nodes:
        node.version = VERSION - 1
        node.start()
    said = f"{tracker.endpoint} runs a newer version (protocol {VERSION}, this node {VERSION - 1}): {NEWER}"
    box.run(lambda: all(lines_with(node, said) for node in box.nodes), 2.0)
    box.run_for(100)
    for node in box.nodes:
        assert has_spent_nothing(node)
        upgrade(box, node)
    box.run_to_the_end()
    assert [len(node.history) for node in box.nodes] == [2, 2, 2]


@pytest.mark.sampled
def test_a_peer_that_left_and_is_back_with_a_newer_version_is_waited_for(make_box):
    """It said goodbye, so the others do not dial it until it has dialled them."""
    box: Box = make_box(3, 3, "aggregation.group_timeout_s=60")
    box.start_all()
    gone = box.nodes[2]
    box.run(lambda: all(node.has_aggregated(1) for node in box.nodes))
    upgrade(box, gone, VERSION + 1)
    said = f"{gone.endpoint} runs a newer version (protocol {VERSION + 1}, this node {VERSION}): {NEWER}"
    box.run(lambda: all(lines_with(node, said) for node in box.nodes[:2]), 10.0)
    before = [len(node.records) for node in box.nodes]
    box.run_for(1000)
    assert [len(node.records) for node in box.nodes] == before
    upgrade(box, gone)
    box.run_to_the_end()
    for node in box.nodes:
        assert node.status == 0
        assert [line["alone"] for line in node.history] == [0] * 3
