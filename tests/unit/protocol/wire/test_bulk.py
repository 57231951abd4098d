"""What is sent and kept is immutable: the same messages now and later, from any thread."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from protocol.actions import Keep, Send
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.chunks import MaskedVector, SomeChunks
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.vectors.pieces import PIECE_WORDS
from protocol.wire import codec
from protocol.wire.bulk import Bulk
from tests.parts import NOW, machines, members, only, rand, shared, vector
from tests.simulation.bare import Swarm
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule
from tests.wires import Wires

TWO_PIECES = PIECE_WORDS + 3
KEYS = members(4)


def frames(values) -> list[bytes]:
    return [codec.encode(message).join() for message in values]


class Recorded:
    """What was sent and kept, and its frames as they were at that moment."""

    def __init__(self):
        self.values, self.at_once = [], []

    def note(self, actions):
        for action in actions:
            if isinstance(action, Send | Keep):
                value = action.messages if isinstance(action, Send) else action.parts
                self.values.append(value)
                self.at_once.append(frames(value))

    def check(self):
        assert any(isinstance(value, Bulk) for value in self.values)
        assert [frames(value) for value in self.values] == self.at_once
        assert [len(value) for value in self.values] == [len(made) for made in self.at_once]


def recorded_session(monkeypatch, **changes) -> Recorded:
    """Runs a round of sessions to its end."""
    seen, carry_out = Recorded(), Wires.carry_out

    def noting(wires, where, actions):
        seen.note(actions)
        carry_out(wires, where, actions)

    monkeypatch.setattr(Wires, "carry_out", noting)
    wires = Wires(KEYS, **changes).open().offer()
    assert len({node.base for node in wires.nodes.values()}) == 1
    assert next(iter(wires.nodes.values())).base.generation == 1
    return seen


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shares": ShareSettings("ring", 4.0, 100.0)},
        {"shares": ShareSettings("float", 4.0, 100.0)},
        {"masked": MaskedSettings(4.0, None, 0)},
        {"masked": MaskedSettings(4.0, None, 1 << 20)},
    ],
    ids=["seeds", "ring", "floats", "reducers", "everybody adds"],
)
def test_after_a_session_its_messages_are_what_they_were_when_they_were_said(changes, monkeypatch):
    recorded_session(monkeypatch, **changes).check()


@pytest.mark.parametrize("layout", [EVERYBODY_ADDS, REDUCERS])
@pytest.mark.parametrize("seed", range(4))
def test_so_they_are_where_members_are_lost_and_views_change(layout, seed, monkeypatch):
    seen, perform = Recorded(), Swarm._perform

    def noting(swarm, member, action):
        seen.note([action])
        perform(swarm, member, action)

    monkeypatch.setattr(Swarm, "_perform", noting)
    Swarm(Schedule(seed, 5, layout, crashes=(Crash(1 + seed, 12 + 3 * seed),))).run()
    seen.check()


def test_a_large_vector_has_its_pieces_and_nobody_can_change_it_after_it_was_said():
    group = machines(3, TWO_PIECES)
    actions = shared(group, [vector(number, TWO_PIECES) for number in range(3)])[0]
    whole = only(actions, Keep).parts
    assert [part.index for part in whole] == [0, 1]
    assert all(send.messages is whole for send in actions if isinstance(send, Send))
    for part in whole:
        assert part.payload.readonly
    with pytest.raises(ValueError, match="read-only"):
        group[0]._accumulator += np.uint32(1)


@pytest.mark.parametrize("shares", ["seed", "ring"])
def test_what_is_said_holds_no_machine(shares):
    group = machines(3, TWO_PIECES, ShareSettings(shares, 4.0, 100.0))
    offers = [vector(number, TWO_PIECES) for number in range(3)]
    said = [send.messages for send in group[0].start(offers[0], rand(0), NOW)]
    machine = weakref.ref(group[0])
    group.clear()
    gc.collect()
    assert machine() is None
    assert all(len(frames(messages)) == len(messages) for messages in said)


def chunks_of_a_session() -> tuple[Swarm, list[SomeChunks]]:
    """Runs a session to its end; returns for each of two members all chunks that it held."""
    swarm = Swarm(Schedule(0, 5, REDUCERS)).run()
    held = [member.machine._rounds._reduction.chunks for member in swarm.members[:2]]
    return swarm, [
        chunks.of(
            (member.participant.me, index)
            for member in swarm.members
            for index in range(chunks._layout.chunks)
        )
        for chunks in held
    ]


def test_bulk_is_made_when_it_is_reached_and_not_before(monkeypatch):
    _, (value, _) = chunks_of_a_session()
    made, message = [], MaskedVector.message
    monkeypatch.setattr(
        MaskedVector, "message", lambda vector, index: made.append(index) or message(vector, index)
    )
    own = [chunk for chunk in value.chunks if isinstance(chunk, int)]
    reached = iter(value)
    assert not made
    for _ in value.chunks:
        next(reached)
    assert made == own == list(range(len(own)))


def test_several_links_go_through_one_value_at_once():
    _, values = chunks_of_a_session()
    for value in values:
        barrier = threading.Barrier(4)

        def go(value=value, barrier=barrier):
            barrier.wait()
            return frames(value)

        with ThreadPoolExecutor(4) as threads:
            one, *others = [future.result() for future in [threads.submit(go) for _ in range(4)]]
        assert others == [one] * 3


def test_secrets_are_not_in_what_is_printed():
    group = machines(3)
    (send, _) = group[0].start(vector(0), rand(0), NOW)
    assert repr(send.messages.seed) not in repr(send)
