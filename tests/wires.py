"""Sessions joined by wires without delay: whatever is sent arrives, in order, until all is quiet."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from protocol.actions import (
    Action,
    Adopted,
    Completed,
    Evidence,
    Failed,
    Fatal,
    Healed,
    Keep,
    KeepCharged,
    LedgerBehind,
    Notice,
    RaiseEpoch,
    Reply,
    Send,
    Serve,
    Spend,
    Strike,
    Unbind,
    Vote,
    Vouched,
    Waiting,
)
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_names
from protocol.quorum.lineage import FIRST
from protocol.swarm.node import Node
from protocol.wire import codec
from protocol.wire.ids import LINEAGE
from protocol.wire.messages import Base, BasePiece, CertificateRequest, Hello, LineagePiece, Link, Message
from tests.parts import NOW, PARAMETERS, announce, base_of, endpoint, rand, settings, speaker, state

ZERO = np.zeros(5, dtype="<f4")
INITIAL = base_of(ZERO, 0, size=0)


def node(key: NodeKey, number: int = 0, following: bool = False, **changes: Any) -> Node:
    """A node, not opened, on the initial base."""
    where = state(held=INITIAL, following=following)
    return Node(settings(key, **changes), where, {}, rand(100 + number))


def hello(key: NodeKey, **changes: Any) -> Hello:
    """What a node says that is on the initial base, and asks for no answer."""
    return Hello(announce(key, **{"base": INITIAL, **changes}), bytes(16), False, PARAMETERS)


class Wires:
    """The nodes by their endpoints. What they do goes through the codec; ends are noted."""

    where: Callable[[NodeKey], str] = staticmethod(endpoint)
    """The endpoint of a key's node."""

    def __init__(self, keys: Iterable[NodeKey], **changes: Any) -> None:
        self.keys = tuple(keys)
        seeds = tuple(self.where(key) for key in self.keys)
        own = {"seeds": seeds, "electorate": of_names(seeds), **changes}
        self.nodes = {
            self.where(k): node(k, n, endpoint=self.where(k), **own) for n, k in enumerate(self.keys)
        }
        self.now = NOW
        self.done: list[tuple[str, Action]] = []
        self.told: list[tuple[str, Action]] = []
        self.errors: list[RemoteProtocolError] = []
        self.dropped: Callable[[str, str, Message], bool] = lambda _from, _to, _message: False
        self.store = True
        self.kept: dict[str, dict[Any, Any]] = {where: {} for where in self.nodes}
        self._queue: deque[tuple[str, str, bytes]] = deque()

    def __getitem__(self, key: NodeKey) -> Node:
        return self.nodes[self.where(key)]

    def open(self) -> "Wires":
        for where, node in self.nodes.items():
            self.carry_out(where, node.open(self.now))
        return self.quiet()

    def offer(self, *keys: NodeKey) -> "Wires":
        """A vector of ones from each of these (all, if none is named)."""
        for number, key in enumerate(keys or self.keys):
            node = self[key]
            ones = np.ones(node._settings.aggregation.summed(node.base.generation), dtype="<f4")
            actions = node.offer(ones, rand(number), self.now)
            self.carry_out(self.where(key), actions)
        return self.quiet()

    def follow(self, *keys: NodeKey) -> "Wires":
        """A round without an offer from each of these."""
        for key in keys:
            self.carry_out(self.where(key), self[key].follow(self.now))
        return self.quiet()

    def tick(self, seconds: float, *keys: NodeKey) -> "Wires":
        self.now += seconds
        for key in keys or self.keys:
            self.carry_out(self.where(key), self[key].tick(self.now))
        return self.quiet()

    def carry_out(self, where: str, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Send():
                    for message in action.messages:
                        if not self.dropped(where, str(action.to), message):
                            self._queue.append((where, str(action.to), codec.encode(message).join()))
                case Keep():
                    self.kept[where].update(
                        {(part.sid, part.owner, part.index): part for part in action.parts}
                    )
                case Serve():
                    self.serve(where, action)
                case Completed() | Healed() | Adopted() if self.store:
                    self.done.append((where, action))
                    new = based_on(action)
                    vector = action.vector if isinstance(action, Adopted) else action.result
                    self.kept[where][new.digest, b"", 0] = BasePiece(new.digest, 0, vector.tobytes())
                    self._keep_line(where, new, (action.line or FIRST).whole)
                    if not isinstance(action, Adopted):
                        self.kept[where][action.sid] = action.certificate
                    self.carry_out(where, self.nodes[where].adopted(new, self.now))
                case Completed() | Healed() | Adopted() | Failed() | Fatal() | Evidence():
                    self.done.append((where, action))
                case (
                    Notice()
                    | Waiting()
                    | Strike()
                    | RaiseEpoch()
                    | Spend()
                    | Vote()
                    | Unbind()
                    | KeepCharged()
                    | Vouched()
                    | LedgerBehind()
                ):
                    self.told.append((where, action))
                case _:
                    pass

    def _keep_line(self, where: str, base: Base, links: tuple[Link, ...]) -> None:
        for index in range(max(len(links), 1)):
            found = LineagePiece(base.digest, index, len(links), links[index : index + 1])
            self.kept[where][base.digest, LINEAGE, index] = found

    def serve(self, where: str, action: Serve) -> None:
        """Send what this node kept (certificates, partial sums, bases and their lines)."""
        request = action.request
        wanted = (
            request.sid
            if isinstance(request, CertificateRequest)
            else (request.sid, request.of, request.index)
        )
        if wanted in self.kept[where]:
            self.carry_out(where, [Send(action.to, (self.kept[where][wanted],))])

    def quiet(self) -> "Wires":
        """Deliver everything."""
        while self._queue:
            sender, to, frame = self._queue.popleft()
            if to in self.nodes:
                self.hand(to, codec.decode(frame), sender)
        return self

    def hand(self, to: str, message: Message, sender: str | None = None) -> None:
        """One message, to one node, on the link of who sends it."""
        by = next((key.public for key in self.keys if self.where(key) == sender), speaker(message))
        try:
            actions = self.nodes[to].receive(message, by, self.now)
        except RemoteProtocolError as error:
            self.errors.append(error)
        else:
            back = [Send(sender, a.messages) if sender and isinstance(a, Reply) else a for a in actions]
            self.carry_out(to, back)

    def ends(self, kind: type) -> list[tuple[str, Any]]:
        return [(where, action) for where, action in self.done if isinstance(action, kind)]


def based_on(action: Any) -> Base:
    """The base that a mean leads to (from zeros), or the adopted one."""
    if isinstance(action, Adopted):
        return action.base
    generation = action.group.base.generation + 1
    return base_of(
        action.result.view("<f4"), generation, len(action.contributors), action.sid, action.line.anchor
    )
