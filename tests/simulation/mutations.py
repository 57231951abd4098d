"""Nearly correct messages of masked sessions, and a machine to receive them.

A mutation changes one field somewhere in a real message. Then, as a skilled liar would, it may recompute the
digests and sign again every record whose sender is allowed to lie. All messages go through the codec: a
machine never receives what the codec refuses.
"""

import random
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from protocol.actions import Completed, Failed
from protocol.aggregation.masked.disputes import inputs_digest
from protocol.aggregation.masked.key_setup import joins_digest
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.masked.release import release_digest
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.aggregation.masked.view_change import votes_digest
from protocol.crypto.bulk_digest import bulk_digest
from protocol.errors import RemoteProtocolError
from protocol.wire import codec, signing
from protocol.wire.masked_messages import (
    Ack,
    Join,
    Joined,
    Masked,
    MaskedMessage,
    Propose,
    Release,
    ResultCertificate,
    Total,
    TotalPiece,
    ViewChange,
)
from tests import parts
from tests.simulation.bare import Swarm
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Crash, Schedule, offer, secret

MEMBERS = 5
LAYOUTS = (EVERYBODY_ADDS, REDUCERS)
OTHERS = {key.public: key for key in parts.members(MEMBERS)[1:]}
"""Member 0 receives the messages; all others may lie."""


@cache
def real_messages(layout: int) -> tuple[Any, ...]:
    """Returns all messages to member 0 in calm sessions, and in some with losses, of the same group."""
    schedules = [Schedule(seed, MEMBERS, layout, groups=1) for seed in range(2)]
    schedules += [
        Schedule(
            seed, MEMBERS, layout, notices=seed % 2 == 0, crashes=(Crash(1 + seed % 4, 9 + seed),), groups=1
        )
        for seed in range(2, 26)
    ]
    victim = parts.members(MEMBERS)[0].public
    found = {
        codec.encode(message).join(): transmitted(message)
        for schedule in schedules
        for _, to, message in Swarm(schedule).run().transcript
        if to == victim and isinstance(message, MaskedMessage | ResultCertificate | TotalPiece)
    }
    return tuple(found.values())


def machine(layout: int) -> DoubleMasked:
    """Starts member 0's machine."""
    schedule = Schedule(0, MEMBERS, layout)
    fresh = Swarm(replace(schedule, groups=1)).members[0].machine
    fresh.start(offer(0), secret(0, 0), parts.NOW)
    return fresh


# -- mutations ----------------------------------------------------------------------------------------------


def mutated(message: Any, rng: random.Random) -> Any:
    """Returns the message with one changed field somewhere."""
    changed = _changed(message, rng)
    if rng.random() < 0.7:
        changed = _fitting(changed)
    return _signed(changed) if rng.random() < 0.8 else changed


def _changed(value: Any, rng: random.Random) -> Any:
    if is_dataclass(value):
        name = rng.choice([field.name for field in fields(value)])
        return replace(value, **{name: _changed(getattr(value, name), rng)})  # type: ignore[type-var]
    if isinstance(value, tuple):
        return _other_tuple(value, rng)
    if isinstance(value, int):
        return rng.choice([0, 1, 2, 3, 63, value ^ 1, value + 1, value ^ 1 << rng.randrange(64), 31, 15])
    return _other_bytes(bytes(value), rng)


def _other_tuple(value: tuple[Any, ...], rng: random.Random) -> tuple[Any, ...]:
    place = rng.randrange(len(value) + 1)
    match rng.randrange(5):
        case 0:
            return value[:place] + value[place + 1 :]
        case 1:
            return value[:place] + value[place - 1 : place] + value[place:]
        case 2:
            return value[::-1]
        case 3:
            return ()
        case _ if value:
            place %= len(value)
            return (*value[:place], _changed(value[place], rng), *value[place + 1 :])
    return value


def _other_bytes(value: bytes, rng: random.Random) -> bytes:
    match rng.randrange(5):
        case 0:
            return bytes(len(value))
        case 1:
            return rng.choice(sorted(OTHERS)) if len(value) == 32 else value[:-1]
        case 2:
            return b"\xff" * len(value)
        case 3 if value:
            place = rng.randrange(len(value))
            return value[:place] + bytes([value[place] ^ 1 << rng.randrange(8)]) + value[place + 1 :]
    return rng.randbytes(len(value))


