"""The page's server over real sockets: its answers, its access rules, and the cost of watchers."""

import asyncio
import hashlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from importlib import resources

import pytest

from benchmarks.page.server import Served, node_view, rounds, tracker_view
from node.observe import sse
from node.observe.page import FRAME, FRONT, PARTS, asset
from node.observe.sse import MAX_WATCHERS
from node.observe.views import MORE_HISTORY
from node.runtime.record.own_figures import OwnBook
from node.training.figures.headline import Alone
from tests.patience import ENOUGH_S

TOKEN = "fe" * 32
VIEW = node_view(peers=3, ended=4)
SHA256 = {  # as the package uplot 1.6.32 of the npm registry has them
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(VIEW) as server:
        yield server


def connection_to(server: Served) -> http.client.HTTPConnection:
    host, _, port = server.endpoint.rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=ENOUGH_S)


def ask(server: Served, path: str, method: str = "GET", **headers: str):
    with closing(connection_to(server)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()


class Watcher:
    """Reads the stream of events."""

    def __init__(self, server: Served, **headers: str) -> None:
        self._connection = connection_to(server)
        self._connection.request("GET", "/v1/events", headers=headers)
        self.answer = self._connection.getresponse()

    def event(self) -> tuple[str, dict]:
        """Returns the next event; skips heartbeats."""
        name = ""
        while line := self.answer.readline().decode():
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                return name, json.loads(line[6:])
        return "", {}

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def watching(server: Served, **headers: str):
    return closing(Watcher(server, **headers))


@pytest.mark.parametrize("path", ["/", *(f"/page/{name}" for name in PARTS)])
def test_every_part_is_there_and_may_load_nothing_from_elsewhere(served, path):
    status, headers, body = ask(served, path)
    assert (status, headers["X-Content-Type-Options"]) == (200, "nosniff")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Content-Type"].startswith(("text/", "image/svg+xml"))
    assert body


def test_what_is_secret_stands_in_no_view_and_is_told_on_this_machine_alone():
    book = OwnBook(secret=True)
    book.compared(Alone("accuracy", 0.123454321, 1.0))
    with Served(replace(VIEW, own_here=True), own=book) as server:
        status, headers, body = ask(server, "/v1/own")
        assert (status, headers["Cache-Control"]) == (200, "no-store")
        assert json.loads(body)["alone"]["value"] == 0.123454321
        assert ask(server, "/v1/own", **{"X-Forwarded-For": "10.0.0.9"})[0] == 403
        assert ask(server, "/v1/own", Host="ward.example")[0] == 421
        with watching(server) as watcher:
            assert watcher.event()[1]["own"] is None
        assert b"0.1234" not in ask(server, "/v1/status")[2]
    with Served(VIEW) as server:
        assert ask(server, "/v1/own")[0] == 404


def test_all_that_the_page_names_is_served_and_nothing_else():
    assets = resources.files("node").joinpath("assets")
    kinds = (".html", ".js", ".css")
    text = "".join(path.read_text("utf-8") for path in assets.iterdir() if path.name.endswith(kinds))
    named = re.findall(r'(?:href|src)="page/([^"]+)"', text) + re.findall(r'from "\./([^"]+)"', text)
    assert set(named) == set(PARTS)
    assert {path.name for path in assets.iterdir()} == {*PARTS, FRAME, FRONT, "uPlot.LICENSE"}


def test_no_script_and_no_style_stands_in_the_page_itself():
    page = asset(FRONT).decode()
    assert not re.findall(r"<style|style=|<script(?![^>]*src=)|\son\w+=|https?://", page)


def test_the_charting_library_is_the_one_that_was_released():
    assets = resources.files("node").joinpath("assets")
    found = {name: hashlib.sha256(assets.joinpath(name).read_bytes()).hexdigest() for name in SHA256}
    assert found == SHA256


def test_nothing_else_in_the_package_can_be_had(served):
    for name in ("uPlot.LICENSE", "..%2fpage.py", "%2e%2e/page.py", ""):
        assert ask(served, f"/page/{name}")[0] == 404


@pytest.mark.parametrize("path", ["/", "/v1/status", "/v1/events", "/v1/model", "/page/page.js"])
def test_there_is_nothing_to_change_and_a_rebound_name_is_told_nothing(served, path):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ask(served, path, method)[0] == 405
    status, _, body = ask(served, path, Host="evil.example")
    assert (status, body) == (421, b"this node has another name\n")


def test_the_owner_gets_the_model_and_nobody_else(tmp_path):
    model = tmp_path / "model.safetensors"
    with Served(VIEW, TOKEN, model) as server:
        owner = {"Authorization": f"Bearer {TOKEN}"}
        assert ask(server, "/v1/model", **owner)[0] == 404
        model.write_bytes(b"weights")
        status, headers, body = ask(server, "/v1/model", **owner)
        assert (status, body) == (200, b"weights")
        assert headers["Content-Disposition"] == 'attachment; filename="model.safetensors"'
        assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
        model.write_bytes(bytes(range(256)) * 10_000)  # in many pieces
        assert ask(server, "/v1/model", **owner)[2] == model.read_bytes()
        for refused in ({}, {"Authorization": "Bearer x"}):
            assert ask(server, "/v1/model", **refused)[0] == 401
        assert ask(server, "/v1/model", **owner, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    with Served(VIEW) as server:
        assert ask(server, "/v1/model")[0] == 404


@pytest.mark.parametrize("path", ["/v1/status", "/v1/events"])
def test_off_loopback_what_is_the_owners_needs_the_token(path):
    with Served(VIEW, TOKEN) as server:
        status, headers, body = ask(server, path, Authorization=f"Bearer {'00' * 32}")
        assert (status, headers["WWW-Authenticate"], body) == (401, "Bearer", b"the token is needed\n")
        assert server.source.looks == 0
        assert ask(server, "/")[0] == 200
        assert ask(server, "/v1/status", Authorization=f"Bearer {TOKEN}")[0] == 200
        with watching(server, Authorization=f"Bearer {TOKEN}") as watcher:
            assert watcher.event()[0] == "view"


def test_the_status_is_the_whole_view_and_a_tracker_s_has_no_deadline(served):
    status, headers, body = ask(served, "/v1/status")
    said = json.loads(body)
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert (said["round"], said["phase"], len(said["history"])) == (4, "shares", 4)
    assert 0 <= said["left_s"] <= 12
    with Served(tracker_view()) as server:
        said = json.loads(ask(server, "/v1/status")[2])
    assert (said["kind"], said["peers"], "left_s" in said) == ("tracker", 5, False)


def test_a_watcher_is_told_all_and_then_what_changes_and_then_the_end(served):
    with watching(served) as watcher:
        name, whole = watcher.event()
        assert (name, len(whole["history"]), whole["ended"]) == ("view", 4, False)
        served.show(replace(VIEW, history=rounds(5), round=5))
        name, change = watcher.event()
        assert name == "change"
        assert (set(change), len(change[MORE_HISTORY])) == ({"at", "round", MORE_HISTORY}, 1)
        ending = threading.Thread(target=served.end)
        ending.start()
        assert watcher.event()[1]["ended"] is True
        assert watcher.event()[0] == "end"
        ending.join()


def test_nobody_looks_while_nobody_watches(served, monkeypatch):
    monkeypatch.setattr(sse, "LISTEN_S", 0.02)
    with watching(served) as watcher:
        watcher.event()
        assert served.source.looks > 0
    while served._page._feed._watchers:
        ask(served, "/page/icon.svg")  # until the server has noticed
    looks = served.source.looks
    assert served._page._feed._looking is None
    with watching(served) as watcher:
        watcher.event()
    assert served.source.looks > looks


def test_too_many_watchers_are_told_to_come_later(served):
    with ExitStack() as watchers:
        for watcher in [watchers.enter_context(watching(served)) for _ in range(MAX_WATCHERS)]:
            assert watcher.event()[0] == "view"
        status, headers, _ = ask(served, "/v1/events")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert ask(served, "/v1/status")[0] == 200


def test_a_watcher_that_does_not_read_is_let_go_and_the_others_are_not(served, monkeypatch):
    monkeypatch.setattr(sse, "SLOW_S", 0.2)
    monkeypatch.setattr(sse, "LOOK_S", 0.005)
    host, _, port = served.endpoint.rpartition(":")
    with closing(socket.socket()) as deaf, watching(served) as reader:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((host, int(port)))
        deaf.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {served.endpoint}\r\n\r\n".encode())
        reader.event()
        number = 0
        while served._page._feed._watchers < 2:
            ask(served, "/page/icon.svg")
        while served._page._feed._watchers == 2:
            number += 1
            served.show(replace(VIEW, about={"much": f"{number} " + "x" * 300_000}))
            assert reader.event()[0] == "change"
        while served.connections > 1:  # the reader's: nothing is held for who does not read
            ask(served, "/page/icon.svg")


def test_a_look_that_fails_ends_neither_the_node_nor_the_watching(served, monkeypatch):
    monkeypatch.setattr(sse, "LOOK_S", 0.005)
    broken, worked = threading.Event(), served.source.view

    async def fails():
        broken.set()
        raise RuntimeError("a fault of the program")

    with watching(served) as watcher:
        watcher.event()
        monkeypatch.setattr(served._page._feed, "_look", fails)
        assert broken.wait(20)
        monkeypatch.setattr(served._page._feed, "_look", worked)
        served.show(replace(VIEW, phase="sums"))
        assert watcher.event()[1]["phase"] == "sums"


def test_a_node_does_not_wait_for_a_page_that_can_not_be_made(served, monkeypatch):
    monkeypatch.setattr(sse, "LAST_LOOK_S", 0.01)
    never = threading.Event()

    async def hangs():
        never.set()
        await asyncio.Event().wait()

    with watching(served) as watcher:
        watcher.event()
        monkeypatch.setattr(served._page._feed, "_look", hangs)
        assert never.wait(20)
        served.end()
        assert watcher.event()[0] == "end"
