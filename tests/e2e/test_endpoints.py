"""The endpoints that others announce are dialled as a host and a port, or not at all."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from dataclasses import replace

from protocol.crypto.node_key import NodeKey
from protocol.wire import codec, signing
from protocol.wire.messages import Hello
from tests.e2e.processes import HOST
from tests.e2e.test_open_port import Port
from tests.parts import announce
from tests.patience import ENOUGH_S

STRANGE = ("{}/admin/x?y=", "{}/admin#", "user@{}", "{}/", "{}?x", "http://{}", "{}\r\nX: y")


def hello(key: NodeKey, endpoint: str) -> bytes:
    """Makes a Hello that requests an answer at this endpoint; encoding checks nothing."""
    said = replace(announce(key), endpoint=endpoint)
    return codec.encode(Hello(signing.sign(said, key), os.urandom(16), True, "")).join()


def first_line(listener: socket.socket) -> str:
    """Returns the first line of the first request; closes the connection without an answer."""
    connection, _ = listener.accept()
    with closing(connection):
        connection.settimeout(ENOUGH_S)
        said = b""
        while b"\r\n" not in said and (part := connection.recv(4096)):
            said += part
    return said.partition(b"\r\n")[0].decode()


def test_nobody_makes_a_tracker_ask_for_something_else(nursery):
    """The first that it dials is the last that was announced: a host and a port."""
    tracker = nursery.tracker("--listen", f"{HOST}:0", "--tls", "off")
    at = tracker.line("tracker ").split("http://")[1]
    with closing(socket.create_server((HOST, 0))) as listener:
        listener.settimeout(ENOUGH_S)
        here = f"{HOST}:{listener.getsockname()[1]}"
        for number, written in enumerate((*STRANGE, "{}"), 1):
            key = NodeKey(bytes([number]) * 32)
            Port(at, key).say(hello(key, written.format(here)))
        assert first_line(listener) == "GET /v1/link HTTP/1.1"
