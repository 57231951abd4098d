"""Snapshots: values that say what a node is doing at a moment, made only on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mechanisms.mechanism import Mechanism
from node.runtime.meter import Meter
from node.runtime.plan import Plan
from node.runtime.record.own_figures import OwnBook
from node.runtime.shell import Shell
from node.runtime.waiting import gone, nameless, waiting_text
from node.storage.state import State
from protocol.swarm.inspection import Contact
from protocol.swarm.node import Node
from protocol.wire.ids import Key
from protocol.wire.messages import Parting


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node's activity at a moment. Nothing in it is derived from data."""

    task: str
    round: int
    """The last round that ended; with a `purpose`, the last sum."""
    rounds: int
    phase: str
    waiting_for: tuple[str, ...]
    left_s: float | None
    """Seconds until the phase ends at the latest; None if it has no limit."""
    waiting: str
    """Why no group forms; empty if there is no obstacle."""
    purpose: str = ""
    """What the sum in progress is for, in a job whose sums all have the same members; otherwise empty."""


Take = Callable[[], Awaitable[Snapshot]]
Show = Callable[[Take], Coroutine[None, None, None]]
"""Shows the node's activity until it is cancelled."""


@dataclass(frozen=True)
class Inspector:
    """Takes snapshots of a node; holds the parts of the node that may be inspected."""

    plan: Plan
    node: Node
    state: State
    mechanism: Mechanism
    shell: Shell
    meter: Meter
    out: Path
    """The node's folder."""
    own: OwnBook = field(default_factory=OwnBook)
    """What the node's own rows show."""

    @property
    def waiting(self) -> str:
        """Why no group forms; empty if there is no obstacle. It may be read at any time."""
        return waiting_text(self.node.picture().obstacle, self.plan.nicknames, self.out)

    @property
    def troubles(self) -> dict[str, str]:
        """Why no group forms, and how many peers are left out, without names. It may be read at any time."""
        picture = self.node.picture()
        obstacle, count = picture.obstacle, len(picture.left_out)
        peers, are = ("peers", "are") if count > 1 else ("peer", "is")
        left_out = f"{count} {peers} withheld what was due to sums, and {are} left out for a while"
        return {
            **({} if obstacle is None else {"waiting": nameless(obstacle)}),
            **({"left_out": left_out} if count else {}),
        }

    def called(self, endpoints: Sequence[str]) -> tuple[str, ...]:
        """Returns endpoints with the owner's names of the keys there. Call it between two events."""
        keys = {known.endpoint: known.key for known in self.node.known_peers}
        return tuple(self._called(endpoint, keys.get(endpoint)) for endpoint in endpoints)

    def _called(self, endpoint: str, key: Key | None) -> str:
        name = "" if key is None else self.plan.nicknames.of(key.hex())
        return f"{name} ({endpoint})" if name else endpoint

    @property
    def gone(self) -> tuple[str, ...]:
        """The members of a job's first sum that are not here, if all its sums have those; else nobody.

        Who has ended because another is gone is not gone. Call it between two events.
        """
        if not self.plan.cohort or not self.state.base.generation:
            return ()
        peers = self.node.known_peers
        ended = {one.key for one in peers if one.remarks.parting is Parting.ENDED}
        return gone(self.node.picture().obstacle, self.plan.nicknames, ended)

    @property
    def absent(self) -> str:
        """The peers that did not come, or went without a goodbye, in words. Call it between two events."""
        if self.gone:
            return ", ".join(self.gone)
        here, others = (Contact.REACHABLE, Contact.LEFT), self.node.other_versions
        peers = [one for one in self.node.known_peers if not one.is_tracker and one.endpoint not in others]
        return ", ".join(self._called(one.endpoint, one.key) for one in peers if one.contact not in here)

    async def take(self) -> Snapshot:
        """Takes a snapshot between two events of the machine."""
        return await self.shell.look(self._now)

    def _now(self) -> Snapshot:
        status = self.node.status
        return Snapshot(
            task=self.plan.task.task.name,
            round=self.state.base.generation if self.plan.cohort else self.plan.round(self.state.base),
            rounds=self.plan.sums if self.plan.cohort else self.plan.rounds,
            phase=status.phase,
            waiting_for=self.called(status.waiting_for),
            left_s=left_s(status.deadline, self.shell.clock.now()),
            waiting=self.waiting,
            purpose=self.plan.purpose(self.state.base.generation) if self.plan.cohort else "",
        )


def left_s(until: float | None, now: float) -> float | None:
    """Returns the seconds until a deadline, at least 0; None without a deadline."""
    return None if until is None else max(0.0, until - now)
