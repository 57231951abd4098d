"""Parts for the protocol's tests: keys, records, groups and machines, all from fixed seeds.

`members(n)` are in key order, so that index 0 always has the lowest key.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

from protocol.actions import Action, Send
from protocol.aggregation.additive.machine import Additive
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.participant import Participant, SessionTimeouts
from protocol.crypto.node_key import NodeKey
from protocol.crypto.sealing import Ephemeral
from protocol.machine import Machine
from protocol.quorum.electorate import Electorate
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.node_state import (
    Aggregation,
    Contacts,
    NodeState,
    QuorumRules,
    Settings,
    SharedTask,
    Timeouts,
)
from protocol.vectors.pieces import Floats, base_digest
from protocol.wire import signing
from protocol.wire.ids import NO_ELECTORS
from protocol.wire.masked_messages import MaskedMessage, sender_of
from protocol.wire.messages import (
    NO_SID,
    Announce,
    Base,
    CertificateRequest,
    Goodbye,
    Group,
    Hello,
    Key,
    LineagePiece,
    Message,
    PieceRequest,
    Ready,
    Roster,
    Share,
    Sum,
)

NOW = 1_700_000_000.0
COUNTER = 1_000_000
PARAMETERS = '{"model":"m"}'
TASK = "digits"
SEED_SHARES = ShareSettings("seed", 4.0, 100.0)
ANY_THREE = Electorate(least=3)
"""The electors of the first base, if a test names none."""


@cache
def members(count: int) -> tuple[NodeKey, ...]:
    keys = (NodeKey(number.to_bytes(32, "big")) for number in range(1, count + 1))
    return tuple(sorted(keys, key=lambda key: key.public))


def no_line(of: Base) -> LineagePiece:
    """The answer of a member that knows no link of this base's line."""
    return LineagePiece(of.digest, 0, 0, ())


def stranger() -> NodeKey:
    return NodeKey(b"\xee" * 32)


def endpoint(key: NodeKey | Key) -> str:
    public = key.public if isinstance(key, NodeKey) else key
    return f"127.0.0.1:{int.from_bytes(public[:2], 'big') + 1}"


def base(generation: int = 0, mark: int = 0, size: int = 3, anchor: int = 0) -> Base:
    """Makes a base with a made-up digest."""
    return Base(generation, bytes([mark]) * 32, size, NO_SID, anchor)


def base_of(vector: Floats, generation: int, size: int = 3, sid: bytes = NO_SID, anchor: int = 0) -> Base:
    """Makes the base with this vector's real digest."""
    digest = base_digest(signing.parameters_hash(PARAMETERS), generation, vector)
    return Base(generation, digest, size, sid, anchor)


def settings(key: NodeKey, **changes: Any) -> Settings:
    """Makes the settings of a node; `changes` name values of any of their parts."""
    values: dict[str, Any] = {
        "key": key,
        "endpoint": endpoint(key),
        "name": TASK,
        "parameters": PARAMETERS,
        "dimension": 5,
        "shares": SEED_SHARES,
        "masked": None,
        "min_participants": 3,
        "seeds": (),
        "tracker": None,
        "pins": {},
        "allow": None,
        "group_s": 120.0,
        "shares_s": 15.0,
        "sums_s": 15.0,
        "instance": bytes(16),
        "sums": 1000,
        "electorate": None if changes.get("tracker") else ANY_THREE,
    }
    values |= changes

    def part(kind: Callable[..., Any]) -> Any:
        return kind(**{each.name: values.pop(each.name) for each in fields(kind) if each.name in values})

    values["session"] = part(SessionTimeouts)
    kinds = (SharedTask, Contacts, Aggregation, Timeouts, QuorumRules)
    task, contacts, aggregation, timeouts, quorum = map(part, kinds)
    return Settings(
        task=task, contacts=contacts, aggregation=aggregation, timeouts=timeouts, quorum=quorum, **values
    )


def state(
    round: int = 0, held: Base | None = None, previous: Base | None = None, **changes: Any
) -> NodeState:
    return NodeState(round, held or base(), previous, {}, **changes)


def patience(own: Settings, where: NodeState, known: Members | None = None) -> Patience:
    """Makes the patience of a node that has not waited yet."""
    return Patience(own, where, known or Members(where))


def announce(key: NodeKey, **changes: Any) -> Announce:
    """Makes a signed announcement of `key`, COUNTER of its first start."""
    values: dict[str, Any] = {
        "key": key.public,
        "endpoint": endpoint(key),
        "task": TASK,
        "parameters": signing.parameters_hash(PARAMETERS),
        "min_participants": 3,
        "instance": bytes(16),
        "epoch": 1,
        "counter": COUNTER,
        "round": 0,
        "base": base(),
        "leaving": False,
        "following": False,
    }
    return signing.sign(Announce(**{**values, **changes}), key)


def roster_of(key: NodeKey, nonce: bytes, known: Iterable[Announce] = (), clock_ms: int = 0) -> Roster:
    """Makes the answer of the tracker with this key."""
    return signing.sign(Roster(key.public, nonce, tuple(known), clock_ms), key)


