"""Schedules of masked sessions for tests.simulation.bare: the members, the wires, and the deaths.

Groups, keys and each member's secrets are the same in all schedules of a size. `remembered` computes what
follows from them by pure functions (above all signatures) only once.
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
from protocol.aggregation.masked.thresholds import MaskedSettings, Scheme
from protocol.aggregation.participant import Participant
from protocol.crypto.node_key import NodeKey
from protocol.vectors.pieces import Floats
from protocol.vectors.ring import NARROW, WIDE, Ring
from protocol.wire import signing
from protocol.wire.masked_messages import TotalPiece
from protocol.wire.messages import Group, Key, Message
from tests import parts

CLIP = 4.0
DIMENSION = 39
"""Gives nearly every member of up to ten a chunk to add up."""
JOINS_S, MASKS_S = 15.0, 15.0
REFUSED_AFTER_S = 0.01
AGAIN_S, AGAIN_TRIES = 0.05, 20
GROUPS = 4
STEPS = 40_000
SLACK_S = 0.5

EVERYBODY_ADDS, REDUCERS = 1 << 16, 0
"""The two layouts, as `all_to_all_bytes`."""


class Violation(AssertionError):
    """A rule was broken; the text names the schedule."""


SAID = dict(zip(Phase, ((False, False), (True, False), (False, True), (True, True)), strict=True))
"""Whether a member has acknowledged, and whether it has released, in each phase."""


@dataclass(frozen=True)
class Crash:
    """Member `member` stops for good instead of sending its `at_send`-th message."""

    member: int
    at_send: int


@dataclass(frozen=True)
class Schedule:
    """One session: its members, its wires and its deaths, which follow from these values alone."""

    seed: int
    members: int
    all_to_all_bytes: int
    dropouts: int | None = None
    delay_s: tuple[float, float] = (0.001, 0.05)
    loss: float = 0.0
    duplication: float = 0.0
    notices: bool = True
    """Whether members connected to one that dies are notified."""
    cuts: float = 0.0
    """The share of sends that are lost with a notice to the sender of a broken link, while both ends live."""
    spares_joins: bool = False
    """Whether messages before the masks are never lost; otherwise few sessions of a lossy network begin."""
    crashes: tuple[Crash, ...] = ()
    groups: int = GROUPS
    ring: Ring = WIDE

    @property
    def scheme(self) -> Scheme:
        settings = MaskedSettings(CLIP, self.dropouts, self.all_to_all_bytes, ring=self.ring)
        return settings.scheme(DIMENSION, self.members)

    @property
    def tolerance(self) -> float:
        """How far a mean may be from that of the offers."""
        return 1 / FixedPoint(CLIP, self.members, self.ring).scale + CLIP * 2**-24


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
    """Messages that came before it received its group; in a node the Session holds them."""
    started: bool = False
    said: list[Any] = field(default_factory=list)
    """For a liar: the messages that it sent, as it should have sent them."""
    forged: dict[int, TotalPiece] = field(default_factory=dict)
    """For a liar: the chunks of the total that it serves."""
    heard: list[Any] = field(default_factory=list)
    """For a liar: the messages that it received."""
    armed: float = math.inf


Lie = Callable[[Member, Key, Any], Iterable[Message]]
"""Maps (the liar, the receiver, the honest message) to the messages that it sends instead."""

MachineKind = Callable[[Participant, Scheme], DoubleMasked]


@dataclass(frozen=True)
class Finished:
    """Informs a machine, as a node's announcement does, that the sender holds this session's base."""

    sender: Key


@dataclass(frozen=True)
class GaveUp:
    """Informs a machine, as a node's announcement does, that the sender ended without a result."""

    sender: Key


@cache
def group(members: int, attempt: int) -> Group:
    return parts.group(parts.members(members), attempt + 3)


@cache
def secret(member: int, attempt: int) -> bytes:
    return bytes([member + 1, attempt]) * 16


@cache
def offer(member: int) -> Floats:
    """Returns a member's offer, (d,) float32."""
    return np.random.default_rng(member).uniform(-1, 1, DIMENSION).astype("<f4")


@contextmanager
def remembered() -> Iterator[None]:
    """Caches pure functions of keys and records for all schedules in the context.

    A valid signature is looked up by record, key and signature; an invalid one is checked each time.
    """
    before = (
        signing.verify,
        signing.sign,
        signing.canonical,
        mask_keys.pair_seed,
        mask_keys.private_key,
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
    mask_keys.pair_seed, mask_keys.private_key = lru_cache(1 << 12)(before[3]), lru_cache(1 << 12)(before[4])
    Participant.channel = channel  # type: ignore[method-assign]
    try:
        yield
    finally:
        signing.verify, signing.sign, signing.canonical, mask_keys.pair_seed, mask_keys.private_key = before[
            :5
        ]
        Participant.channel = before[5]  # type: ignore[method-assign]


def ring_of(seed: int) -> Ring:
    """Every fourth session has short words."""
    return NARROW if seed % 4 == 3 else WIDE


def chaos(seed: int) -> Schedule:
    """Draws a schedule from a seed: up to 20 % loss, slow links, up to n - 1 crashes."""
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
        ring=ring_of(seed),
    )
