"""A server and its client nodes over a Unix socket, in one process: who is gone, who lies, who is refused.

Frames wait in a socket until they are read, so a test moves the server and its nodes step by step, in one
thread, and the server waits for nothing: a node that has sent nothing by then is silent.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mechanisms.noise.clipping import Floats
from node.system.errors import UserError
from scenarios.engines.federation import SERVER_GONE, Server, work_for
from scenarios.engines.frames import Connection, ConnectionLost, Traffic, connect, listen, longest_frame

SHAPE = (3,)
LONGEST = longest_frame(3, 8)
Vectors = dict[int, list[float]]
MODEL = np.array([1, 2, 3], np.float32)


class Federation:
    """A server for two nodes, and nodes that a test moves step by step."""

    def __init__(self, folder: Path, stack: ExitStack, wait_s: float = 0.0, nodes: int = 2) -> None:
        self.folder = folder
        self.said: list[str] = []
        self._stack = stack
        listener = stack.enter_context(listen(folder))
        self.server = Server(listener, nodes, LONGEST, self.said.append, wait_s, wait_s)
        self._serving = stack.enter_context(ExitStack())
        self._serving.enter_context(self.server)

    def end(self) -> None:
        """The work of the server is done."""
        self._serving.close()

    def bare(self) -> Connection:
        """A connection that has not said who it is."""
        connection = connect(self.folder, LONGEST)
        self._stack.callback(connection.close)
        return connection

    def node(self, number: int) -> Connection:
        connection = self.bare()
        connection.send("node", number)
        return connection

    def gather(
        self, *steps: Callable[[], None], number: int = 1, chosen: tuple[int, ...] = (0, 1)
    ) -> Vectors:
        """A round, with these steps after the orders."""
        self.server.begin(number, MODEL, chosen, SHAPE)
        for step in steps:
            step()
        return {client: vector.tolist() for client, vector in self.server.collect().items()}


def upload(node: Connection, client: int, number: int = 1, vector: Floats = MODEL) -> None:
    node.send("upload", number, client, vector)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Federation]:
    with ExitStack() as stack:
        yield Federation(tmp_path, stack)


@pytest.fixture
def two(here: Federation) -> tuple[Federation, Connection, Connection]:
    """The server with both of its nodes."""
    nodes = here.node(0), here.node(1)
    here.server.assemble()
    assert here.said == ["node 0 joined", "node 1 joined"]
    return here, *nodes


def test_each_node_trains_its_clients_and_the_bytes_are_counted(two):
    here, zero, one = two
    traffic, before = here.server.traffic, replace(here.server.traffic)
    work = ((one, 1), (zero, 2), (zero, 0), (one, 3))
    steps = [partial(upload, node, client, vector=MODEL * client) for node, client in work]
    said = [node.traffic.sent for node in (zero, one)]
    found = here.gather(*steps, chosen=(3, 0, 2, 1))
    assert found == {client: (MODEL * client).tolist() for client in range(4)}
    assert zero.receive() == ["order", 1, [0, 2], ["<f4", [3], MODEL.tobytes()]]
    assert one.receive()[2] == [3, 1]
    assert traffic.sent - before.sent == zero.traffic.received + one.traffic.received
    assert traffic.received - before.received == zero.traffic.sent + one.traffic.sent - sum(said)
    assert here.gather(partial(upload, zero, 0, 2), number=2, chosen=(0,)) == {0: MODEL.tolist()}
    assert here.gather(number=3, chosen=()) == {}
    here.end()
    assert one.receive() == ["done"], "it was not asked in round 2"


def test_a_node_that_is_killed_in_a_round_is_missed_and_the_others_go_on(two):
    """What it sent whole counts."""
    here, zero, one = two
    sent = [partial(upload, zero, 0), partial(upload, one, 3)]
    assert sorted(here.gather(*sent, one.close, chosen=(0, 1, 3))) == [0, 3]
    assert list(here.gather(partial(upload, zero, 0, 2), number=2)) == [0]
    assert len(here.said) == 3
    assert here.said[2].startswith("node 1 lost: ")


def test_a_node_that_is_killed_between_rounds_is_missed_and_a_run_without_nodes_ends(two):
    here, zero, one = two
    one.close()
    assert list(here.gather(partial(upload, zero, 0))) == [0]
    assert here.said[2:] == ["node 1 lost: closed"]
    assert here.gather(zero.close) == {}
    with pytest.raises(UserError, match="every client node is gone"):
        here.gather()


def test_a_node_that_is_killed_within_its_upload_is_missed(two):
    here, zero, one = two

    def half() -> None:
        one.end.sendall((40).to_bytes(4, "little") + bytes(30))
        one.end.shutdown(socket.SHUT_WR)

    assert list(here.gather(partial(upload, zero, 0), half)) == [0]
    assert here.said[2:] == ["node 1 lost: closed within a frame"]


LIES: dict[str, Callable[[Connection], None]] = {
    "too long": lambda node: node.end.sendall((LONGEST + 1).to_bytes(4, "little")),
    "garbage": lambda node: node.end.sendall(b"\x02\0\0\0\xc1\xc1"),
    "another's client": lambda node: upload(node, 0),
    "a client that nobody chose": lambda node: upload(node, 3),
    "another round": lambda node: upload(node, 1, 2),
    "a client by name": lambda node: node.send("upload", 1, "1", MODEL),
    "another node": lambda node: node.send("node", 0),
    "another shape": lambda node: upload(node, 1, vector=MODEL[:2]),
    "an order": lambda node: node.send("order", 1, [0], MODEL),
    "nothing": lambda node: node.send(),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_node_that_breaks_the_rules_loses_its_connection_and_the_others_go_on(lie, two):
    here, zero, one = two
    steps = partial(lie, one), partial(upload, one, 1), partial(upload, zero, 0)
    assert here.gather(*steps) == {0: MODEL.tolist()}
    assert list(here.gather(partial(upload, zero, 0, 2), number=2)) == [0]
    assert len(here.said) == 3
    assert here.said[2].startswith("node 1 lost: ")
    assert "nothing for" not in here.said[2]


def test_an_upload_counts_once(two):
    here, _, one = two
    steps = (partial(upload, one, 1, vector=MODEL * factor) for factor in (1, 2))
    assert here.gather(*steps, chosen=(0, 1)) == {1: MODEL.tolist()}
    assert "node 1 lost: sent what nobody waits for" in here.said


def test_of_two_nodes_of_one_number_the_first_stays(two):
    here, zero, one = two
    second = here.node(1)
    assert len(here.gather(partial(upload, zero, 0), partial(upload, one, 1))) == 2
    assert here.said[2:] == ["a stranger lost: node 1 is here already"]
    with pytest.raises(ConnectionLost):
        second.receive()


@pytest.mark.parametrize("first", [("node", 2), ("node", -1), ("node", "0"), ("upload", 1, 0, MODEL), ()])
def test_strangers_are_refused_and_those_that_say_nothing_keep_nobody_waiting(first, two):
    here, zero, one = two
    here.bare()
    here.bare().send(*first)
    assert len(here.gather(partial(upload, zero, 0), partial(upload, one, 1))) == 2
    assert here.said[2:] == ["a stranger lost: does not say which node it is"]


def test_a_node_that_is_late_or_was_lost_may_come_again(here):
    zero = here.node(0)
    here.server.assemble()
    assert here.said == ["node 0 joined", "node 1 lost: not here after 0 s"]
    for number in (1, 2):
        one = here.node(1)
        steps = partial(upload, zero, 0, number), partial(upload, one, 1, number)
        assert len(here.gather(*steps, number=number)) == 2
        one.close()


def test_a_silent_node_is_given_up(two):
    here, zero, _ = two
    assert list(here.gather(partial(upload, zero, 0))) == [0]
    assert here.said[2:] == ["node 1 lost: sent nothing for 0 s"]


def test_a_server_without_nodes_says_so(here):
    here.bare()
    with pytest.raises(UserError, match="none of 2 client nodes came within 0 s"):
        here.server.assemble()


# -- the node's side ---------------------------------------------------------------------------------------


def plus(client: int, number: int, model):
    return model + client + number


def working(folder: Path, node: int, train=plus) -> None:
    work_for(folder, node, LONGEST, lambda: SHAPE, train)


def test_nodes_work_until_the_server_is_done(tmp_path):
    with ThreadPoolExecutor(2) as threads, ExitStack() as stack:
        federation = Federation(tmp_path, stack, 60.0)
        ended = [threads.submit(working, tmp_path, node) for node in (0, 1)]
        federation.server.assemble()
        assert federation.gather(chosen=(0, 1, 2)) == {0: [2, 3, 4], 1: [3, 4, 5], 2: [4, 5, 6]}
        uploads = federation.server.gather(2, MODEL, (2, 1), SHAPE)
        assert [(client, vector.tolist()) for client, vector in uploads.items()] == [
            (2, [5, 6, 7]),
            (1, [4, 5, 6]),
        ]
        federation.end()
        assert [one.result() for one in ended] == [None, None]


def test_a_node_that_fails_raises_what_it_was_and_is_missed(tmp_path):
    def failing(client: int, number: int, model):
        raise UserError("training diverged")

    with ThreadPoolExecutor(2) as threads, ExitStack() as stack:
        federation = Federation(tmp_path, stack, 60.0)
        ended = [threads.submit(working, tmp_path, node, train) for node, train in ((0, plus), (1, failing))]
        federation.server.assemble()
        assert list(federation.gather()) == [0]
        with pytest.raises(UserError, match="training diverged"):
            ended[1].result()
        federation.end()
        assert ended[0].result() is None


@pytest.mark.parametrize(
    "frames",
    [
        (),
        (["done", 1],),
        (["order", 1, [0], [[1, 2]]],),
        (["order", 1, 0, MODEL],),
        (b"\0\0\0\0",),
        (b"\x09",),
    ],
)
def test_a_node_whose_server_is_gone_or_lies_says_so_in_one_line(frames, tmp_path):
    with ThreadPoolExecutor(1) as threads, listen(tmp_path) as listener:
        ended = threads.submit(working, tmp_path, 0)
        end, _ = listener.accept()
        server = Connection(end, LONGEST, Traffic())
        assert server.receive() == ["node", 0]
        for frame in frames:
            end.sendall(frame) if isinstance(frame, bytes) else server.send(*frame)
        server.close()
        with pytest.raises(UserError, match=rf"^the server at {tmp_path} is gone: [^\n]+$") as caught:
            ended.result()
    assert caught.value.status == SERVER_GONE


def test_a_node_without_a_server_says_so(tmp_path):
    with pytest.raises(UserError, match="is gone: No such file") as caught:
        working(tmp_path, 0)
    assert caught.value.status == SERVER_GONE


def test_an_error_of_the_server_itself_ends_its_nodes_as_a_server_that_is_gone(tmp_path):
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(ZeroDivisionError), ExitStack() as stack:  # noqa: PT012 - the stack ends the server
            federation = Federation(tmp_path, stack, 60.0, nodes=1)
            ended = threads.submit(working, tmp_path, 0)
            federation.server.assemble()
            raise ZeroDivisionError
        with pytest.raises(UserError, match="is gone"):
            ended.result()
