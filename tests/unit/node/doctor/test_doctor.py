"""The doctor against real sockets: nodes' own servers, other programs, proxies, and addresses of nobody."""

import asyncio
import datetime
import email.utils
import json
import socket
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from node.doctor.__main__ import main
from node.doctor.assess import between, clock, round_trip, state, throughput, upload
from node.doctor.examine import examine_all
from node.doctor.finding import Examined, Finding
from node.doctor.reach import look_up, reach
from node.doctor.requests import LARGEST_PART, Answer, pong_rate
from node.doctor.table import advice, as_json, table
from node.net.incoming.routes import answers
from node.net.versions import HEADER
from node.observe.health import health
from node.observe.page import PARTS
from node.system.addresses import PeerAddress
from tests.e2e.processes import free_endpoint
from tests.strange_tls import strange_server
from tests.unit.node.cases import cases
from tests.unit.node.links import ONE, OTHER, End, accepting, far_side

OK = {"status": "ok"}


def says(path, body, status=200, **headers):
    async def answer(_):
        return web.json_response(body, status=status, headers=headers)

    return web.get(path, answer)


HEALTHY = says("/healthz", OK)


def page(status=200, size=50_000):
    async def part(_):
        return web.Response(status=status, body=bytes(size))

    return web.get(LARGEST_PART, part)


async def nothing_missing():
    return ()


@asynccontextmanager
async def a_node(key=ONE, tls=None, part=None):
    """Serves a node's own transport with its own health; `part` is the route of the page's largest file."""
    end = End(key, tls)
    await end.transport.start(end.listener, answers(health(nothing_missing), [part or page()]))
    try:
        yield end.endpoint
    finally:
        await end.transport.close()
        end.listener.close()


async def seen(endpoint, key=None, tls="auto"):
    """Examines one for a model of one parameter: how fast this machine is says nothing."""
    (found,) = await examine_all([PeerAddress(endpoint, key)], tls, "--peers", 1)
    (line,) = advice([found])
    return found, line


@pytest.mark.parametrize("tls", [None, "on"])
@pytest.mark.parametrize("pinned", [False, True])
async def test_a_node_that_is_well(tls, pinned):
    async with a_node(tls=tls) as endpoint:
        found, line = await seen(endpoint, ONE.public if pinned else None, tls or "auto")
    key = ONE.public.hex()[:8]
    expected = [
        "an address",
        "1.3" if tls else "none",
        "yes",
        f"{key} pinned" if pinned else key,
        "ready",
        "agrees",
    ]
    assert [found.cell(name) for name in ("name", "TLS", "answers", "key", "state", "clock")] == expected
    assert found.cell("port").endswith(" ms")
    assert found.cell("round trip").endswith(" ms")
    assert found.cell("throughput").startswith(">= ")
    assert found.cell("upload").startswith(">= ")
    assert found.key == ONE.public
    more = "" if pinned else f"; its key, not pinned here, is {ONE.public.hex()}"
    assert str(line) == f"ok       {endpoint}: nothing to do{more}"


@pytest.mark.parametrize("tls", [None, "on"])
async def test_another_key_than_the_given_one(tls):
    async with a_node(tls=tls) as endpoint:
        found, line = await seen(endpoint, OTHER.public, tls or "auto")
    how = "holds" if tls else "proves"
    keys = f"{ONE.public.hex()[:16]}..., not {OTHER.public.hex()[:16]}..."
    assert found.cell("TLS" if tls else "key") == "another key"
    assert line.text == f"the far end {how} the key {keys}; correct --peers, or find out who listens there"
    assert line.level == "problem"


@pytest.mark.parametrize(("there", "here"), [("on", "off"), (None, "on")])
async def test_the_two_ends_differ_in_tls(there, here):
    async with a_node(tls=there) as endpoint:
        _, line = await seen(endpoint, None, here)
    how, choice = ("under TLS", "on") if there else ("without TLS", "off")
    assert str(line) == (
        f"problem  {endpoint}: the node there answers {how}: use the same --tls at both ends "
        f"(here: --tls {choice})"
    )


async def test_a_node_shows_no_count_of_what_was_dropped():
    """The doctor may look as often as it likes: what it asks is nothing that breaks a rule."""
    end = End(ONE, "on")
    await end.transport.start(end.listener, answers(health(nothing_missing), [page()]))
    await seen(end.endpoint, None, "on")
    dropped = end.dropped
    await end.transport.close()
    end.listener.close()
    assert dropped == {}


def test_what_is_measured_is_a_part_that_every_node_gives_out():
    assert LARGEST_PART.removeprefix("/page/") in PARTS


