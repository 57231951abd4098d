"""Federated averaging with a server in the middle: the server's machine; a client node's is in `client`.

Invariants, in addition to the transition tables (protocol.federation.phases):
- A secret of 32 bytes names a run. All its processes hold it, and nobody sends it: every record bears an HMAC
  under it. A sender without the secret changes nothing, and the server allocates nothing for it.
- A node is present from its Enlist until it is unreachable, silent, or restarted as another instance. It
  repeats Enlist, so a node that the server gave up too early is back for the next round.
- Done is the last message on both sides: after it, a node that ends is not lost, and neither is its server.
- A round waits only for clients of nodes that are present; the others' uploads are missing.
- A vector has one size, known before the first frame; each of its pieces counts once, and all are finite.

The server sees every upload: this is the setting of the mechanisms in mechanisms.servers.server, and not
secure aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from protocol.actions import Action, Assembled, Closed, Fatal, Gathered, Note, Notice, Send
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.federation import tags
from protocol.federation.phases import SERVER, ServerEvent, ServerPhase
from protocol.federation.piecewise import Filling, Orders, frozen
from protocol.transitions import Course
from protocol.vectors.pieces import Floats
from protocol.wire.messages import Done, Enlist, Enlisted, Key, Message, Order, UploadPiece

ASSEMBLE_S = 120.0
"""The time that the server waits for its nodes, and a node for its server, when a run begins."""
SILENCE_S = 300.0
"""The longest time that a node at work may send nothing: the training of one client takes less."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A node that is present."""

    instance: bytes
    endpoint: str


@dataclass
class _Round:
    """The missing uploads of a round by node and client, those received, and when each node was heard."""

    number: int
    chosen: tuple[int, ...]
    open: dict[int, dict[int, Filling]]
    heard: dict[int, float]
    uploads: dict[int, Floats] = field(default_factory=dict)