def _fitting(message: Any) -> Any:
    """Returns the message with digests that fit its changed content."""
    match message:
        case Masked(head=head):
            return replace(message, head=replace(head, digest=bulk_digest(message.payload)))
        case Total(head=head):
            digest = bulk_digest(message.payload)
            inputs = inputs_digest(message.inputs)
            return replace(message, head=replace(head, digest=digest, inputs=inputs))
        case Joined(vote=vote):
            return replace(message, vote=replace(vote, joins=joins_digest(message.heads)))
        case Ack(vote=vote):
            totals = totals_digest(vote.sid, vote.included % 2**64, message.digests)
            return replace(message, vote=replace(vote, totals=totals))
        case Release(head=head):
            return replace(message, head=replace(head, shares=release_digest(message.shares)))
        case Propose(head=head):
            return replace(message, head=replace(head, votes=votes_digest(message.votes)))
        case ViewChange(vote=vote, proofs=proofs) if vote.locks and proofs:
            lock = vote.locks[0]
            totals = totals_digest(lock.sid, lock.included % 2**64, proofs[0].digests)
            return replace(message, vote=replace(vote, locks=(replace(lock, totals=totals),)))
    return message


def _signed(value: Any) -> Any:
    """Signs every record in it, the innermost first, with its sender's key if that member may lie."""
    if isinstance(value, tuple):
        return tuple(_signed(item) for item in value)
    if not is_dataclass(value):
        return value
    whole = replace(value, **{f.name: _signed(getattr(value, f.name)) for f in fields(value)})  # type: ignore[type-var]
    key = OTHERS.get(getattr(whole, "sender", b"")) if hasattr(whole, "signature") else None
    return whole if key is None else _sign_if_it_can_be_packed(whole, key)


def _sign_if_it_can_be_packed(record: Any, key: Any) -> Any:
    try:
        return signing.sign(record, key)
    except OverflowError:
        return record


def transmitted(message: Any) -> Any:
    """Sends a message through the codec; returns None if the codec refuses it."""
    try:
        return codec.decode(codec.encode(message).join())
    except (RemoteProtocolError, OverflowError):
        return None


# -- a session of them --------------------------------------------------------------------------------------


def feed(layout: int, count: int, rng: random.Random) -> DoubleMasked:
    """Feeds a machine real and mutated messages, ticks and losses, mostly in the order of a session.

    The machine accepts or refuses messages with a RemoteProtocolError; a tick never fails. `wild` runs end
    soon; the others get further.
    """
    under_test, now, messages = machine(layout), parts.NOW, real_messages(layout)
    wild, place = rng.choice([0.02, 0.1, 0.5]), -1
    if rng.random() < 0.7:
        begin(under_test, messages)
    for _ in range(count):
        if under_test.deadline is None:
            break
        now += rng.choice([0.0, 0.0, 0.0, 0.01, 0.2])
        place = rng.randrange(len(messages)) if rng.random() < wild else (place + 1) % len(messages)
        _hand_on(under_test, messages[place], now)
        if rng.random() < wild:
            _hand_on(under_test, transmitted(mutated(messages[place], rng)), now)
        if rng.random() < wild / 10:
            key = rng.choice(sorted(OTHERS))
            event = rng.choice([under_test.unreachable, under_test.gave_up, under_test.finished])
            _drain(under_test, event(key, now))
        _drain(under_test, under_test.tick(now))
    return under_test


def begin(under_test: DoubleMasked, messages: tuple[Any, ...]) -> None:
    """Processes the joins, so that mutations reach the masks."""
    for message in messages:
        if isinstance(message, Join | Joined):
            _hand_on(under_test, message, parts.NOW)


def at_masks(layout: int = REDUCERS) -> DoubleMasked:
    """Returns a machine after its joins."""
    here = machine(layout)
    begin(here, real_messages(layout))
    return here


def _hand_on(under_test: DoubleMasked, message: Any, now: float) -> None:
    if message is None:
        return
    try:
        actions = under_test.receive(message, now)
    except RemoteProtocolError:
        return
    _drain(under_test, actions)


def _drain(under_test: DoubleMasked, actions: list[Any]) -> None:
    """Carries out actions as a shell does: builds what is sent; an ended machine has no deadline."""
    for action in actions:
        for message in getattr(action, "messages", ()):
            codec.encode(message)
    if any(isinstance(action, Completed | Failed) for action in actions):
        assert under_test.deadline is None