async def test_a_connection_that_breaks_while_it_is_measured_and_one_without_a_page(monkeypatch):
    async def cut(request):
        request.transport.abort()
        return web.Response()

    async with a_node(part=web.get(LARGEST_PART, cut)) as endpoint:
        found, line = await seen(endpoint)
    assert found.cell("throughput") == "broken"
    assert line.text.startswith("the connection broke or stood still (Server disconnected): look at")
    monkeypatch.setenv("HTTP_PROXY", f"http://{free_endpoint()}")  # which no node uses
    async with a_node(part=page(status=421)) as endpoint:
        found, line = await seen(endpoint)
    assert (found.cell("throughput"), line.level) == ("not measured", "ok")


@asynccontextmanager
async def little_in_front_of(endpoint, most):
    """Passes on what comes and goes, and cuts each connection on which more bytes than that are sent."""
    host, port = endpoint.rsplit(":", 1)

    async def carry(reader, writer, left):
        while (piece := await reader.read(4096)) and (left := left - len(piece)) > 0:
            writer.write(piece)
        writer.close()

    async def pass_on(reader, writer):
        there = await asyncio.open_connection(host, int(port))
        await asyncio.gather(carry(reader, there[1], most), carry(there[0], writer, 1 << 30))

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_line_on_which_nothing_large_can_be_sent():
    async with a_node() as endpoint, little_in_front_of(endpoint, 10_000) as there:
        found, line = await seen(there)
    assert found.cell("throughput").startswith(">= ")
    assert found.cell("upload") == "broken"
    assert line.text.startswith("the connection broke or stood still (")


async def test_a_name_that_does_not_resolve():
    found, line = await seen("nowhere.invalid:9001")
    assert (found.cell("name"), found.cell("port"), line.level) == ("unknown", "-", "problem")
    assert line.text.startswith("the name does not resolve (")


async def test_a_name_that_stands_for_this_machine_alone():
    """Debian's installer writes a machine's own name beside 127.0.1.1 into /etc/hosts."""
    addresses, finding = await look_up("127.1:9001")  # not canonical, so it passes for a name
    assert (addresses, finding.level) == ([("127.0.0.1", 9001)], "warning")
    assert finding.advice.startswith("the name stands for this machine alone (127.0.0.1; look at /etc/hosts)")


