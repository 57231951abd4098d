"""A restarted node is later than before, whatever its folder or its clock says."""

import pytest

from protocol.actions import Completed, Note, Notice, RaiseEpoch
from protocol.swarm.meeting.clock_skew import Skew
from protocol.swarm.node import Node
from protocol.wire.messages import Hello
from tests.parts import NOW, PARAMETERS, announce, endpoint, members, rand, settings, state, stranger
from tests.wires import INITIAL, Wires

KEYS = members(3)
ONE, TWO, THREE = KEYS


def restarted(wires: Wires, epoch: int, instance: bytes) -> Node:
    """Starts THREE in a folder that remembers the epoch before this one."""
    seeds = tuple(endpoint(key) for key in KEYS)
    where = state(held=INITIAL)
    where.epoch = epoch
    wires.nodes[endpoint(THREE)] = Node(settings(THREE, seeds=seeds, instance=instance), where, {}, rand(42))
    return wires[THREE]


@pytest.mark.parametrize(
    "epoch", [0, 2, 3], ids=["a new folder", "an older copy", "a copy from the last start"]
)
def test_a_folder_that_is_older_than_what_the_others_remember_goes_on_above_it(epoch):
    wires = Wires(KEYS)
    wires[THREE]._state.epoch = 3
    wires.open().tick(10).tick(10)
    again = restarted(wires, epoch, b"again".ljust(16))
    wires.carry_out(endpoint(THREE), again.open(wires.now))
    wires.quiet().offer()

    told = [action for where, action in wires.told if where == endpoint(THREE)]
    assert RaiseEpoch(3) in told
    assert [action.kind for action in told if isinstance(action, Notice) and action.kind == Note.EPOCH]
    assert {wires[key]._members.get(THREE.public).epoch for key in (ONE, TWO)} == {4}
    assert len(wires.ends(Completed)) == 3


def test_a_start_after_the_last_one_needs_nothing_of_the_kind():
    wires = Wires(KEYS)
    wires[THREE]._state.epoch = 3
    wires.open().tick(10)
    wires.carry_out(endpoint(THREE), restarted(wires, 4, b"again".ljust(16)).open(wires.now))
    wires.quiet().offer()

    assert not [action for _, action in wires.told if isinstance(action, RaiseEpoch)]
    assert len(wires.ends(Completed)) == 3


def test_a_clock_that_is_set_while_the_node_runs_is_told_and_changes_nothing():
    wires = Wires(KEYS).open()
    assert wires[ONE].clock(600.0, 0.0) == []
    assert wires[ONE].picture().set_s == 600.0
    wires.tick(10).offer()

    seen = {key: wires[key].picture().clocks for key in KEYS}
    assert seen[TWO][ONE.public] == seen[THREE][ONE.public] == Skew(endpoint(ONE), 600.0)
    assert {skew.ahead_s for skew in seen[ONE].values()} == {-600.0}
    assert len(wires.ends(Completed)) == 3


def test_a_refusal_goes_back_on_its_link_and_nobody_is_dialled():
    """A stranger's Hello once made a node dial any endpoint that it named, and keep the link."""
    wires = Wires(KEYS, allow=frozenset(key.public for key in KEYS)).open()
    one = wires[ONE]
    known = dict(one._discovery.greetings)
    for number in range(600):
        said = Hello(announce(stranger(), endpoint=f"127.0.0.1:{number + 1}"), bytes(16), True, PARAMETERS)
        actions = one.receive(said, stranger().public, NOW)
        assert [type(action).__name__ for action in actions if not isinstance(action, Notice)] == ["Reply"]

    assert one._discovery.greetings == known
    assert one._members.get(stranger().public) is None
