"""What waits at a relay for one carrier: a queue of frames for each sender, and the relay's own words.

Senders come in turn, one frame each, so that none waits for another's bulk. Data stay as they came.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Set

from protocol.relay.frames import Frame
from protocol.wire.ids import Key

Parts = tuple[bytes, memoryview]
"""A frame in two parts, so that nobody copies the data."""
FRAME_COST_BYTES = 512
"""What a waiting frame takes beside its bytes: a small one takes far more memory than it is long."""
MAX_NOTES = 1024
"""The relay's own words that wait for one carrier; further ones are dropped, as all may be said again."""


def cost_of(parts: Parts) -> int:
    """What a frame counts for while it waits, in bytes."""
    return len(parts[0]) + len(parts[1]) + FRAME_COST_BYTES


class _Queue:
    __slots__ = ("frames", "held_bytes")

    def __init__(self) -> None:
        self.frames: deque[Parts] = deque()
        self.held_bytes = 0


class Waiting:
    """The queues of one carrier. `held_bytes`: what all its frames count for."""

    __slots__ = ("_notes", "_queues", "held_bytes")

    def __init__(self) -> None:
        self._queues: OrderedDict[Key, _Queue] = OrderedDict()
        self._notes: OrderedDict[Hashable, Parts] = OrderedDict()
        self.held_bytes = 0

    @property
    def senders(self) -> Set[Key]:
        """Those from whom something waits."""
        return self._queues.keys()

    def held_from(self, sender: Key) -> int:
        """What waits from one sender, in bytes."""
        queue = self._queues.get(sender)
        return 0 if queue is None else queue.held_bytes

    def put(self, sender: Key, parts: Parts, cost: int) -> None:
        """Adds a frame."""
        queue = self._queues.get(sender)
        if queue is None:
            queue = self._queues[sender] = _Queue()
        queue.frames.append(parts)
        queue.held_bytes += cost
        self.held_bytes += cost

    def note(self, about: Hashable, frame: Frame) -> None:
        """Adds a word of the relay; it takes the place of an earlier one about the same."""
        if about in self._notes or len(self._notes) < MAX_NOTES:
            self._notes[about] = frame.parts

    def take_note(self) -> Parts | None:
        """Removes and returns the relay's first word; None if there is none."""
        return self._notes.popitem(last=False)[1] if self._notes else None

    def take(self) -> tuple[Key, Parts, int] | None:
        """Removes the next frame; returns its sender, the frame, and what it counted for. None if empty."""
        if not self._queues:
            return None
        sender, queue = self._queues.popitem(last=False)
        parts = queue.frames.popleft()
        cost = cost_of(parts)
        queue.held_bytes -= cost
        self.held_bytes -= cost
        if queue.frames:
            self._queues[sender] = queue
        return sender, parts, cost

    def drop_longest(self) -> tuple[Key, int]:
        """Drops all frames of the sender that has most; returns it, and what they counted for."""
        sender = max(self._queues, key=self.held_from)
        held_bytes = self._queues.pop(sender).held_bytes
        self.held_bytes -= held_bytes
        return sender, held_bytes
