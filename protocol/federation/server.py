"""Federated averaging with a server in the middle: the server's machine and a client node's.

What stays true, beside the tables of their steps (protocol.federation.phases):
- A run is named by a secret of 32 bytes that all its processes were given, and that never travels: every
  record bears an HMAC under it. Who does not hold it changes nothing, and has nothing allocated for it.
- A node is here from its Enlist to its end: unreachable, silent, or started anew as another instance. It says
  Enlist again and again, so one that was given up too early is back for the next round.
- Done is the last word on both sides: a node that goes then is not lost, and neither is its server.
- A round waits only for clients of nodes that are here; what others would have sent is missing.
- A vector has one size, known before the first frame; its pieces are counted once each, and all are finite.

The server sees every upload: that is the setting of the mechanisms in mechanisms.servers.server, and no
secure aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from protocol.actions import Action, Assembled, Closed, Fatal, Gathered, Note, Notice, Send, Train
from protocol.errors import LocalProtocolError, NotFiniteError, RemoteProtocolError, TooEarly
from protocol.federation import tags
from protocol.federation.phases import (
    LINK,
    SERVER,
    WORK,
    LinkEvent,
    LinkPhase,
    ServerEvent,
    ServerPhase,
    WorkEvent,
    WorkPhase,
)
from protocol.transitions import Course
from protocol.vectors.pieces import Floats, piece, piece_bytes, piece_count, raw
from protocol.wire.bulk import Bulk
from protocol.wire.messages import Done, Enlist, Enlisted, Key, Message, ModelPiece, Order, UploadPiece

ASSEMBLE_S = 120.0
"""How long the server waits for its nodes, and a node for its server, when a run begins."""
SILENCE_S = 300.0
"""How long a node at work may send nothing: the training of one client takes less."""
KNOCK_S = 0.5
"""How often a node enlists that was not answered."""
KEEP_S = 10.0
"""How often a node enlists that was."""


class _Filling:
    """A vector (d,) that comes in pieces, in any order; allocated with the first one."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._missing = set(range(piece_count(dimension)))
        self._vector: Floats | None = None

    def put(self, part: ModelPiece | UploadPiece) -> Floats | None:
        """Take a piece in; the vector when it was the last. RemoteProtocolError changes nothing."""
        if part.index not in self._missing:
            raise RemoteProtocolError(f"piece {part.index} of a vector, which was here or does not exist")
        if len(part.payload) != piece_bytes(self._dimension, part.index):
            raise RemoteProtocolError(f"a piece of {len(part.payload)} bytes, which is not its size")
        values = np.frombuffer(part.payload, "<f4")
        if not np.isfinite(values).all():
            raise RemoteProtocolError("a piece that is not finite")
        if self._vector is None:
            self._vector = np.empty(self._dimension, "<f4")
        self._vector[piece(self._dimension, part.index)] = values
        self._missing.remove(part.index)
        return None if self._missing else self._vector


@dataclass(frozen=True, slots=True, eq=False)
class _Orders(Bulk[Order | ModelPiece]):
    """An order, and the model (d,) that it is about in its pieces."""

    order: Order
    vector: Floats = field(repr=False)
    run: bytes = field(repr=False)

    def __len__(self) -> int:
        """How many there are."""
        return 1 + piece_count(len(self.vector))

    def at(self, index: int) -> Order | ModelPiece:
        """One of them."""
        if index == 0:
            return tags.tag(self.order, self.run)
        part = raw(self.vector, piece(len(self.vector), index - 1))
        return tags.tag(ModelPiece(self.order.round, index - 1, payload=part), self.run)


@dataclass(frozen=True, slots=True, eq=False)
class _Upload(Bulk[UploadPiece]):
    """What a client sends, (d,), in its pieces; `first` says whose it is."""

    first: UploadPiece
    vector: Floats = field(repr=False)
    run: bytes = field(repr=False)

    def __len__(self) -> int:
        """How many there are."""
        return piece_count(len(self.vector))

    def at(self, index: int) -> UploadPiece:
        """One of them."""
        part = raw(self.vector, piece(len(self.vector), index))
        return tags.tag(replace(self.first, index=index, payload=part), self.run)


