"""Schedules of masked sessions for tests.simulation.bare: who is in one, what its wires do, who dies.

Groups, keys and each member's secrets are the same in all schedules of a size, and what follows from them by
pure functions (signatures above all) is worked out once, within `remembered`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np

from protocol.actions import Completed, Evidence, Failed
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.masked.release import Phase
from protocol.aggregation.masked.thresholds import Tolerance, tolerance
from protocol.aggregation.participant import Participant
from protocol.crypto.node_key import NodeKey
from protocol.vectors.pieces import Floats
from protocol.wire import signing
from protocol.wire.masked_messages import TotalPiece
from protocol.wire.messages import Group, Key, Message
from tests import parts

CLIP = 4.0
DIMENSION = 39
"""So that nearly every member of up to ten has a chunk to add up."""
JOINS_S, MASKS_S = 15.0, 15.0
REFUSED_AFTER_S = 0.01
AGAIN_S, AGAIN_TRIES = 0.05, 20
GROUPS = 4
MEAN_TOLERANCE = 1e-6
STEPS = 40_000
SLACK_S = 0.5

EVERYBODY_ADDS, REDUCERS = 1 << 16, 0
"""The two layouts, as `all_to_all_bytes`."""


class Violation(AssertionError):
    """A rule was broken; the text names the schedule."""


SAID = dict(zip(Phase, ((False, False), (True, False), (False, True), (True, True)), strict=True))
"""Whether a member has acknowledged, and whether it has released, by its phase."""


@dataclass(frozen=True)
class Crash:
    """Member `member` stops instead of sending its `at_send`-th message, for good."""

    member: int
    at_send: int


@dataclass(frozen=True)
class Schedule:
    """One session: who is in it, what the wires do, who dies. All of it follows from these values."""

    seed: int
    members: int
    all_to_all_bytes: int
    dropouts: int | None = None
    delay_s: tuple[float, float] = (0.001, 0.05)
    loss: float = 0.0
    duplication: float = 0.0
    notices: bool = True
    """Whether who is connected to a member that dies is told so."""
    cuts: float = 0.0
    """How many sends are lost, with a word to the sender that its link broke, although both ends live."""
    spares_joins: bool = False
    """Whether what comes before the masks is never lost: else few sessions of a lossy network begin."""
    crashes: tuple[Crash, ...] = ()
    groups: int = GROUPS

    @property
    def tolerance(self) -> Tolerance:
        return tolerance(self.members, self.dropouts)

    @property
    def layout(self) -> Layout:
        return Layout(DIMENSION, self.members, self.all_to_all_bytes)


@dataclass
class Member:
    """One machine, and what its shell keeps."""

    number: int
    participant: Participant
    rand: bytes
    machine: DoubleMasked
    layout: Layout
    sends: int = 0
    alive: bool = True
    spent: bool = False
    end: Completed | Failed | None = None
    pieces: dict[int, TotalPiece] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    early: list[Any] = field(default_factory=list)
    """What came before it was told of its group: a Session holds that."""
    started: bool = False
    said: list[Any] = field(default_factory=list)
    """By a liar: what it sent, as it should have sent it."""
    forged: dict[int, TotalPiece] = field(default_factory=dict)
    """By a liar: what it serves as chunks of the total."""
    heard: list[Any] = field(default_factory=list)
    """By a liar: what came."""
    armed: float = math.inf


Lie = Callable[[Member, Key, Any], Iterable[Message]]
"""(the liar, whom it writes to, what it should send there) -> what it sends there."""

MachineKind = Callable[[Participant, Tolerance, FixedPoint, Layout], DoubleMasked]


@dataclass(frozen=True)
class Finished:
    """What a node's announcement tells a machine: the sender holds the base that this session made."""

    sender: Key


@dataclass(frozen=True)
class GaveUp:
    """What a node's announcement tells a machine: the sender ended this session without a result."""

    sender: Key


@cache
def group(members: int, attempt: int) -> Group:
    return parts.group(parts.members(members), attempt)


@cache
def secret(member: int, attempt: int) -> bytes:
    return bytes([member + 1, attempt]) * 16


@cache
def offer(member: int) -> Floats:
    """(d,) float32: what a member offers."""
    return np.random.default_rng(member).uniform(-1, 1, DIMENSION).astype("<f4")


@contextmanager
def remembered() -> Iterator[None]:
    """Pure functions of keys and records are worked out once for all the schedules in here.

    A good signature stays good, and is looked up by record, key and signature; a bad one is tried each time.
    """
    before = (
        signing.verify,
        signing.sign,
        signing.canonical,
        mask_keys.pair_seed,
        mask_keys.public_key,
        Participant.channel,
    )
    participants: dict[Any, Any] = {}

    def channel(participant: Participant, sender: Key, recipient: Key) -> Any:
        place = participant.sid, sender, recipient
        if place not in participants:
            participants[place] = before[5](participant, sender, recipient)
        return participants[place]

    verify, canonical = lru_cache(1 << 15)(before[0]), lru_cache(1 << 15)(before[2])
    signed: dict[Any, Any] = {}

    def sign(record: Any, key: NodeKey) -> Any:
        place = record, key.public
        if place not in signed:
            signed[place] = before[1](record, key)
        return signed[place]

    signing.verify, signing.sign, signing.canonical = verify, sign, canonical
    mask_keys.pair_seed, mask_keys.public_key = lru_cache(1 << 12)(before[3]), lru_cache(1 << 12)(before[4])
    Participant.channel = channel  # type: ignore[method-assign]
    try:
        yield
    finally:
        signing.verify, signing.sign, signing.canonical, mask_keys.pair_seed, mask_keys.public_key = before[
            :5
        ]
        Participant.channel = before[5]  # type: ignore[method-assign]


def chaos(seed: int) -> Schedule:
    """A schedule drawn from a seed: up to 20 % loss, slow links, up to n - 1 crashes."""
    rng = random.Random(seed ^ 0xC4A05)
    members = rng.choice([4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7, 8, 9, 10])
    crashes = rng.choice([0, 1, 1, 1, 2, 2, rng.randint(0, members - 1)])
    positions = rng.choice([4, 12, 30]) * members
    return Schedule(
        seed=seed,
        members=members,
        all_to_all_bytes=rng.choice([EVERYBODY_ADDS, REDUCERS]),
        dropouts=rng.choice([None, 1, 1]),
        delay_s=(0.001, rng.choice([0.02, 0.02, 0.5, 4.0])),
        loss=rng.choice([0.0, 0.0, 0.02, 0.1, 0.2]),
        duplication=rng.choice([0.0, 0.2]),
        notices=rng.random() < 0.6,
        cuts=rng.choice([0.0, 0.0, 0.02]),
        spares_joins=rng.random() < 0.8,
        crashes=tuple(
            Crash(member, rng.randint(1, positions)) for member in rng.sample(range(members), crashes)
        ),
    )
