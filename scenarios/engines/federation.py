"""A server and its client nodes, each a process: the rounds go on without a client node that is gone.

    server ──["order", round, clients, model]──▶ client node ──["upload", round, client, vector]──▶ server

A client node first says which one it is: ["node", number]. Client i is trained on node i mod the number of
nodes. The last frame that a node gets is ["done"]. The server sees every upload: this is the setting of the
mechanisms in mechanisms.servers.server, and not secure aggregation.

Whoever breaks these rules, or is silent for long, loses its connection. A node that has lost its connection
is missed from then on, until a process connects under its number again.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType

from mechanisms.noise.clipping import Floats
from node.system.errors import UserError
from scenarios.engines.frames import Connection, ConnectionLost, Traffic, connect, floats

ASSEMBLE_S = 120.0
"""The server begins without the nodes that are late, once nobody came for this time."""
SILENCE_S = 300.0
"""The server gives up all uploads that are missing, once nobody sent for this time: training takes less."""
SERVER_GONE = 3
"""The exit status of a client node that lost its server, through no fault of its own."""

Shape = tuple[int, ...]
Train = Callable[[int, int, Floats], Floats]
"""Takes the client, the round and the model; returns the client's upload."""


class Server:
    """The server's side; leaving `with Server(...) as server:` ends the nodes."""

    def __init__(
        self,
        listener: socket.socket,
        nodes: int,
        longest: int,
        say: Callable[[str], None],
        assemble_s: float = ASSEMBLE_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        """`longest`: the bytes of the longest frame of a node. `say` is told who comes and who is lost."""
        self.traffic = Traffic()
        self._listener = listener
        self._nodes = nodes
        self._longest = longest
        self._say = say
        self._assemble_s = assemble_s
        self._silence_s = silence_s
        self._selector = selectors.DefaultSelector()
        self._here: dict[int, Connection] = {}
        self._round = 0
        self._shape: Shape = ()
        self._missing: set[tuple[int, int]] = set()
        """The nodes and their clients whose uploads this round waits for."""
        self._uploads: dict[int, Floats] = {}

    def __enter__(self) -> Server:
        self._selector.register(self._listener, selectors.EVENT_READ)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in list(self._here) if kind is None else ():
            self._send(node, "done")
        for key in self._selector.get_map().values():
            if key.data is not None:
                key.data.close()
        self._selector.close()

    def assemble(self) -> None:
        """Wait for the nodes. Raises UserError if none comes."""
        while len(self._here) < self._nodes and self._happened(self._assemble_s):
            pass
        late = [str(node) for node in range(self._nodes) if node not in self._here]
        if len(late) == self._nodes:
            raise UserError(f"none of {self._nodes} client nodes came within {self._assemble_s:g} s")
        if late:
            self._say(f"node {', '.join(late)} lost: not here after {self._assemble_s:g} s")

    def gather(self, number: int, model: Floats, chosen: Sequence[int], shape: Shape) -> Mapping[int, Floats]:
        """Send `model` to the nodes of the `chosen` clients; return the uploads, of this shape, that arrive.

        Raises UserError if every node is gone.
        """
        self.begin(number, model, chosen, shape)
        uploads = self.collect()
        return {client: uploads[client] for client in chosen if client in uploads}

    def begin(self, number: int, model: Floats, chosen: Sequence[int], shape: Shape) -> None:
        """The first half of `gather`: send the orders. Raises UserError if every node is gone."""
        while self._happened(0.0):
            pass
        if not self._here:
            raise UserError("every client node is gone")
        self._round, self._shape, self._uploads = number, shape, {}
        work = {node: [client for client in chosen if client % self._nodes == node] for node in self._here}
        self._missing = {(node, client) for node, clients in work.items() for client in clients}
        for node, clients in work.items():
            if clients:
                self._send(node, "order", number, clients, model)

    def collect(self) -> Mapping[int, Floats]:
        """The second half of `gather`: wait until no upload is missing; return all, in any order."""
        while self._missing:
            if not self._happened(self._silence_s):
                for node in {node for node, _ in self._missing}:
                    self._lose(self._here[node], f"sent nothing for {self._silence_s:g} s")
        return self._uploads

    # -- connections -------------------------------------------------------------------------------

    def _happened(self, wait_s: float) -> bool:
        """Wait `wait_s` for something to happen, and handle it; return whether something has."""
        ready = self._selector.select(wait_s)
        for key, _ in ready:
            if key.data is None:
                self._accept()
            else:
                self._hear(key.data)
        return bool(ready)

    def _accept(self) -> None:
        end, _ = self._listener.accept()
        end.settimeout(self._silence_s)
        connection = Connection(end, self._longest, self.traffic)
        self._selector.register(end, selectors.EVENT_READ, connection)

    def _hear(self, connection: Connection) -> None:
        try:
            frame = connection.read()
            if frame is not None:
                node = self._node(connection)
                self._join(connection, frame) if node is None else self._take(node, frame)
        except ConnectionLost as error:
            self._lose(connection, str(error))

    def _join(self, connection: Connection, frame: list[object]) -> None:
        match frame:
            case ["node", int(node)] if node in self._here:
                raise ConnectionLost(f"node {node} is here already")
            case ["node", int(node)] if node in range(self._nodes):
                self._here[node] = connection
                self._say(f"node {node} joined")
            case _:
                raise ConnectionLost("does not say which node it is")

    def _take(self, node: int, frame: list[object]) -> None:
        match frame:
            case ["upload", self._round, int(client), vector] if (node, client) in self._missing:
                self._uploads[client] = floats(vector, self._shape)
                self._missing.remove((node, client))
            case _:
                raise ConnectionLost("sent what nobody waits for")

    def _send(self, node: int, *values: object) -> None:
        try:
            self._here[node].send(*values)
        except ConnectionLost as error:
            self._lose(self._here[node], str(error))

    def _lose(self, connection: Connection, why: str) -> None:
        self._selector.unregister(connection.end)
        connection.close()
        node = self._node(connection)
        if node is not None:
            del self._here[node]
            self._missing = {one for one in self._missing if one[0] != node}
        self._say(f"{'a stranger' if node is None else f'node {node}'} lost: {why}")

    def _node(self, connection: Connection) -> int | None:
        return next((node for node, one in self._here.items() if one is connection), None)


def work_for(folder: Path, node: int, longest: int, shape: Callable[[], Shape], train: Train) -> None:
    """Work as client node `node` for the server that listens in `folder`, until it is done.

    `longest`: the bytes of the longest frame of the server. `shape`: that of the next model. Raises UserError
    with status SERVER_GONE if the server is gone, and the errors of `train`.
    """
    try:
        with closing(connect(folder, longest)) as server:
            server.send("node", node)
            while (order := server.receive()) != ["done"]:
                match order:
                    case ["order", int(number), list(clients), vector]:
                        model = floats(vector, shape())
                        for client in clients:
                            server.send("upload", number, client, train(client, number, model))
                    case _:
                        raise ConnectionLost("sent what is no order")
    except ConnectionLost as error:
        raise UserError(f"the server at {folder} is gone: {error}", SERVER_GONE) from error