def _frozen(vector: Floats) -> Floats:
    """A copy that nobody changes: its owner goes on with the vector while this waits for the wire."""
    copy = np.array(vector, "<f4")
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True, slots=True)
class _Member:
    """A node that is here."""

    instance: bytes
    endpoint: str


@dataclass
class _Round:
    """What a round still waits for, by node and client; what it has; when each node was heard."""

    number: int
    chosen: tuple[int, ...]
    open: dict[int, dict[int, _Filling]]
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
        """The numbers of the nodes that are here."""
        return tuple(sorted(self._here))

    @property
    def deadline(self) -> float | None:
        """When tick is due: at the end of the wait for nodes, or for the node that was silent longest."""
        if self._round is None:
            return self._assembled_by
        return min(self._round.heard[node] for node in self._round.open) + SILENCE_S

    # -- events ------------------------------------------------------------------------------------

    def open(self, now: float) -> list[Action]:
        """Wait for the nodes."""
        self._assembled_by = now + ASSEMBLE_S
        return []

    def begin(self, number: int, model: Floats, chosen: Sequence[int], now: float) -> list[Action]:
        """Send `model` (d,) to the nodes of the `chosen` clients and wait for what these send."""
        if not self._course.allows(ServerEvent.BEGIN) or model.shape != (self._dimension,):
            raise LocalProtocolError(f"round {number} begun inside another, too early, or with {model.shape}")
        if not self._here:
            return [Fatal("every client node is gone")]
        self._course.step(ServerEvent.BEGIN)
        work = {node: [client for client in chosen if client % self._nodes == node] for node in self._here}
        at_work = {node: clients for node, clients in work.items() if clients}
        fillings = {
            node: {client: _Filling(self._dimension) for client in clients}
            for node, clients in at_work.items()
        }
        self._round = _Round(number, tuple(chosen), fillings, dict.fromkeys(fillings, now))
        if not fillings:
            return self._gathered(self._round)
        vector = _frozen(model)
        return [self._orders(self._here[node], number, clients, vector) for node, clients in at_work.items()]

    def close(self, now: float) -> list[Action]:
        """There is no more work, and nobody is waited for any more."""
        self._course.step(ServerEvent.CLOSE)
        done = [self._done(member) for member in self._here.values()]
        self._here, self._round = {}, None
        return [*done, Closed()]

    def _done(self, member: _Member) -> Action:
        return Send(member.endpoint, (tags.tag(Done(member.instance), self._run),))

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """An Enlist or a piece of an upload."""
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
        """Whoever is there is gone."""
        gone = [node for node, member in self._here.items() if member.endpoint == endpoint]
        return [action for node in gone for action in self._leave(node, why)]

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """Nothing: one that started anew enlists as another instance."""
        return []

    def tick(self, now: float) -> list[Action]:
        """A wait is over, for nodes or for uploads."""
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
        """A node is gone, and what it still owes is missing."""
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
        return Send(member.endpoint, _Orders(order, vector, self._run), bulk=True)

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


