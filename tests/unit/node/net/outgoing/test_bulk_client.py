"""The bulk client: well-formed requests, one connection for many, and what ends a connection."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from node.net.outgoing.bulk_client import MAX_ANSWER_BYTES, BulkClient, Kind, Pass, _Connection
from protocol.wire.codec import Frame

FINE = b"HTTP/1.1 204 No Content\r\nDate: today\r\n\r\n"
SMALL = Frame(b"head", b"payload")
LINK = Pass(b"k" * 32, b"t" * 32)
LARGE = Frame(b"head", memoryview(bytearray(1_300_000)))


class Script:
    """A server that answers each request with the next line of a script; None closes without an answer."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.connections = 0
        self.requests = []
        self.open = set()

    async def talk(self, reader, writer):
        self.connections += 1
        self.open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.requests.append((head, await reader.readexactly(length)))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                for part in answer if isinstance(answer, tuple) else (answer,):
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open.discard(writer)
            writer.close()


@asynccontextmanager
async def served(*answers, timeout_s=20.0):
    script = Script(*answers)
    server = await asyncio.start_server(script.talk, "127.0.0.1", 0)
    endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = BulkClient(endpoint, 20.0, timeout_s, None)
    try:
        yield client, script
    finally:
        client.close()
        server.close()
        for writer in list(script.open):
            writer.transport.abort()
        await server.wait_closed()


async def test_requests_go_out_whole_and_on_one_connection():
    async with served(FINE, b"HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n", FINE) as (client, script):
        assert [(await client.post(frame, LINK)).status for frame in (SMALL, LARGE, SMALL)] == [204, 425, 204]
        assert script.connections == 1
        small, large = b"headpayload", b"head" + bytes(1_300_000)
        assert [body for _, body in script.requests] == [small, large, small]
        head = script.requests[0][0]
        assert head.startswith(b"POST /v1/bulk HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"\r\nContent-Length: 11\r\n" in head
        assert b"\r\nAuthorization: Bearer " + LINK.ticket.hex().encode() + b"\r\n" in head


@pytest.mark.parametrize(
    ("said", "kind", "retry_after_s"),
    [
        ("200 OK", Kind.TAKEN, None),
        ("204 No Content", Kind.TAKEN, None),
        ("302 Found\r\nLocation: http://127.0.0.1:1/v1/bulk", Kind.ODD, None),
        ("400 Bad Request", Kind.REFUSED, None),
        ("404 Not Found", Kind.ODD, None),
        ("408 Request Timeout", Kind.ODD, None),
        ("413 Too Large", Kind.UNFIT, None),
        ("415 Unsupported", Kind.UNFIT, None),
        ("425 Too Early", Kind.EARLY, None),
        ("429 Too Many\r\nRetry-After: 7", Kind.BUSY, 7.0),
        ("500 Oops", Kind.ODD, None),
        ("503 Busy\r\nretry-after: 0", Kind.BUSY, 0.0),
        ("503 Busy\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT", Kind.BUSY, None),
        ("503 Busy\r\nRetry-After: 99999999999", Kind.BUSY, None),
        ("503 Busy\r\nRetry-After: -1", Kind.BUSY, None),
    ],
)
async def test_every_answer_is_of_a_kind(said, kind, retry_after_s):
    async with served(f"HTTP/1.1 {said}\r\nContent-Length: 0\r\n\r\n".encode()) as (client, _):
        answer = await client.post(SMALL, LINK)
        assert (answer.kind, answer.retry_after_s) == (kind, retry_after_s)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge",
        b"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
async def test_after_any_other_answer_or_none_the_next_request_has_a_connection_of_its_own(answer):
    """Otherwise the rest of the answer would be read as the next one."""
    async with served(answer, FINE, None, FINE) as (client, script):
        statuses = [(await client.post(SMALL, LINK)).status for _ in range(3)]
        assert statuses == [int(answer.split()[1]), 204, 204]
        assert (script.connections, len(script.requests)) == (3, 4)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, None),
        *((answer, "no node") for answer in (b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n")),
        (b"x" * (MAX_ANSWER_BYTES + 1), "no node"),
    ],
)
async def test_what_is_no_answer_on_a_fresh_connection_is_an_error_and_bounded(answer, why):
    async with served(answer) as (client, _):
        with pytest.raises(ConnectionError, match=why):
            await client.post(SMALL, LINK)


async def test_an_answer_may_come_in_pieces():
    async with served(tuple(bytes([byte]) for byte in FINE), FINE) as (client, script):
        assert [(await client.post(SMALL, LINK)).status for _ in range(2)] == [204, 204]
        assert script.connections == 1


async def test_who_does_not_answer_is_not_waited_for_and_the_late_answer_is_nobodys():
    async with served(b"", timeout_s=0.5) as (client, script):
        with pytest.raises(TimeoutError):
            await client.post(SMALL, LINK)
        script.answers[:] = FINE, FINE  # one for the request before, if it is read as late as now
        client._timeout_s = 20.0
        assert (await client.post(SMALL, LINK)).status == 204
        assert script.connections == 2


@pytest.mark.parametrize("endpoint", ["evil\r\nX-Evil: 1:80", "no port", "[::1:80", "10.0.0.1:99999"])
async def test_an_address_that_a_peer_made_up_is_an_error_of_the_connection(endpoint):
    with pytest.raises(ConnectionError, match="refused"):
        await BulkClient(endpoint, 1.0, 1.0, None).post(SMALL, LINK)


class ForeignTransport(asyncio.BaseTransport):
    """The transport of an event loop that has classes of its own, as in a program that installs uvloop."""

    def is_closing(self):
        return False


def test_a_connection_takes_the_transport_of_any_event_loop():
    connection = _Connection()
    connection.connection_made(ForeignTransport())
    assert connection.is_open