def ephemeral(key: NodeKey) -> Ephemeral:
    return Ephemeral(key.public)


def ready(
    key: NodeKey,
    coordinator: Key,
    nonce: int = 0,
    electors: bytes = ANY_THREE.digest,
    weak: bool = True,
    gone: tuple[bytes, ...] = (),
    **changes: Any,
) -> Ready:
    """Makes a signed READY; `changes` go to its announcement."""
    said = announce(key, **changes)
    public, once = ephemeral(key).public, bytes([nonce]) * 16
    return signing.sign(Ready(said, public, once, coordinator, electors, weak, gone), key)


def group_of(readys: Iterable[Ready], coordinator: NodeKey, attempt: int = 0, **grounds: Any) -> Group:
    """Makes a group; `grounds`: whom it excuses, and whom a tracker named."""
    in_order = tuple(sorted(readys, key=lambda ready: ready.key))
    return signing.sign(Group(in_order, attempt, coordinator.public, **grounds), coordinator)


def group(keys: Sequence[NodeKey], attempt: int = 0) -> Group:
    """Makes a group of these members, closed by the first one; its READYs name no electors."""
    readys = (ready(key, keys[0].public, electors=NO_ELECTORS, weak=False) for key in keys)
    return group_of(readys, keys[0], attempt)


def machines(
    count: int, dimension: int = 5, shares: ShareSettings = SEED_SHARES, attempt: int = 0
) -> list[Additive]:
    """Makes a machine for each member, not started."""
    keys = members(count)
    common, timeouts = group(keys, attempt), SessionTimeouts(15.0, 10.0)
    return [
        Additive(Participant(common, 1, key, ephemeral(key), dimension, timeouts), shares.for_group(count))
        for key in keys
    ]


def vector(number: int, dimension: int = 5) -> Floats:
    """Makes (d,) float32 within +-1, a different one for each number."""
    return np.random.default_rng(number).uniform(-1, 1, dimension).astype("<f4")


def rand(number: int) -> bytes:
    return bytes([number + 1]) * 32


def heard(machine: Machine, message: Message, now: float) -> list[Action]:
    """Hands a message to a machine on a link of its sender; returns the actions."""
    return machine.receive(message, speaker(message), now)


def speaker(message: Message) -> Key | None:
    """Returns the owner of the link that brings this message in an honest run; None if it names nobody."""
    match message:
        case Hello() | Ready():
            return message.announce.key
        case Roster() | Goodbye():
            return message.key
        case Group():
            return message.coordinator
        case Share() | Sum() | CertificateRequest() | PieceRequest():
            return message.sender
        case _:
            return sender_of(message) if isinstance(message, MaskedMessage) else None


def outbox(actions: Iterable[Action], to: Key | str) -> list[Any]:
    """Returns what these actions send to one receiver."""
    return [message for a in actions if isinstance(a, Send) and a.to == to for message in a.messages]


def kinds(actions: Iterable[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def only(actions: Iterable[Action], kind: type) -> Any:
    """Returns the one action of this kind."""
    (found,) = (action for action in actions if isinstance(action, kind))
    return found


def started(group: Sequence[Additive], vectors: Sequence[Floats]) -> list[dict[Key, list[Share]]]:
    """Starts every machine; returns for each its shares by recipient."""
    starts = [
        machine.start(values, rand(number), NOW)
        for number, (machine, values) in enumerate(zip(group, vectors, strict=True))
    ]
    keys = group[0].members
    return [{key: outbox(actions, key) for key in keys} for actions in starts]


def shared(group: Sequence[Additive], vectors: Sequence[Floats]) -> list[list[Action]]:
    """Starts every machine and delivers all shares; returns for each the actions with its sum."""
    shares = started(group, vectors)
    results: list[list[Action]] = []
    for key, machine in zip(group[0].members, group, strict=True):
        arrived = [share for sent in shares for share in sent[key]]
        results.append([action for share in arrived for action in machine.receive(share, NOW + 1)])
    return results


def sums_to(results: Sequence[Sequence[Action]], key: Key) -> list[list[Sum]]:
    """Returns the sums that each member sends to `key`."""
    return [outbox(actions, key) for actions in results]


def completed(group: Sequence[Additive], vectors: Sequence[Floats]) -> list[list[Action]]:
    """Runs a whole session without faults; returns for each machine the actions of its last step."""
    results = shared(group, vectors)
    last: list[list[Action]] = []
    for key, machine in zip(group[0].members, group, strict=True):
        actions: list[Action] = []
        for message in (m for sent in sums_to(results, key) for m in sent):
            actions = machine.receive(message, NOW + 2)
        last.append(actions)
    return last


def mean_of(actions: Iterable[Action]) -> Floats:
    (mean,) = (action.result for action in actions if hasattr(action, "result"))
    return mean


def resigned(record: Any, key: NodeKey, **changes: Any) -> Any:
    """Returns the record with other fields and a valid signature."""
    return signing.sign(replace(record, **changes), key)
