"""A client node's machine in a federation with a server; `server` lists the invariants of both."""

from __future__ import annotations

import numpy as np

from protocol.actions import Action, Closed, Fatal, Send, Train
from protocol.errors import LocalProtocolError, NotFiniteError, RemoteProtocolError, TooEarly
from protocol.federation import tags
from protocol.federation.phases import LINK, WORK, LinkEvent, LinkPhase, WorkEvent, WorkPhase
from protocol.federation.piecewise import Filling, Upload, frozen
from protocol.federation.server import ASSEMBLE_S
from protocol.transitions import Course
from protocol.vectors.pieces import Floats
from protocol.wire.messages import Done, Enlist, Enlisted, Key, Message, ModelPiece, Order, UploadPiece

KNOCK_S = 0.5
"""The interval between Enlists while no answer has come."""
KEEP_S = 10.0
"""The interval between Enlists of an enlisted node."""


class FederationClient:
    """Client node number `node`, which listens at `endpoint` and works for the server at `server`."""

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
        self._filling: Filling | None = None
        self.deadline: float | None = None
        """When tick is due."""

    @property
    def round(self) -> int:
        """The round of the last order; 0 before the first."""
        return 0 if self._order is None else self._order.round

    def open(self, now: float) -> list[Action]:
        """Enlist with the server."""
        self._give_up_at = now + ASSEMBLE_S
        return self.tick(now)

    def trained(self, number: int, client: int, upload: Floats, now: float) -> list[Action]:
        """Send the upload of `client`, (d,) float32, in round `number`; nothing if that round is over.

        Raises LocalProtocolError for another shape, NotFiniteError for a NaN or an infinity.
        """
        if upload.shape != (self._dimension,):
            raise LocalProtocolError(f"an upload of shape {upload.shape}, not ({self._dimension},)")
        if not np.isfinite(upload).all():
            raise NotFiniteError(f"the upload of client {client} in round {number} is not finite")
        if self._link.phase is LinkPhase.ENDED or number != self.round:
            return []
        first = UploadPiece(self._enlist.instance, number, client, 0)
        return [Send(self._server, Upload(first, frozen(upload), self._run), bulk=True)]

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """Process a message of the server; RemoteProtocolError, or TooEarly, if it is not due."""
        is_over = self._link.phase is LinkPhase.ENDED
        match message:
            case Enlisted() | Done() if is_over:
                self._check(message)  # sent before the server knew that this node ended
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
        """An enlisted node's server cannot be reached: enlist again; the second time in a row, end."""
        if endpoint != self._server or not self._link.allows(LinkEvent.LOST):
            return []
        if self._link.phase is LinkPhase.IN_DOUBT:
            return self._end(LinkEvent.LOST, Fatal(f"the server at {endpoint} is gone: {why}"))
        self._link.step(LinkEvent.LOST)
        self._give_up_at = now + ASSEMBLE_S
        return self.tick(now)

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """Nothing to do: the next Enlist shows whether the server still counts on this node."""
        return []

    def tick(self, now: float) -> list[Action]:
        """Enlist, for the first time or again; Fatal if no server answered in time."""
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
        self._order, self._filling = order, Filling(self._dimension)
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
