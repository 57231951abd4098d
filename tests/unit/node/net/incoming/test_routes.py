"""Expensive answers are made once for all concurrent requests, over real sockets."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web

from benchmarks.page.server import node_view
from node.net.incoming import routes
from node.net.incoming.doors import Bounds, Rooms
from node.net.incoming.rooms import Bound
from node.net.incoming.routes import Shared, answers
from node.net.traffic import Counts
from node.observe.access import Access
from node.observe.page import Page
from node.observe.prometheus import Figures, new_registry, node_families
from tests.unit.node.links import a_server, nothing, started, until

MANY = 30
ACCESS = Access("127.0.0.1", None, "")


class Source:
    """Counts how often it is read."""

    ended = False

    def __init__(self):
        self.looks = 0
        self.seen = asyncio.Event()
        self.may_end = asyncio.Event()

    async def view(self):
        self.looks += 1
        self.seen.set()
        await self.may_end.wait()
        return node_view()

    def now(self):
        return 0.0

    def status(self):
        self.looks += 1
        return {"looks": self.looks}


@pytest.fixture(autouse=True)
def fresh_for_long(monkeypatch):
    """However slow this machine is, nothing is too old."""
    for name in ("FRESH_S", "OLDEST_S"):
        monkeypatch.setattr(routes, name, 600.0)


@asynccontextmanager
async def served(*subjects):
    server = a_server(nothing, Counts())
    async with started(server, answers(*subjects)) as endpoint, ClientSession(f"http://{endpoint}") as client:
        yield client


async def got(client, path, **headers):
    async with client.get(path, headers=headers) as answer:
        return answer.status, await answer.text()


def page(source):
    return Page(source, ACCESS).routes


def figures(source):
    return Figures(new_registry(), source.view, node_families, ACCESS).routes


@pytest.mark.parametrize(("subject", "path"), [(page, "/v1/status"), (figures, "/metrics")])
async def test_many_who_ask_get_one_look(subject, path):
    source = Source()
    async with served(subject(source)) as client:
        asking = [asyncio.create_task(got(client, path)) for _ in range(MANY)]
        await source.seen.wait()
        source.may_end.set()
        answers_got = await asyncio.gather(*asking)
        answers_got += [await got(client, path) for _ in range(MANY)]
    assert {status for status, _ in answers_got} == {200}
    assert source.looks == 1


async def test_two_kinds_of_figures_are_made_whatever_is_asked_for():
    source = Source()
    source.may_end.set()
    asked_for = [f"application/openmetrics-text; version=1.0.{number}" for number in range(MANY)]
    async with served(figures(source)) as client:
        texts = [await got(client, "/metrics", Accept=accepts) for accepts in (*asked_for, "text/plain", "")]
    assert {status for status, _ in texts} == {200}
    assert {text.endswith("# EOF\n") for _, text in texts[:MANY]} == {True}
    assert {text.endswith("# EOF\n") for _, text in texts[MANY:]} == {False}
    assert source.looks == 1


async def test_what_goes_wrong_is_told_to_all_and_tried_again():
    tries = []

    async def make():
        tries.append(None)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise web.HTTPServiceUnavailable
        return "made"

    shared = Shared(make)
    first = await asyncio.gather(*(shared.get() for _ in range(MANY)), return_exceptions=True)
    assert {type(error) for error in first} == {web.HTTPServiceUnavailable}
    assert [await shared.get() for _ in range(MANY)] == ["made"] * MANY
    assert len(tries) == 2


async def test_who_leaves_does_not_take_the_answer_from_others():
    may_end = asyncio.Event()

    async def make():
        await may_end.wait()
        return "made"

    shared = Shared(make)
    first, second = asyncio.create_task(shared.get()), asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    first.cancel()
    may_end.set()
    assert await second == "made"


async def test_who_watches_the_page_is_not_closed_for_its_silence():
    source, soon = Source(), Bound(9, 9, 0.05)
    source.may_end.set()
    server = a_server(nothing, Counts(), None, Bounds(Rooms(asking=soon, idle=soon), sweep_s=0.01))
    async with (
        started(server, answers(page(source))) as endpoint,
        ClientSession(f"http://{endpoint}") as other,
        ClientSession(f"http://{endpoint}") as client,
        client.get("/v1/events") as watching,
    ):
        assert await watching.content.readline() == b"event: view\n"
        assert server.doors.counts["watching"] == 1
        await got(other, "/")
        await until(lambda: not server.doors.counts["idle"])  # whose time is over
        assert server.doors.counts["watching"] == 1
