"""A run of a box from one seed: a swarm, mixed faults, their mending, a sum of all, the end.

    start ──▶ faults, each at a moment of its own ──▶ all is mended ──▶ a sum of all nodes ──▶ told to end

The seed alone decides the swarm, the faults and all delays, so it makes a failure again:

    python -m tests.box 4711
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from protocol.wire.masked_messages import Ack, Check, Join, Joined, Masked, Release, Total
from protocol.wire.messages import Group, Message, Ready, Share, Sum
from tests.box.box import Box, BoxNode, BoxTracker
from tests.box.invariants import all_rules, nothing_left

DEADLINES = (
    "aggregation.group_timeout_s=20",
    "aggregation.shares_timeout_s=5",
    "aggregation.sums_timeout_s=5",
)
TOGETHER_S = 300.0
"""Within this time after the last fault all are in one sum: five failed rounds of 30 s at most, the node's
patience of 30 s, a weak sum, a strong one, and a margin (docs/quorum.md)."""
END_S = 120.0
"""Within this time a node that is told to end has ended: it may finish its session, in 30 s."""
CLOSED_S = 31.0
"""A TLS stream whose far end is gone without a word is closed after 30 s (asyncio's limit)."""
KINDS: tuple[type[Message], ...] = (
    *(Ready, Group, Share, Sum),
    *(Join, Joined, Masked, Total, Check, Ack, Release),
)
PRIVATE = ("privacy.mechanism=ldp", "privacy.epsilon=8", "train.rounds=1000")


def end_all(box: Box) -> None:
    """Tells all nodes to end, and looks at what is left, unless a rule was broken."""
    for node in box.nodes:
        if node.engine is not None:
            node.tell_to_end()
    box.run(lambda: bool(box.faults) or box.all_ended, within_s=END_S)
    if box.faults:
        return
    for server in (*box.relays, *filter(None, [box.tracker])):
        server.kill()
    box.run_for(CLOSED_S)
    nothing_left(box)


@dataclass(frozen=True)
class Swarm:
    """What a seed makes."""

    count: int
    protocol: str
    is_private: bool
    tls: str
    has_tracker: bool

    @property
    def overrides(self) -> tuple[str, ...]:
        private = PRIVATE if self.is_private else ()
        return (f"aggregation.protocol={self.protocol}", "train.rounds=1000", *DEADLINES, *private)


def swarm_of(seed: int, rng: random.Random) -> Swarm:
    """Draws a swarm; one of ten meets at a tracker."""
    return Swarm(
        count=rng.choice((3, 4, 4, 5)),
        protocol=rng.choice(("additive", "masked")),
        is_private=rng.random() < 0.3,
        tls="on" if rng.random() < 0.1 else "off",
        has_tracker=seed % 10 == 9,
    )


class Run:
    """One run."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.swarm = swarm = swarm_of(seed, self.rng)
        options = ("--tls", swarm.tls)
        self.box = Box(seed, folder, swarm.count, 1000, *swarm.overrides, options=options)
        self.box.watchers = all_rules()
        pace = random.Random(f"{seed} training")
        self.box.loop.lasts_s = lambda name: pace.uniform(2.0, 8.0) if name == "_train" else 0.0
        self._open = 0
        """How many faults are not mended yet."""

    def go(self) -> Box:
        """Runs it to its end; AssertionError, with the trace, if anything is as it must not be."""
        box = self.box
        with box:
            if self.swarm.has_tracker:
                self._tracker_dies(box.with_tracker("--tls", self.swarm.tls))
            for node in box.nodes:
                box.at(self.rng.uniform(0.0, 1.0), node.start)
            box.run_for(1.0)
            for _ in range(self.rng.randint(1, 3)):
                self._draw(self.rng.choice(box.nodes))
            box.run(lambda: bool(box.faults) or not self._open, within_s=400.0)
            self._mend_all()
            self._must_meet()
            end_all(box)
        assert not box.faults, box.told()
        return box

    # -- faults ------------------------------------------------------------------------------------

    def _draw(self, node: BoxNode) -> None:
        """Draws a fault of a node, its moment, and when it is mended."""
        rng = self.rng
        begin, mend = rng.choice(
            (
                (node.kill, self._restart),
                (partial(node.kill, power=True), self._restart),
                (node.pause, self._go_on),
                (self._cut_off(node), self._heal),
                (self._slow(node), self._heal),
                (self._set_clock(node), self._leave),
                (self._fill(node), self._restart),
                (self._terminate(node), self._restart),
            )
        )
        self._open += 1
        lasts_s = rng.choice((0.1, 2.0, 12.0, 45.0)) * rng.uniform(0.5, 1.5)

        def act() -> None:
            self.box.note(node.number, "fault", f"{mend.__name__} in {lasts_s:.3f} s")
            self.box.at(lasts_s, partial(mend, node))
            begin()

        self._at_a_moment(node, self._once(act))

    def _once(self, act: Callable[[], None]) -> Callable[[], None]:
        """Returns what acts at the first of several moments."""
        acted: list[bool] = []

        def once() -> None:
            if not acted:
                acted.append(True)
                act()

        return once

    def _at_a_moment(self, node: BoxNode, act: Callable[[], None]) -> None:
        """Acts before some message, disk step or callback of the node, and within 10 s in any case."""
        rng = self.rng
        match rng.randrange(4):
            case 0:
                node.before_message(act, rng.choice(("in", "out")), rng.choice(KINDS), rng.randint(1, 6))
            case 1:
                node.before_disk_step(act, rng.randint(1, 40))
            case 2 if node.is_up:
                node.before_step(act, rng.randint(1, 4000))
            case _:
                self.box.at(rng.uniform(0.0, 3.0), act)
        self.box.at(10.0, act)

    def _tracker_dies(self, tracker: BoxTracker) -> None:
        """Kills the tracker while nodes meet there or later, and starts it again."""
        self._open += 1
        self.box.at(self.rng.uniform(0.0, 10.0), tracker.kill)
        self.box.at(10.0 + self.rng.uniform(0.0, 40.0), partial(self._restart_tracker, tracker))

    def _restart_tracker(self, tracker: BoxTracker) -> None:
        tracker.start()
        self._open -= 1

    def _cut_off(self, node: BoxNode) -> Callable[[], None]:
        """Cuts one of its links, or all."""
        others = [other.number for other in self.box.nodes if other is not node]
        cut = others if self.rng.random() < 0.5 else [self.rng.choice(others)]

        def cutting() -> None:
            for other in cut:
                self.box.network.cut(node.number, other)

        return cutting

    def _slow(self, node: BoxNode) -> Callable[[], None]:
        return lambda: self.box.network.slow.add(node.number)

    def _set_clock(self, node: BoxNode) -> Callable[[], None]:
        by_s = self.rng.choice((-600.0, -20.0, 20.0, 600.0))
        return lambda: setattr(node, "skew_s", node.skew_s + by_s)

    def _fill(self, node: BoxNode) -> Callable[[], None]:
        return lambda: setattr(node.disk, "is_full", True)

    def _terminate(self, node: BoxNode) -> Callable[[], None]:
        return lambda: node.tell_to_end() if node.engine is not None else None

    # -- mending -----------------------------------------------------------------------------------

    def _restart(self, node: BoxNode) -> None:
        """Starts a node again that has ended, as soon as nothing is left of its last life."""
        node.disk.is_full = False
        if node.is_over:
            node.start()
        elif not node.is_up:
            self.box.at(0.1, partial(self._restart, node))
            return
        self._open -= 1

    def _go_on(self, node: BoxNode) -> None:
        node.go_on()
        self._open -= 1

    def _heal(self, node: BoxNode) -> None:
        self.box.network.heal()
        self._open -= 1

    def _leave(self, node: BoxNode) -> None:
        self._open -= 1

    def _mend_all(self) -> None:
        """Mends what is left: links, disks, and nodes that have ended, as their owners would."""
        box = self.box
        box.network.heal()
        for node in box.nodes:
            self._go_on(node)
            node.disk.is_full = False
        box.run(
            lambda: bool(box.faults) or all(node.is_up or node.is_over for node in box.nodes), within_s=60.0
        )
        for node in box.nodes:
            if node.is_over and not box.faults:
                node.start()

    def _must_meet(self) -> None:
        """All nodes are up: within TOGETHER_S all are in one sum."""
        box = self.box
        before = {node.number: len(node.records) for node in box.nodes}

        def are_together() -> bool:
            for node in box.nodes:
                if node.is_over:
                    node.start()  # it was told to end in the midst, or found its swarm gone
            new = [node.records[before[node.number] :] for node in box.nodes]
            return all(any(one.participants == box.count for one in records) for records in new)

        box.run(lambda: bool(box.faults) or are_together(), TOGETHER_S)


class Goes(Protocol):
    """A run of one seed."""

    def __init__(self, seed: int, folder: Path) -> None: ...

    def go(self) -> Box: ...


def run_seed(seed: int, folder: Path, kind: type[Goes] = Run) -> Box:
    """Runs a seed in a folder, which it removes. Raises AssertionError with the trace."""
    before = _descriptors()
    try:
        box = kind(seed, folder).go()
        left = [*(_descriptors() - before).elements()]
        assert not left, f"{left} are left open\n{box.told()}"
        return box
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find(rule: str, folder: Path, seeds: Iterable[int], kind: type[Goes] = Run) -> None:
    """Runs seeds until one breaks the rule, "" for any. Raises AssertionError if none of them does."""
    for seed in seeds:
        try:
            run_seed(seed, folder / str(seed), kind)
        except AssertionError as found:
            if rule in str(found):
                return
    raise AssertionError("no seed finds it")


def _descriptors() -> Counter[str]:
    """Returns the names of all open files and sockets; those of earlier tests may be closed meanwhile."""
    names = Counter[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            names[str(descriptor.readlink())] += 1
    return names
