"""One member of an additive session in a process of its own; a second process runs all other members.

The member asks over a pipe for the next frame to it, or sends a recipient's key and a frame. So no frames
queue up in the member.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from benchmarks.memory.group import participants
from benchmarks.memory.residence import OwnPeak, resident_bytes
from protocol.actions import Action, Completed, Send
from protocol.aggregation.additive.machine import Additive
from protocol.aggregation.additive.shares import Shares, ShareSettings
from protocol.aggregation.participant import Participant
from protocol.vectors.pieces import Floats, piece_count
from protocol.wire import codec
from protocol.wire.messages import Key, Message, Share, Sum

CLIP, MAX_SHARE_VALUE = 4.0, 100.0
WARM_UP_DIMENSION = 1000
_NEXT = b"next"


@dataclass(frozen=True)
class Cell:
    """One measurement. `late`: the member with the lowest key sends last, which is the worst for `float`."""

    kind: str
    members: int
    dimension: int
    late: bool

    def participants(self, dimension: int) -> list[Participant]:
        """Return all participants, in the order of their keys; the last one is the measured member."""
        return participants(self.members, dimension)

    @property
    def shares(self) -> Shares:
        """The arithmetic of this kind of shares."""
        return ShareSettings(self.kind, CLIP, MAX_SHARE_VALUE).for_group(self.members)


def vector(member: int, dimension: int) -> Floats:
    """Return the update (d,) float32 of a member."""
    values = np.random.default_rng(member).standard_normal(dimension, dtype=np.float32)
    values *= np.float32(0.01)
    return values


def measure(cell: Cell, others: Connection, results: Connection) -> None:
    """Run the measured process: a small session loads all code, then a second one is measured."""
    _run_session(cell, WARM_UP_DIMENSION, others)
    gc.collect()
    with OwnPeak(resident_bytes("self", "VmRSS")) as peak:
        mean = _run_session(cell, cell.dimension, others)
    results.send((peak.above_rest, _error(mean, cell)))


def _run_session(cell: Cell, dimension: int, others: Connection) -> Floats:
    """Run a session; return the group's mean (d,). `x` stays in memory to its end, as in a node."""
    x = vector(cell.members - 1, dimension)
    machine = Additive(cell.participants(dimension)[-1], cell.shares)
    actions = machine.start(x, bytes(32), 0.0)
    while (completed := _carry_out(actions, others)) is None:
        others.send_bytes(_NEXT)
        actions = machine.receive(_session_message(codec.decode(others.recv_bytes())), 0.0)
    return completed.result


def _carry_out(actions: list[Action], others: Connection) -> Completed | None:
    for action in actions:
        match action:
            case Send(to=bytes() as key):
                for message in action.messages:
                    others.send_bytes(key)
                    others.send_bytes(codec.encode(message).join())
            case Completed():
                return action
    return None


def _session_message(message: Message) -> Share | Sum:
    """Return `message` as one of a session. Raises TypeError if it is none."""
    if not isinstance(message, Share | Sum):
        raise TypeError(f"a {type(message).__name__} in a session")
    return message


def _error(mean: Floats, cell: Cell) -> float:
    """Return the largest difference between `mean` (d,) and the mean in float64."""
    exact = np.zeros(cell.dimension)
    for member in range(cell.members):
        exact += vector(member, cell.dimension)
    return float(np.abs(mean - exact / cell.members).max())


def serve(cell: Cell, member: Connection) -> None:
    """Run the other process: all other members, in both sessions."""
    for dimension in (WARM_UP_DIMENSION, cell.dimension):
        _Others(cell, dimension).serve(member)


class _Others:
    """All members but the last. They make each message to the last one only when it asks."""

    def __init__(self, cell: Cell, dimension: int) -> None:
        places = cell.participants(dimension)
        each = cell.shares.payload_count(dimension) + piece_count(dimension)
        self._left = each * (cell.members - 1)
        self._late = cell.late
        self._member = places[-1].key.public
        self._machines = {
            participant.key.public: Additive(participant, cell.shares) for participant in places[:-1]
        }
        self._for_member: deque[tuple[Key, Iterator[Message]]] = deque()
        self._among: deque[tuple[Key, Iterator[Message]]] = deque()
        for number, (key, machine) in enumerate(self._machines.items()):
            rand = (number + 1).to_bytes(32, "big")
            self._queue(key, machine.start(vector(number, dimension), rand, 0.0))

    def serve(self, member: Connection) -> None:
        """Answer until the member has received every frame to it."""
        while self._left:
            self._settle()
            asked = member.recv_bytes()
            if asked == _NEXT:
                self._left -= 1
                member.send_bytes(codec.encode(self._next()).join())
            else:
                self._hand(asked, codec.decode(member.recv_bytes()))

    def _queue(self, sender: Key, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send) and isinstance(action.to, bytes):
                is_for_member = action.to == self._member
                outbox = self._for_member if is_for_member else self._among
                outbox.append((sender if is_for_member else action.to, iter(action.messages)))

    def _settle(self) -> None:
        """Deliver the messages that the other members send to each other."""
        while self._among:
            recipient, messages = self._among.popleft()
            for message in messages:
                self._hand(recipient, message)

    def _hand(self, recipient: Key, message: Message) -> None:
        self._queue(recipient, self._machines[recipient].receive(_session_message(message), 0.0))

    def _next(self) -> Message:
        """Return the next message to the member. Senders take turns; if `late`, by descending keys."""
        if self._late:
            self._for_member = deque(sorted(self._for_member, key=lambda waiting: waiting[0], reverse=True))
        while True:
            sender, messages = self._for_member.popleft()
            message = next(messages, None)
            if message is not None:
                self._for_member.append((sender, messages))
                return message