@pytest.mark.parametrize("proxy", [False, True])
async def test_a_closed_port(proxy, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    if proxy:
        monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
    endpoint = free_endpoint()
    found, line = await seen(endpoint)
    assert (found.cell("port"), line.level) == ("refused", "problem")
    about = "; HTTPS_PROXY is set here, but nodes connect directly and use no proxy: ask for a direct way to "
    told = "nobody listens on this port: start the node there, or correct the port"
    assert line.text == told + (f"{about}{endpoint}" if proxy else "")
    assert "secret" not in line.text


async def test_a_closed_port_of_this_machine_is_no_problem():
    """Its own node is perhaps not started yet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it finds the address that leads out
        mine = probe.getsockname()[0]
    if mine.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    found, line = await seen(free_endpoint(mine))
    assert (found.cell("port"), line.level) == ("refused", "warning")
    assert line.text.startswith("nobody listens here on this machine yet")


async def test_a_name_of_which_one_address_is_dead():
    async with a_node() as endpoint:
        port = int(endpoint.rpartition(":")[2])
        address, finding = await reach(endpoint, [("127.0.0.2", port), ("127.0.0.1", port)])
    assert (address, finding.level) == (("127.0.0.1", port), "warning")
    assert finding.advice.startswith("1 of the name's 2 addresses cannot be reached")


async def test_a_program_that_speaks_tls_but_is_no_node(tmp_path):
    async with far_side(ssl=strange_server()) as endpoint:
        found, line = await seen(endpoint, None, "on")
    assert found.cell("TLS") == "ends early"
    assert line.text == (
        "another program, or a proxy in between, ends TLS there, its certificate (CN=proxy.example) is no "
        "node's: correct the address, or let the proxy pass TCP through unchanged"
    )


async def test_a_proxy_that_ends_tls_in_front_of_a_node(tmp_path):
    async with far_side(HEALTHY, accepting(OTHER), ssl=strange_server()) as endpoint:
        _, line = await seen(endpoint, OTHER.public, "on")
    assert line.text == (
        "a proxy in between ends TLS (its certificate (CN=proxy.example) is no node's), and node "
        f"{OTHER.public.hex()[:16]}... is behind it: let the proxy pass TCP through unchanged"
    )


async def test_a_program_that_speaks_neither_tls_nor_http():
    async def greet(reader, writer):
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        _, plain = await seen(endpoint, None, "off")
        _, covered = await seen(endpoint, None, "on")
    assert plain.text.startswith("the program there does not answer HTTP: a node that starts or")
    assert covered.text.startswith("the program there does not speak TLS 1.3: a node that starts or")


async def test_a_program_that_says_nothing():
    """A listening socket accepts connections before its program is ready for them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
        _, line = await seen(endpoint)
    assert line.text == "connected, but no answer in 5 s: it is overloaded; try again in a minute"


def sends(body):
    async def answer(_):
        return web.Response(body=body)

    return web.get("/healthz", answer)


async def older(_):
    return web.Response(status=426, headers={"Upgrade": "websocket", HEADER: "1"})


async def pretends(request):
    ws = web.WebSocketResponse(protocols=request.headers["Sec-WebSocket-Protocol"].split(","))
    await ws.prepare(request)
    await ws.receive()
    await ws.send_bytes(b"\x02" + ONE.public + bytes(32 + 64))
    await ws.receive()
    return ws


ANOTHER = "another program answers there: correct the address, or look for a proxy in between"


@pytest.mark.parametrize(
    ("routes", "step", "cell", "level", "text"),
    [
        ([says("/", {})], "answers", "no node", "problem", ANOTHER),
        ([sends(b"x" * 200_000)], "answers", "no node", "problem", ANOTHER),
        ([sends(b"[" * 60_000)], "answers", "no node", "problem", ANOTHER),
        ([sends(b'{"status": "ok"' + b" " * 70_000 + b"}")], "answers", "no node", "problem", ANOTHER),
        (
            [says("/healthz", OK, Via="1.1 cache.example")],
            *("answers", "by a proxy", "problem"),
            "an HTTP proxy in between answers for the node (1.1 cache.example): let the",
        ),
        (
            [HEALTHY, web.get("/v1/link", older)],
            *("key", "other version", "problem"),
            "it runs an older version (protocol 1, this node ",
        ),
        (
            [HEALTHY, says("/v1/link", {}, 503)],
            *("key", "busy", "warning"),
            "the far end takes no more links for now: try again in a minute",
        ),
        (
            [HEALTHY, web.get("/v1/link", pretends)],
            *("key", "not proved", "problem"),
            "the far end does not prove its key",
        ),
    ],
)
async def test_who_answers_and_is_no_node_that_takes_a_link(routes, step, cell, level, text):
    async with far_side(*routes) as endpoint:
        found, line = await seen(endpoint, ONE.public if cell == "not proved" else None)
    assert (found.cell(step), line.level) == (cell, level)
    assert line.text.startswith(text)
    if cell == "by a proxy":
        assert found.cell("key") == "no link"
        assert "it answers a link with status 404" in line.text


def test_a_node_that_waits_says_why_and_its_words_are_made_harmless():
    health = Answer({"status": "ok", "waiting": "for\x1b[31m more"}, {}, 0.0)
    ready = Answer({"ready": False, "why": ["still meeting the others"]}, {}, 0.0)
    assert state(health, ready) == Finding(
        "state", "waits", "ok", "it waits (still meeting the others; for\\x1b[31m more)"
    )
    assert state(Answer(OK, {}, 0.0), Answer({"why": 7}, {}, 0.0)).advice == "it waits (it does not say why)"


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({}, ""),
        ({"Server": "Python/3.12 aiohttp/3.14.5"}, ""),
        ({"Server": "nginx/1.27"}, "nginx/1.27"),
        ({"Server": "Python/3.12 aiohttp/3.14.5", "Via": "1.1 squid"}, "1.1 squid"),
        ({"Via": "1.1 \x1b[2J" + "x" * 100}, "1.1 ?[2J" + "x" * 52),
    ],
)
def test_who_answers_in_between_names_itself(headers, named):
    assert between(headers) == named


def test_slow_ways_are_warned_of():
    assert round_trip(0.0004).cell == "0.4 ms"
    assert (round_trip(1.5).cell, round_trip(1.5).level) == ("1500 ms", "warning")
    fast, slow, slowest = (throughput(rate, 1_000_000, 4) for rate in (25e6, 50e3, 20e3))
    assert (fast.cell, fast.level) == (">= 25 MB/s", "ok")
    assert (slow.cell, slow.level) == (">= 50 kB/s", "warning")
    assert slow.advice == "its part of a sum of 1,000,000 parameters takes 120 s: take a smaller model"
    assert slowest.advice.startswith("its upload needs 300 s (6.0 MB at 20.0 kB/s), the others wait 203: set")
    own = upload(20e3, 1_000_000, 4)
    assert (own.column, own.cell, own.level) == ("upload", ">= 20 kB/s", "warning")
    assert own.advice.startswith("your upload needs 300 s (6.0 MB at 20.0 kB/s), the others wait 203: set")
    assert throughput(20e3, 650, 4).level == "ok", "a part of 3.9 kB"
    assert clock(None).cell == "unknown"


