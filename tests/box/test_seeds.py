"""Seeds of mixed faults: no rule of tests/box/invariants.py may break, and planted faults must be found."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from node.net.outgoing.link import Link
from node.runtime.engine import Engine
from node.storage.database import Database
from node.storage.state import State
from protocol.actions import Spend
from protocol.wire.messages import Announce
from tests.box.seeds import find, run_seed

SEEDS = 50
"""The next ones run without pytest, in less time: see .ci/run."""
MOST_SEEDS = 60
"""Within so many a planted fault is found."""
FAILED_ONCE = (75, 464, 919, 1012, 1094, 1780, 1810, 2299, 7438, 9203)
"""Seeds that failed. 75: on a full disk a sum left, though its charge and vote could not be written.
2299: a member that seemed to be away was in the next session all the same, and was not told of the charge.
7438 and 9203: a link between two that was cut for a minute parted them for more than five.
The others broke the words of rules: two trainings of a dead model gave the same bits; a vote was freed
before it left; what a dead node's tasks had not told counted as an error of the box."""


@pytest.mark.parametrize("seed", sorted({*range(SEEDS), *FAILED_ONCE}))
def test_a_swarm_survives_mixed_faults(seed: int, memory) -> None:
    run_seed(seed, memory / "box")


def test_a_seed_gives_one_trace_and_another_seed_another(memory) -> None:
    one, again, other = (run_seed(seed, memory / str(life)).trace for life, seed in enumerate((7, 7, 8)))
    assert one == again
    assert one != other


def test_what_was_not_synced_is_lost_with_power_and_kept_by_a_kill(make_box) -> None:
    box = make_box(3, 1)
    node = box.nodes[0]
    unsynced = node.folder / "unsynced"
    unsynced.write_text("here")
    assert unsynced in node.disk.written()
    assert {unsynced in node.disk.on_disk(box.rng) for _ in range(20)} == {True, False}
    assert (node.folder / "node.key") in node.disk.on_disk(box.rng)


# -- planted faults ------------------------------------------------------------------------------------


def vote_not_synced(monkeypatch) -> None:
    """A vote is written as if a power failure might take it."""
    bind = State.bind

    def binding(self, *arguments, **more) -> None:
        step = self._database.step
        self._database.step = partial(step, durable=False)
        bind(self, *arguments, **more)
        self._database.step = step

    monkeypatch.setattr(State, "bind", binding)


def charge_after_the_send(monkeypatch) -> None:
    """An offer is charged once the rest of its event, with the first messages, was carried out."""
    perform = Engine._perform

    async def performing(self, action):
        if isinstance(action, Spend) and not hasattr(self, "_later"):
            self._later = action
            return []
        done = await perform(self, action)
        if hasattr(self, "_later"):
            later = self.__dict__.pop("_later")
            self._store(later)
        return done

    monkeypatch.setattr(Engine, "_perform", performing)


def stale_epoch(monkeypatch) -> None:
    """Announcements of an earlier start count as later than those of the next."""
    monkeypatch.setattr(Announce, "order", property(lambda self: (-self.epoch, self.counter)))


def link_that_dies_silently(monkeypatch) -> None:
    """A link's task ends with an error, and nobody learns of it."""

    async def running(self) -> None:
        with suppress(Exception):
            await self._work()

    monkeypatch.setattr(Link, "_run", running)


def same_vector_again(monkeypatch) -> None:
    """An offer stays fresh after it was spent, so that the next session gets the same vector."""
    set_facts, spend = Database.set_facts, State.spend

    def setting(self, **facts) -> None:
        set_facts(self, **{name: value for name, value in facts.items() if (name, value) != ("fresh", None)})

    def spending(self, *arguments) -> None:
        fresh = self.fresh
        spend(self, *arguments)
        self.fresh = fresh

    monkeypatch.setattr(Database, "set_facts", setting)
    monkeypatch.setattr(State, "spend", spending)


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (vote_not_synced, "sent a vote"),
        (charge_after_the_send, "does not charge"),
        (stale_epoch, ""),
        (link_that_dies_silently, ""),
        (same_vector_again, "offered a vector twice"),
    ],
)
def test_a_planted_fault_is_found(plant: Callable[..., None], rule: str, monkeypatch, memory) -> None:
    plant(monkeypatch)
    try:
        find(rule, memory, range(MOST_SEEDS))
    finally:
        with warnings.catch_warnings():  # what the fault has left open is its own
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
