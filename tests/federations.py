"""A server and its client nodes, connected by wires without delay; every record goes through the codec."""

from collections import deque
from dataclasses import replace

import numpy as np

from protocol.actions import Gathered, Send, Train
from protocol.errors import RemoteProtocolError
from protocol.federation import tags
from protocol.federation.client import FederationClient
from protocol.federation.server import FederationServer
from protocol.vectors.pieces import PIECE_WORDS
from protocol.wire import codec
from protocol.wire.messages import Enlist, UploadPiece
from tests.parts import NOW, heard

RUN = b"run" * 10 + b"!!"
SERVER = "127.0.0.1:7000"
SMALL = 5
LARGE = PIECE_WORDS + 3  # two pieces


def endpoint(node: int) -> str:
    return f"127.0.0.1:{7001 + node}"


def instance(node: int, start: int = 0) -> bytes:
    return bytes([node, start]) + bytes(14)


def enlist(node: int, start: int = 0, run: bytes = RUN) -> Enlist:
    return tags.tag(Enlist(node, instance(node, start), endpoint(node)), run)


def upload(
    node: int, client: int, number: int = 1, payload: bytes = bytes(4 * SMALL), **changes
) -> UploadPiece:
    piece = UploadPiece(instance(node), number, client, 0, payload=payload)
    return tags.tag(replace(piece, **changes), RUN)


def client(node: int = 0, dimension: int = SMALL, start: int = 0) -> FederationClient:
    return FederationClient(RUN, dimension, node, instance(node, start), endpoint(node), SERVER)


class Federation:
    """A server and its nodes. Each trains client i by adding i + 1, at once; all actions are recorded."""

    def __init__(self, nodes: int, dimension: int = SMALL) -> None:
        self.dimension = dimension
        self.server = FederationServer(RUN, dimension, nodes)
        self.clients = {endpoint(node): client(node, dimension) for node in range(nodes)}
        self.busy = False  # nodes do not train
        self.done: list[tuple[str, object]] = []
        self.errors: list[RemoteProtocolError] = []
        self.now = NOW
        self._queue: deque[tuple[str, bytes]] = deque()

    def open(self, *nodes: int) -> "Federation":
        self.act(SERVER, self.server.open(self.now))
        for node in nodes or range(len(self.clients)):
            self.act(endpoint(node), self.clients[endpoint(node)].open(self.now))
        return self

    def begin(self, number: int, *chosen: int) -> "Federation":
        model = np.arange(self.dimension, dtype=np.float32)
        return self.act(SERVER, self.server.begin(number, model, chosen, self.now))

    def act(self, where: str, actions) -> "Federation":
        self._note(where, actions)
        while self._queue:
            to, frame = self._queue.popleft()
            machine = self.server if to == SERVER else self.clients.get(to)
            if machine is not None:
                self._hand(to, machine, codec.decode(frame))
        return self

    def hand(self, to: str, message) -> "Federation":
        machine = self.server if to == SERVER else self.clients[to]
        return self.act(to, heard(machine, message, self.now))

    def _hand(self, to: str, machine, message) -> None:
        try:
            self._note(to, heard(machine, message, self.now))
        except RemoteProtocolError as error:
            self.errors.append(error)

    def _note(self, where: str, actions) -> None:
        for action in actions:
            if isinstance(action, Send):
                self._queue.extend((action.to, codec.encode(message).join()) for message in action.messages)
                continue
            self.done.append((where, action))
            if isinstance(action, Train) and not self.busy:
                self.train(where, action)

    def train(self, where: str, order: Train) -> None:
        for number in order.clients:
            vector = order.model + number + 1
            self._note(where, self.clients[where].trained(order.round, number, vector, self.now))

    def ends(self, kind: type) -> list:
        return [action for _, action in self.done if isinstance(action, kind)]

    def gathered(self) -> dict:
        (ended,) = self.ends(Gathered)
        return dict(ended.uploads)


def waiting(nodes: int = 2, dimension: int = SMALL) -> Federation:
    """Starts a round of clients 0 to 3, none of which has sent anything."""
    federation = Federation(nodes, dimension).open()
    federation.busy = True
    return federation.begin(1, 0, 1, 2, 3)
