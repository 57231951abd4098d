"""The network of the tests itself: who reaches whom, and what proxies between them do."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from cryptography import x509

from tests.e2e import proxy
from tests.e2e.dying_peer import Orders
from tests.e2e.namespaces import HTTPS_ONLY, OPEN, Conditions, Site, Wire, address, exit_at, within
from tests.e2e.processes import Nursery, Process
from tests.patience import ENOUGH_S
from tests.strange_tls import strange_server, trusting_client

CORE, SITE, OTHER_SITE, PROXY, PROXY_SITE = range(5)
SITES = (OPEN, HTTPS_ONLY, HTTPS_ONLY, OPEN, Site(frozenset((exit_at(PROXY, proxy.PORT),))))
PASSWORD = "ward:secret"


@pytest.fixture
def wire(make_wire) -> Wire:
    return make_wire(SITES, 7, Conditions())


@pytest.fixture
def listening(wire: Wire) -> Iterator[Callable[..., socket.socket]]:
    """Returns a function that listens at a node."""
    with ExitStack() as opened:

        def listen(number: int, port: int) -> socket.socket:
            made = within(wire.namespaces[number], lambda: socket.create_server(("", port)))
            made.settimeout(ENOUGH_S)
            return opened.enter_context(made)

        yield listen


def connection(wire: Wire, sender: int, receiver: int, port: int) -> socket.socket:
    where = address(receiver), port
    return within(wire.namespaces[sender], lambda: socket.create_connection(where, ENOUGH_S))


def is_dropped(wire: Wire, sender: int, receiver: int, port: int) -> None:
    """Begins to connect, and waits until a firewall has dropped it."""

    def begin() -> socket.socket:
        made = socket.socket()
        made.setblocking(False)
        with closing(made) as trying:
            assert trying.connect_ex((address(receiver), port)) != 0
            wire.wait_until_dropped(sender, receiver)
        return made

    within(wire.namespaces[sender], begin)


def received(end: socket.socket, count: int) -> bytes:
    with end.makefile("rb") as stream:
        return stream.read(count)


def answered(near: socket.socket, far: socket.socket) -> None:
    """Both ways carry."""
    far.settimeout(ENOUGH_S)
    for one, other in ((near, far), (far, near)):
        one.sendall(b"hello")
        assert received(other, 5) == b"hello"


def test_a_site_behind_a_firewall_reaches_https_and_nobody_reaches_it(wire, listening) -> None:
    core, site = listening(CORE, 443), listening(SITE, 443)
    listening(CORE, 80)
    with connection(wire, SITE, CORE, 443) as near:
        far, seen = core.accept()
        with far:
            assert seen[0] == address(SITE) != near.getsockname()[0]
            answered(near, far)
    is_dropped(wire, CORE, SITE, 443)
    is_dropped(wire, OTHER_SITE, SITE, 443)
    is_dropped(wire, SITE, CORE, 80)
    site.setblocking(False)
    with pytest.raises(BlockingIOError):
        site.accept()


def test_open_nodes_reach_each_other_over_a_slow_line_that_loses_packets(make_wire) -> None:
    wire = make_wire((OPEN, Site(bytes_per_s=200_000.0)), 7, Conditions(0.01, 0.005, 0.1))
    sent = bytes(range(256)) * 200
    server = within(wire.namespaces[0], lambda: socket.create_server(("", 80)))
    with server, connection(wire, 1, 0, 80) as near:
        far, seen = server.accept()
        with far:
            far.settimeout(ENOUGH_S)
            assert seen[0] == address(1)
            near.sendall(sent)
            assert received(far, len(sent)) == sent
    assert wire.lost > 0


def test_what_is_sent_over_a_line_that_is_cut_arrives_once_it_is_mended(wire, listening) -> None:
    core = listening(CORE, 443)
    with connection(wire, SITE, CORE, 443) as near:
        far, _ = core.accept()
        with far:
            with wire.cut(SITE):
                near.sendall(b"hello")
                far.setblocking(False)
                with pytest.raises(BlockingIOError):
                    far.recv(5)
            far.settimeout(ENOUGH_S)
            assert received(far, 5) == b"hello"


# -- proxies -----------------------------------------------------------------------------------------------


def started(nursery: Nursery, wire: Wire, *manners: str) -> Process:
    """Starts a proxy in its namespace."""
    orders = Orders(namespace=wire.namespaces[PROXY])
    process = nursery.module("tests.e2e.proxy", f"{address(PROXY)}:{proxy.PORT}", *manners, orders=orders)
    process.line("ready")
    return process


def asked(wire: Wire, *headers: str) -> tuple[socket.socket, str]:
    """Asks the proxy for the core's port 443; returns the connection and the line with the status."""
    near = connection(wire, PROXY_SITE, PROXY, proxy.PORT)
    near.sendall("\r\n".join((f"CONNECT {address(CORE)}:443 HTTP/1.1", *headers, "\r\n")).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += near.recv(1)
    return near, head.split(b"\r\n")[0].decode()


def test_a_site_whose_only_way_out_is_a_proxy_with_a_password(wire, listening, nursery: Nursery) -> None:
    core = listening(CORE, 443)
    told = started(nursery, wire, "--password", PASSWORD)
    is_dropped(wire, PROXY_SITE, CORE, 443)
    for headers in ((), ("Proxy-Authorization: Basic d2FyZDp3cm9uZw==",)):
        near, status = asked(wire, *headers)
        near.close()
        assert status == "HTTP/1.1 407 Proxy Authentication Required"
    shown = base64.b64encode(PASSWORD.encode()).decode()
    near, status = asked(wire, f"Proxy-Authorization: Basic {shown}")
    with near:
        assert status == "HTTP/1.1 200 OK"
        far, seen = core.accept()
        with far:
            assert seen[0] == address(PROXY)
            answered(near, far)
    assert told.line("200 OK") == f"200 OK {address(CORE)}:443"


REQUEST = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"


def answer_once(listening: socket.socket) -> bytes:
    """Accepts under TLS, reads a request and answers "hello"; returns what it read."""
    accepted, _ = listening.accept()
    with strange_server("core.example").wrap_socket(accepted, server_side=True) as far:
        read = far.recv(len(REQUEST))
        if read:
            far.sendall(b"hello")
        return read


@pytest.mark.parametrize("lets_websockets", [True, False])
def test_a_proxy_that_intercepts_tls(wire, listening, nursery: Nursery, lets_websockets: bool) -> None:
    core = listening(CORE, 443)
    started(nursery, wire, "--intercept", *(() if lets_websockets else ("--no-websockets",)))
    with ThreadPoolExecutor(1) as thread:
        read = thread.submit(answer_once, core)
        near, status = asked(wire)
        assert status == "HTTP/1.1 200 OK"
        with trusting_client().wrap_socket(near) as link:
            certificate = link.getpeercert(binary_form=True)
            assert certificate is not None
            named = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
            assert named == "CN=proxy.example"
            link.sendall(REQUEST)
            answer = link.recv(64)
        assert answer.startswith(b"hello" if lets_websockets else b"HTTP/1.1 403")
        assert read.result() == (REQUEST if lets_websockets else b"")