class FederationClient:
    """The side of a client node, of number `node`, that takes work at `endpoint` from the one at `server`."""

    def __init__(
        self, run: bytes, dimension: int, node: int, instance: bytes, endpoint: str, server: str
    ) -> None:
        """`instance`: 16 random bytes, drawn when the process starts."""
        self._run = run
        self._dimension = dimension
        self._enlist = tags.tag(Enlist(node, instance, endpoint), run)
        self._server = server
        self._link = Course(LINK, LinkPhase.ENLISTING)
        self._work = Course(WORK, WorkPhase.IDLE)
        self._give_up_at = 0.0
        self._order: Order | None = None
        self._filling: _Filling | None = None
        self.deadline: float | None = None
        """When tick is due."""

    @property
    def round(self) -> int:
        """The round of the last order; 0 before the first."""
        return 0 if self._order is None else self._order.round

    def open(self, now: float) -> list[Action]:
        """Go to the server."""
        self._give_up_at = now + ASSEMBLE_S
        return self.tick(now)

    def trained(self, number: int, client: int, upload: Floats, now: float) -> list[Action]:
        """What `client` sends, (d,) float32, in round `number`; nothing goes out if that is over."""
        if upload.shape != (self._dimension,):
            raise LocalProtocolError(f"an upload of shape {upload.shape}, not ({self._dimension},)")
        if not np.isfinite(upload).all():
            raise NotFiniteError(f"the upload of client {client} in round {number} is not finite")
        if self._link.phase is LinkPhase.ENDED or number != self.round:
            return []
        first = UploadPiece(self._enlist.instance, number, client, 0)
        return [Send(self._server, _Upload(first, _frozen(upload), self._run), bulk=True)]

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """Anything that a server says."""
        is_over = self._link.phase is LinkPhase.ENDED
        match message:
            case Enlisted() | Done() if is_over:
                self._check(message)  # it crossed the end
                return []
            case _ if is_over:
                raise RemoteProtocolError(f"{type(message).__name__} to a client that has ended")
            case Enlisted():
                self._check(message)
                self._link.step(LinkEvent.ENLISTED)
                self.deadline = now + KEEP_S
                return []
            case Order():
                self._check(message)
                return self._take_order(message)
            case ModelPiece():
                tags.check_tag(message, self._run)
                return self._take_piece(message)
            case Done():
                self._check(message)
                return self._end(LinkEvent.DONE, Closed())
            case _:
                raise RemoteProtocolError(f"{type(message).__name__} to a client of a federation")

    def unreachable(self, endpoint: str, why: str, now: float) -> list[Action]:
        """A server that was there, and can not be reached twice in a row, is gone; another may still come."""
        if endpoint != self._server or not self._link.allows(LinkEvent.LOST):
            return []
        if self._link.phase is LinkPhase.IN_DOUBT:
            return self._end(LinkEvent.LOST, Fatal(f"the server at {endpoint} is gone: {why}"))
        self._link.step(LinkEvent.LOST)
        self._give_up_at = now + ASSEMBLE_S
        return self.tick(now)

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """Nothing: the next Enlist tells whether the server still counts on this node."""
        return []

    def tick(self, now: float) -> list[Action]:
        """Enlist, for the first time or again."""
        if self._link.phase is LinkPhase.ENDED:
            return []
        is_enlisted = self._link.phase is LinkPhase.ENLISTED
        if not is_enlisted and now >= self._give_up_at:
            why = Fatal(f"no server at {self._server} answered within {ASSEMBLE_S:g} s")
            return self._end(LinkEvent.TIME, why)
        self.deadline = now + (KEEP_S if is_enlisted else KNOCK_S)
        return [Send(self._server, (self._enlist,))]

    def _end(self, event: LinkEvent, action: Action) -> list[Action]:
        self._link.step(event)
        self.deadline = None
        return [action]

    def _check(self, message: Enlisted | Order | Done) -> None:
        tags.check_tag(message, self._run)
        if message.instance != self._enlist.instance:
            raise RemoteProtocolError(f"{type(message).__name__} to another instance")

    def _take_order(self, order: Order) -> list[Action]:
        if order.round <= self.round:
            raise RemoteProtocolError(f"an order for round {order.round} in round {self.round}")
        self._work.step(WorkEvent.ORDER)
        self._order, self._filling = order, _Filling(self._dimension)
        return []

    def _take_piece(self, part: ModelPiece) -> list[Action]:
        if part.round > self.round:
            raise TooEarly(f"a model for round {part.round} in round {self.round}")
        if self._order is None or self._filling is None or part.round < self.round:
            raise RemoteProtocolError(f"a model for round {part.round} that nobody waits for")
        model = self._filling.put(part)
        if model is None:
            return []
        self._work.step(WorkEvent.MODEL)
        self._filling = None
        return [Train(self.round, model, self._order.clients)]


def _name(node: int) -> str:
    return f"node {node}"