class FederationServer:
    """The server's side. Client i is trained on node i mod `nodes`; `dimension` is d."""

    def __init__(self, run: bytes, dimension: int, nodes: int) -> None:
        self._run = run
        self._dimension = dimension
        self._nodes = nodes
        self._here: dict[int, _Member] = {}
        self._assembled_by: float | None = None
        self._round: _Round | None = None
        self._course = Course(SERVER, ServerPhase.ASSEMBLING)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of the nodes that are present."""
        return tuple(sorted(self._here))

    @property
    def deadline(self) -> float | None:
        """When tick is due: when the wait for nodes ends, or the longest silent node counts as gone."""
        if self._round is None:
            return self._assembled_by
        return min(self._round.heard[node] for node in self._round.open) + SILENCE_S

    # -- events ------------------------------------------------------------------------------------

    def open(self, now: float) -> list[Action]:
        """Start to wait for the nodes."""
        self._assembled_by = now + ASSEMBLE_S
        return []

    def begin(self, number: int, model: Floats, chosen: Sequence[int], now: float) -> list[Action]:
        """Send `model` (d,) to the nodes of the `chosen` clients and wait for their uploads.

        Raises LocalProtocolError inside another round, before nodes are assembled, or for another shape.
        """
        if not self._course.allows(ServerEvent.BEGIN) or model.shape != (self._dimension,):
            raise LocalProtocolError(f"round {number} begun inside another, too early, or with {model.shape}")
        if not self._here:
            return [Fatal("every client node is gone")]
        self._course.step(ServerEvent.BEGIN)
        work = {node: [client for client in chosen if client % self._nodes == node] for node in self._here}
        at_work = {node: clients for node, clients in work.items() if clients}
        fillings = {
            node: {client: Filling(self._dimension) for client in clients}
            for node, clients in at_work.items()
        }
        self._round = _Round(number, tuple(chosen), fillings, dict.fromkeys(fillings, now))
        if not fillings:
            return self._gathered(self._round)
        vector = frozen(model)
        return [self._orders(self._here[node], number, clients, vector) for node, clients in at_work.items()]

    def close(self, now: float) -> list[Action]:
        """Send Done to all nodes, and stop waiting for uploads."""
        self._course.step(ServerEvent.CLOSE)
        done = [self._done(member) for member in self._here.values()]
        self._here, self._round = {}, None
        return [*done, Closed()]

    def _done(self, member: _Member) -> Action:
        return Send(member.endpoint, (tags.tag(Done(member.instance), self._run),))

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """Process an Enlist or a piece of an upload; RemoteProtocolError for anything else."""
        match message:
            case Enlist():
                tags.check_tag(message, self._run)
                return self._enlist(message, now)
            case UploadPiece():
                tags.check_tag(message, self._run)
                return self._take(message, now)
            case _:
                raise RemoteProtocolError(f"{type(message).__name__} to the server of a federation")

    def unreachable(self, endpoint: str, why: str, now: float) -> list[Action]:
        """The nodes at this endpoint are gone."""
        gone = [node for node, member in self._here.items() if member.endpoint == endpoint]
        return [action for node in gone for action in self._leave(node, why)]

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """Nothing to do: a node that restarted enlists as another instance."""
        return []

    def tick(self, now: float) -> list[Action]:
        """End the waits that are over, for nodes or for uploads."""
        if self._assembled_by is not None and now >= self._assembled_by:
            return self._assembled(ServerEvent.TIME)
        heard = {} if self._round is None else {node: self._round.heard[node] for node in self._round.open}
        silent = [node for node, since in heard.items() if now >= since + SILENCE_S]
        return [a for node in silent for a in self._leave(node, f"sent nothing for {SILENCE_S:g} s")]

    # -- nodes -------------------------------------------------------------------------------------

    def _enlist(self, enlist: Enlist, now: float) -> list[Action]:
        node, member = enlist.node, _Member(enlist.instance, enlist.endpoint)
        if node >= self._nodes:
            raise RemoteProtocolError(f"node {node} of {self._nodes}")
        if self._course.phase is ServerPhase.CLOSED:
            return [self._done(member)]
        answer = Send(member.endpoint, (tags.tag(Enlisted(member.instance), self._run),))
        before = self._here.get(node)
        if before == member:
            return [answer]
        left = [] if before is None else self._leave(node, "started anew")
        self._here[node] = member
        actions = [*left, answer, Notice(Note.JOINED, _name(node), f"at {member.endpoint}")]
        if self._course.phase is ServerPhase.ASSEMBLING and len(self._here) == self._nodes:
            return [*actions, *self._assembled(ServerEvent.ALL_HERE)]
        return actions

    def _leave(self, node: int, why: str) -> list[Action]:
        """A node is gone, and its outstanding uploads are missing."""
        del self._here[node]
        told = Notice(Note.LOST, _name(node), why)
        if self._round is None or node not in self._round.open:
            return [told]
        del self._round.open[node]
        return [told, *([] if self._round.open else self._gathered(self._round))]

    def _assembled(self, why: ServerEvent) -> list[Action]:
        self._course.step(why)
        self._assembled_by = None
        if not self._here:
            return [Fatal(f"none of {self._nodes} client nodes came within {ASSEMBLE_S:g} s")]
        if why is ServerEvent.ALL_HERE:
            return [Assembled()]
        late = ", ".join(str(node) for node in range(self._nodes) if node not in self._here)
        return [Notice(Note.LOST, f"node {late}", f"not here after {ASSEMBLE_S:g} s"), Assembled()]

    # -- rounds ------------------------------------------------------------------------------------

    def _orders(self, member: _Member, number: int, clients: Sequence[int], vector: Floats) -> Action:
        order = Order(member.instance, number, tuple(clients))
        return Send(member.endpoint, Orders(order, vector, self._run), bulk=True)

    def _take(self, part: UploadPiece, now: float) -> list[Action]:
        node = next((n for n, member in self._here.items() if member.instance == part.instance), None)
        waited = self._round
        if node is None or waited is None or waited.number != part.round or node not in waited.open:
            raise RemoteProtocolError("an upload of another round, or of a node that nobody waits for")
        clients = waited.open[node]
        if part.client not in clients:
            raise RemoteProtocolError(f"an upload of client {part.client}, which nobody waits for")
        upload = clients[part.client].put(part)
        waited.heard[node] = now
        if upload is None:
            return []
        waited.uploads[part.client] = upload
        del clients[part.client]
        if clients:
            return []
        del waited.open[node]
        return [] if waited.open else self._gathered(waited)

    def _gathered(self, ended: _Round) -> list[Action]:
        self._course.step(ServerEvent.LAST)
        self._round = None
        ordered = {client: ended.uploads[client] for client in ended.chosen if client in ended.uploads}
        return [Gathered(ended.number, ordered)]


def _name(node: int) -> str:
    return f"node {node}"