@pytest.mark.parametrize(
    ("tries", "counts", "rate"),
    [
        ((0.1, 0.2, 0.25, 0.4), (128, 512, 2048, 8192), 8192 * 125 / 0.4),
        ((0.1, 0.2, 0.8, 0.9), (128, 512, 2048, 2048), 2048 * 125 / 0.8),
        ((3.0, 0.1, 0.2, 2.0, 0.25, 0.5, 0.6), (128, 128, 512, 2048, 2048, 8192, 8192), 8192 * 125 / 0.5),
    ],
    ids=["fast", "slow", "pauses"],
)
async def test_an_upload_is_measured_for_half_a_second_and_not_by_a_pause(tries, counts, rate):
    told, left = [], list(tries)

    async def sent_s(count: int) -> float:
        told.append(count)
        return left.pop(0)

    assert await pong_rate(sent_s) == rate
    assert tuple(told) == counts


def examined(number, ahead_s):
    return Examined(f"10.0.0.{number}:9001", (clock(ahead_s),), bytes(32), ahead_s)


def test_a_wrong_clock_is_named_and_so_is_this_machine_s_own():
    one = [examined(1, 0.4), examined(2, 100.0), examined(3, None)]
    lines = [str(line) for line in advice(one)]
    assert lines[1].startswith("warning  10.0.0.2:9001: its clock is 100 s ahead of this machine's: set it;")
    assert [line.split()[0] for line in lines] == ["ok", "warning", "ok"]
    assert table(one)[2].split()[-5:] == ["+100", "s", "-", "-", "-"]
    mine = [str(line) for line in advice([examined(number, -300.0) for number in (1, 2, 3)])]
    assert mine[0].startswith("warning  this machine: its clock is 300 s ahead of those of 3 of 3 peers")
    assert [line.split()[0] for line in mine[1:]] == ["ok"] * 3


@pytest.mark.parametrize("ahead_s", [600, -600])
async def test_the_clock_is_read_from_the_date_of_an_answer(ahead_s):
    async def date(_):
        now = datetime.datetime.now(datetime.UTC).timestamp() + ahead_s
        return web.json_response(OK, headers={"Date": email.utils.formatdate(now, usegmt=True)})

    async with far_side(web.get("/healthz", date), accepting(), page()) as endpoint:
        found, line = await seen(endpoint)
    assert found.ahead_s == pytest.approx(ahead_s, abs=5)
    assert (line.level, "its clock is " in line.text) == ("warning", True)


def test_the_table_is_aligned_and_json_has_the_same_cells():
    found = [examined(1, 0.0), examined(22, 50.0)]
    lines = table(found)
    assert len({line.index("agrees" if "agrees" in line else "+50 s") for line in lines[1:]}) == 1
    objects = [json.loads(line) for line in as_json(found)]
    assert [each["who"] for each in objects] == [each.who for each in found]
    assert objects[1]["steps"]["clock"] == "+50 s"


def test_the_command_prints_a_table_and_a_line_for_each(capsys):
    one, other = free_endpoint(), free_endpoint()
    assert main(["--peers", f"{one},{other}"]) == 1
    start, head, *lines = capsys.readouterr().out.splitlines()
    assert start == "starting: an examination of the way to 2 peers"
    assert head.startswith("peer ")
    assert [line.split()[0] for line in lines[:2]] == [one, other]
    assert [line.split(": ")[0] for line in lines[3:]] == [f"problem  {one}", f"problem  {other}"]
    assert main(["--json", "--tracker", f"http://{one}"]) == 1
    assert json.loads(capsys.readouterr().out)["level"] == "problem"


@cases("""
    argv => line
    => give exactly one of FOLDER, --peers HOST:PORT,... and --tracker KEY@URL
    --peers 127.0.0.1:1 --tracker http://127.0.0.1:2 => give exactly one of
    --peers 127.0.0.1 => --peers '127.0.0.1' is refused; allowed: HOST:PORT
    --tracker x@http://127.0.0.1:2 => --tracker 'x@http://127.0.0.1:2' is refused
""")
def test_bad_arguments_are_one_line(one_line, argv, line):
    told = one_line(main, argv.split())
    assert told.startswith(f"error: {line}")
