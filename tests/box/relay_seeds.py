"""A run from one seed of a swarm whose members reach each other by relays, through random outages.

    start ──▶ two sums of all ──▶ outages, each at a moment of its own ──▶ all is mended ──▶ a sum of all

An outage lasts from 3 seconds to two minutes: a relay is killed and starts again, some members lose their
way to the relays, or to one, or a member stands still. `python -m tests.box --relays 4711` makes a run again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from protocol.wire.masked_messages import Ack, Join, Masked, Release
from protocol.wire.messages import Group, Message, Ready, Share, Sum
from tests.box.box import Box, BoxNode, BoxTracker
from tests.box.invariants import all_rules
from tests.box.seeds import end_all

TRAINS_S = (1.0, 4.0, 15.0)
LASTS_S = (3.0, 12.0, 40.0, 120.0)
TOGETHER_S = 60.0
"""All are in one sum within this time after the last outage, if nobody is left out: who was away in the
middle of a second sum is left out for some time (protocol.swarm.meeting.suspicion)."""
LEFT_OUT_S = 600.0
"""Nobody is left out for longer after so few outages."""
LIARS_FROM = 7
"""Of so many electors one may lie: its word that it left a sum frees nobody's vote (docs/quorum.md)."""
KINDS: tuple[type[Message], ...] = (Ready, Group, Share, Sum, Join, Masked, Ack, Release)


class RelayRun:
    """One run."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = random.Random(f"{seed} relays")
        count = rng.choice((3, 4, 5, 7))
        self.box = box = Box(seed, folder, count, 1000)
        box.network.slowest_s = rng.choice((0.02, 0.25))
        box.watchers = all_rules()
        box.with_relays(rng.choice((1, 1, 2)))
        trains_s = rng.choice(TRAINS_S)
        pace = random.Random(f"{seed} training")
        box.loop.lasts_s = lambda name: pace.uniform(0.9, 1.1) * trains_s if name == "_train" else 0.0
        self._open = 0
        """How many outages are not over yet."""

    def go(self) -> Box:
        """Runs it to its end; AssertionError, with the trace, if anything is as it must not be."""
        box = self.box
        with box:
            box.start_all()
            box.run(lambda: bool(box.faults) or self._all_in(2), within_s=120.0)
            for _ in range(self.rng.choice((1, 1, 2, 3))):
                self._draw(self.rng.choice(box.nodes))
            box.run(lambda: bool(box.faults) or not self._open, within_s=1500.0)
            self._must_meet()
            end_all(box)
        assert not box.faults, box.told()
        return box

    # -- outages -----------------------------------------------------------------------------------

    def _draw(self, node: BoxNode) -> None:
        """Draws an outage, its moment and its end."""
        rng, box = self.rng, self.box
        relay = rng.choice(box.relays)
        begin, end = rng.choice(
            (
                (relay.kill, partial(self._restart, relay)),
                self._cut(rng.sample(box.nodes, 1)),
                self._cut(rng.sample(box.nodes, rng.randint(1, box.count - 1))),
                (node.pause, node.go_on),
            )
        )
        lasts_s = rng.choice(LASTS_S) * rng.uniform(0.8, 1.2)
        self._open += 1
        acted: list[bool] = []

        def over() -> None:
            box.note(node.number, "outage", "over")
            end()
            self._open -= 1

        def act() -> None:
            if not acted:
                acted.append(True)
                box.note(node.number, "outage", f"{begin.__name__} for {lasts_s:.3f} s")
                box.at(lasts_s, over)
                begin()

        if rng.random() < 0.7:
            node.before_message(act, "any", rng.choice(KINDS), rng.randint(1, 4))
        box.at(rng.uniform(0.0, 20.0), act)

    def _restart(self, relay: BoxTracker) -> None:
        if relay.is_over:
            relay.start()

    def _cut(self, nodes: list[BoxNode]) -> tuple[Callable[[], None], Callable[[], None]]:
        """Cuts the ways of these to all relays, or to one."""
        network, relays = self.box.network, self.box.relays
        relays = relays if self.rng.random() < 0.8 else [self.rng.choice(relays)]
        ways = [(node.number, relay.number) for node in nodes for relay in relays]

        def cut() -> None:
            for way in ways:
                network.cut(*way)

        return cut, lambda: network.mend(map(frozenset, ways))

    # -- what must be ------------------------------------------------------------------------------

    def _all_in(self, sums: int) -> bool:
        count = self.box.count
        return all(node.has_aggregated(sums, participants=count) for node in self.box.nodes)

    def _must_meet(self) -> None:
        """All is mended: all are in one sum soon, unless votes are bound, as they may be if one may lie."""
        box = self.box
        before = [len(node.records) for node in box.nodes]

        def is_in(node: BoxNode, old: int) -> bool:
            return any(one.participants == box.count for one in node.records[old:])

        def have_met() -> bool:
            return bool(box.faults) or all(map(is_in, box.nodes, before))

        box.note(0, "outage", "all over")
        calm_s = over_s = box.loop.time()

        def is_time() -> bool:
            nonlocal calm_s
            if any(map(_leaves_out, box.nodes)):
                calm_s = box.loop.time()
            return box.loop.time() >= min(calm_s, over_s + LEFT_OUT_S) + TOGETHER_S

        box.run(lambda: have_met() or is_time(), LEFT_OUT_S + 2 * TOGETHER_S)
        may_be_bound = box.count >= LIARS_FROM
        assert have_met() or (may_be_bound and all(map(_sees_votes_bound, box.nodes))), box.told()


def _sees_votes_bound(node: BoxNode) -> bool:
    """Whether all that this node lacks for a quorum are electors whose votes are bound."""
    found = None if node.engine is None else node.engine.inspector.node.picture().obstacle
    return found is not None and bool(found.absent) and all(one.is_bound for one in found.absent)


def _leaves_out(node: BoxNode) -> bool:
    return node.engine is not None and bool(node.engine.inspector.node.picture().left_out)
