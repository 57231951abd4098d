"""Links on real sockets: their keys, the owners of their connections, replies, and ends."""

import asyncio
import errno
import os
import re
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from aiohttp import WSServerHandshakeError, web

from node.net.incoming import server, visits
from node.net.outgoing import link, resending
from node.net.outgoing.link import LIMITS
from node.net.tls import WrongPeer
from node.net.versions import HEADER, SUBPROTOCOL
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.swarm.meeting.discovery import NOBODY_LISTENS
from protocol.wire import codec, handshake
from protocol.wire.bulk import Held
from protocol.wire.endpoints import of_key
from protocol.wire.limits import VERSION
from protocol.wire.messages import Accepted
from tests.unit.node import links
from tests.unit.node.links import BULK, ONE, OTHER, THIRD, End, answering, bulk, node_state, small, until

pytestmark = [pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")]


def two():
    return node_state(End(ONE), End(OTHER))


@asynccontextmanager
async def facing(*routes, ssl=None, tls=None, expected=()):
    """Runs a peer that is no node, or a faulty one, and an end that may dial it."""
    async with (
        links.far_side(*routes, ssl=ssl) as endpoint,
        node_state(End(ONE, tls, expected=expected)) as (here,),
    ):
        yield here, endpoint


@asynccontextmanager
async def visited():
    """Runs an end, and opens a websocket to it, before any handshake."""
    async with node_state(End()) as (there,), links.dialled(there.endpoint) as ws:
        yield there, ws


def frame(message):
    return codec.encode(message).join()


def nobody_visits(there):
    return until(lambda: not there.transport._server._incoming)


def answers(status, headers):
    async def answer(request):
        return web.Response(status=status, headers=headers)

    return web.get("/v1/link", answer)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_dial_follows_a_redirect(status):
    """A server with the wrong key once redirected the dialler and its frames to an address without TLS."""
    async with node_state(End(OTHER)) as (there,):
        elsewhere = answers(status, {"Location": f"http://{there.endpoint}/v1/link"})
        wrong = links.tls_of(THIRD).server
        async with facing(elsewhere, ssl=wrong, tls="on", expected={OTHER.public}) as (here, endpoint):
            here.transport.send(endpoint, (small(1),))
            told = f"the far end is no node: it redirects ({status}), which is not followed"
            assert await here.lost.get() == (endpoint, told)
            assert there.got.empty()
            assert here.lost.empty()


def test_a_link_for_which_tls_was_asked_and_that_has_none_is_refused():
    with pytest.raises(WrongPeer, match="without TLS, although this link requires it"):
        links.tls_of(ONE).check("127.0.0.1:2", None)
    assert links.tls_of(ONE, "auto").check("127.0.0.1:2", None) is None


async def test_under_tls_the_key_of_the_handshake_is_the_certificate_s():
    async with facing(links.accepting(THIRD), ssl=links.tls_of(OTHER).server, tls="on") as (here, endpoint):
        here.transport.send(endpoint, (small(1),))
        _, why = await here.lost.get()
        assert why == f"the far end shows the key {THIRD.public.hex()[:16]}... under a certificate of another"


async def test_the_bulk_of_a_link_goes_to_who_answered_the_link():
    """Several keys may answer at one address under TLS, but the ticket is for one of them."""
    takes, frames = answering((204, {}))
    ssl = links.tls_of(OTHER).server
    async with facing(links.accepting(OTHER), takes, ssl=ssl, tls="on") as (here, endpoint):
        here.transport.send(endpoint, (bulk(1),))
        await until(lambda: frames)
        assert frames == [bulk(1)]


@pytest.mark.parametrize("tls", [None, "on"], ids=["plain", "tls"])
async def test_what_comes_over_a_link_is_by_the_key_that_was_proved_on_it(tls):
    async with node_state(End(ONE, tls), End(OTHER, tls)) as (here, there):
        here.transport.send(there.endpoint, (small(1), bulk(1)))
        came = [await there.got.get() for _ in range(2)]
        assert small(1) in [message for message, _ in came]
        assert bulk(1) in [message for message, _ in came]
        assert {back.key for _, back in came} == {ONE.public}


async def replayed(ws):
    """Returns a proof that was made for another link of the same two."""
    nonce = b"d" * 32
    await ws.send_bytes(handshake.knock(nonce))
    handshake.read_challenge(await ws.receive_bytes(), nonce)
    await ws.send_bytes(handshake.proof(OTHER, nonce, handshake.Challenge(ONE.public, os.urandom(32))))


async def with_the_wrong_label(ws):
    nonce = b"d" * 32
    await ws.send_bytes(handshake.knock(nonce))
    met = handshake.read_challenge(await ws.receive_bytes(), nonce)
    body = met.nonce + nonce + met.key + OTHER.public
    await ws.send_bytes(b"\x03" + OTHER.public + OTHER.sign(b"link-acceptor", body))


async def with_a_message_first(ws):
    await ws.send_bytes(frame(small(1)))


async def with_a_message_for_a_proof(ws):
    await ws.send_bytes(handshake.knock(b"d" * 32))
    await ws.send_bytes(frame(small(1)))


async def with_words(ws):
    await ws.send_str("hello")


@pytest.mark.parametrize(
    "says", [replayed, with_the_wrong_label, with_a_message_first, with_a_message_for_a_proof, with_words]
)
async def test_who_proves_no_key_is_not_heard(says):
    async with visited() as (there, ws):
        await says(ws)
        await ws.send_bytes(frame(small(2)))
        said = await links.ends(ws)
        assert not any(frame.startswith(b"\x04") for frame in said)
        assert there.dropped == {visits.NO_KEY: 1}
        assert there.got.empty()


async def test_a_websocket_that_says_nothing_is_closed(monkeypatch):
    monkeypatch.setattr(visits, "PROVE_S", 0.05)
    async with visited() as (there, ws):
        assert await links.ends(ws) == []
        assert there.dropped == {visits.NO_KEY: 1}
        await nobody_visits(there)


async def ends_at_once(ws):
    await ws.close()
    return ()


async def shows_no_key(ws):
    first = await ws.receive_bytes()
    await ws.send_bytes(handshake.challenge(OTHER, b"x" * 32, b"a" * 32))
    return first, *[frame.data async for frame in ws]


async def hears(ws):
    return [frame.data async for frame in ws]


ALL = "upgrade all nodes of the swarm together"
OLDER = f"runs an older version (this node: protocol {VERSION}): {ALL}"
ANOTHER = f"runs another version (this node: protocol {VERSION}): {ALL}"
NEWER = (
    f"runs a newer version (protocol {VERSION + 1}, this node {VERSION}): upgrade this node, and all others "
    "with it"
)


@pytest.mark.parametrize(
    ("does", "protocols", "told", "heard"),
    [
        (ends_at_once, (SUBPROTOCOL,), "the far end ends the link in its handshake", []),
        (
            shows_no_key,
            (SUBPROTOCOL,),
            "the far end does not prove its key: bad link-acceptor signature",
            [33],
        ),
        (hears, (), OLDER, []),
    ],
)
async def test_an_acceptor_that_does_not_go_through_the_handshake_hears_nothing(does, protocols, told, heard):
    said = []

    async def then(ws):
        said.extend(await does(ws))

    async with facing(links.acceptor(then, protocols)) as (here, endpoint):
        here.transport.send(endpoint, (small(1),))
        where, why = await here.lost.get()
        assert (where, why[: len(told)]) == (endpoint, told)
        assert [len(frame) for frame in said] == heard


async def test_a_post_is_by_who_its_ticket_was_given_to_as_long_as_the_link_stands():
    async with node_state(End()) as (there,):
        async with links.dialled(there.endpoint) as ws:
            shown = {"Authorization": f"Bearer {(await links.prove(ws, OTHER)).hex()}"}
            await ws.send_bytes(frame(small(1)))
            message, back = await there.got.get()
            assert (message, back.key) == (small(1), OTHER.public)
            assert await links.post(there.endpoint, BULK, shown) == 204
            assert (await there.got.get())[1].key == OTHER.public
        await nobody_visits(there)
        assert await links.post(there.endpoint, BULK, shown) == 204
        assert (await there.got.get())[1].key is None
        back.send((small(2), small(3)))
        assert there.dropped == {"a reply to who has no link": 2}


@pytest.mark.parametrize("shown", [None, "Bearer " + "00" * 32, "Bearer zz", "Basic dTpw"])
async def test_a_post_without_a_ticket_is_nobody_s_and_no_error(shown):
    async with node_state(End()) as (there,):
        there.replies.append((BULK, (small(1),)))
        headers = {} if shown is None else {"Authorization": shown}
        assert await links.post(there.endpoint, BULK, headers) == 204
        message, back = await there.got.get()
        assert (message, back.key) == (BULK, None)
        assert there.dropped == {"a reply to who has no link": 1}


@pytest.mark.parametrize(
    ("protocols", "told"),
    [
        ((), OLDER),
        (("chat",), OLDER),
        (("murmuration.2",), f"runs an older version (protocol 2, this node {VERSION}): {ALL}"),
        ((f"murmuration.{VERSION + 1}", "murmuration.1"), NEWER),
    ],
)
async def test_who_asks_for_another_version_is_told_so_and_the_owner_too_once(protocols, told):
    async with node_state(End()) as (there,):
        for _ in range(3):
            with pytest.raises(WSServerHandshakeError) as refused:
                async with links.dialled(there.endpoint, protocols):
                    pass
            assert refused.value.status == 426
            assert refused.value.headers[HEADER] == str(VERSION)
        assert there.warnings == [f"a node that comes from 127.0.0.1 {told}"]
        assert there.dropped == {"a link of another version of the protocol": 3}


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        (426, {HEADER: "5"}, f"runs an older version (protocol 5, this node {VERSION}): {ALL}"),
        (426, {HEADER: f"{VERSION + 1}"}, NEWER),
        (426, {HEADER: f"{VERSION}"}, ANOTHER),
        (426, {}, ANOTHER),
        (426, {HEADER: "5, 6"}, ANOTHER),
        (426, {HEADER: "5" * 7}, ANOTHER),
        (503, {}, "the far end takes no more links for now"),
        (404, {}, "the far end is no node: it answers a link with status 404"),
        (200, {}, "the far end is no node: it answers a link with status 200"),
    ],
)
async def test_why_a_dialler_was_refused_is_told_once(status, headers, told):
    async with facing(answers(status, headers)) as (here, endpoint):
        here.transport.send(endpoint, (small(1),))
        where, why = await here.lost.get()
        assert (where, why[: len(told)]) == (endpoint, told)
        assert here.lost.empty()


@pytest.mark.parametrize("asked", [small(1), bulk(1)], ids=["websocket", "post"])
async def test_a_reply_goes_back_on_the_link_that_brought_the_question_and_nobody_is_dialled(asked):
    async with two() as (here, there):
        there.replies.append((asked, (small(7), small(8))))
        here.replies.append((small(8), (small(3), bulk(4))))
        here.transport.send(there.endpoint, (asked,))
        came = [await here.got.get() for _ in range(2)]
        assert [message for message, _ in came] == [small(7), small(8)]
        assert {back.key for _, back in came} == {OTHER.public}
        first, *answered = await there.take(3)
        assert first == asked
        assert small(3) in answered
        assert bulk(4) in answered
        assert (there.links, len(here.links)) == ({}, 1)
        assert here.transport.counts.received == there.transport.counts.sent


async def test_a_reply_goes_to_the_link_that_asked_and_to_no_other():
    async with visited() as (there, first), links.dialled(there.endpoint) as second:
        await links.prove(first, OTHER)
        await links.prove(second, THIRD)
        there.replies.append((small(1), (small(2),)))
        there.replies.append((small(5), (small(6),)))
        await first.send_bytes(frame(small(1)))
        await second.send_bytes(frame(small(5)))
        assert codec.decode(await first.receive_bytes()) == small(2)
        assert codec.decode(await second.receive_bytes()) == small(6)


async def test_what_waits_to_go_back_is_bounded_and_too_large_is_too_large():
    async with visited() as (there, ws):
        await links.prove(ws, OTHER)
        await ws.send_bytes(frame(small(1)))
        _, back = await there.got.get()
        back.send((*(small(number) for number in range(visits.BACK_FRAMES + 5)), BULK))
        assert there.dropped == {"queue back to a peer is full": 5, "a reply too large for a link": 1}
        assert codec.decode(await ws.receive_bytes()) == small(0)


async def test_what_an_acceptor_sends_is_held_to_the_same_rules():
    async def then(ws):
        await ws.send_bytes(b"nonsense")
        await ws.send_str("words")
        for number in (1, 2, 3):
            await ws.send_bytes(frame(small(number)))

    async with facing(links.accepting(then=then)) as (here, endpoint):
        here.refuses = [TooEarly("too early here"), RemoteProtocolError("never")]
        here.transport.send(endpoint, (small(9),))
        assert await here.take(1) == [small(3)]
        whys = ("a frame whose header is cut off or too long", "not a binary frame")
        assert here.dropped == dict.fromkeys((*whys, "too early here", "never"), 1)


async def test_a_link_that_lost_a_message_ends_and_the_machine_learns_of_it():
    """It came too early at the peer, and so many came after it that it is not kept any more."""

    async def then(ws):
        await ws.send_bytes(handshake.again(99))

    async with facing(links.accepting(then=then)) as (here, endpoint):
        here.transport.send(endpoint, (small(9),))
        assert await here.lost.get() == (endpoint, link.FORGOTTEN)
        assert here.dropped == {link.FORGOTTEN: 1}


async def test_large_and_lazy_messages_share_one_connection_and_one_owner():
    """A served piece was once queued as control, because it came in a tuple: two tasks shared a request."""
    async with two() as (here, there):
        sent = [bulk(number) for number in range(12)]
        here.transport.send(there.endpoint, (message for message in sent[:4]))
        for message in sent[4:8]:
            here.transport.send(there.endpoint, (message,))
        here.transport.send(there.endpoint, tuple(sent[8:]), bulk=True)
        here.transport.send(there.endpoint, (small(1),))
        came = await there.take(13)
        assert sorted(message.head.index for message in came if message != small(1)) == list(range(12))
        assert small(1) in came
        assert here.lost.empty()
        assert here.dropped == {}


async def test_any_fault_in_a_link_ends_it_and_is_told_and_the_next_message_opens_another():
    async with two() as (here, there):
        here.transport.send(there.endpoint, (small(1),))
        assert await there.take(1) == [small(1)]

        def broken():
            yield bulk(1)
            raise ZeroDivisionError("a piece that cannot be made")

        here.transport.send(there.endpoint, broken())
        here.transport.send(there.endpoint, (message for message in (bulk(2),)))
        fault = "a fault of this node: ZeroDivisionError: a piece that cannot be made"
        assert await here.lost.get() == (there.endpoint, fault)
        assert here.dropped == {link.FAULT: 1}
        here.transport.send(there.endpoint, (small(3),))
        came = await there.take(1)
        while came[-1] != small(3):
            came += await there.take(1)
        assert here.transport.bulk_budget.taken_bytes == 0
        here.transport.send(there.endpoint, (Accepted(object()),))  # which cannot be encoded
        assert (await here.lost.get())[1].startswith("a fault of this node: TypeError: ")
        assert here.dropped == {link.FAULT: 2}


async def test_what_broke_a_rule_is_counted_and_the_next_one_goes_on():
    takes, frames = answering((400, {}), (204, {}))
    async with facing(links.accepting(), takes) as (here, endpoint):
        here.transport.send(endpoint, (bulk(1), bulk(2)), bulk=True)
        await until(lambda: len(frames) == 2)
        assert frames == [bulk(1), bulk(2)]
        assert here.dropped == {link.REFUSED: 1}
        assert here.lost.empty()


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (413, r"takes no bulk of 300\d\d\d bytes \(status 413\)"),
        (415, r"takes no bulk of 300\d\d\d bytes \(status 415\)"),
        (302, "is no node: it answers bulk with status 302"),
        (404, "is no node: it answers bulk with status 404"),
        (500, "is no node: it answers bulk with status 500"),
    ],
)
async def test_an_answer_that_no_node_gives_ends_the_link(status, told):
    takes, frames = answering((status, {"Location": "/v1/bulk"}))
    async with facing(links.accepting(), takes) as (here, endpoint):
        here.transport.send(endpoint, (bulk(1), bulk(2)), bulk=True)
        where, why = await here.lost.get()
        assert where == endpoint
        assert re.fullmatch(f"the far end {told}", why)
        assert frames == [bulk(1)]
        assert here.dropped == {link.ODD: 1}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("headers", [{"Retry-After": "0"}, {}], ids=["told-when", "not-told"])
async def test_who_is_busy_is_asked_again(status, headers, monkeypatch):
    monkeypatch.setattr(link, "BUSY_FIRST_S", 0.01)
    takes, frames = answering((status, headers), (status, headers), (204, {}))
    async with facing(links.accepting(), takes) as (here, endpoint):
        here.transport.send(endpoint, (bulk(1), bulk(2)), bulk=True)
        await until(lambda: len(frames) == 4)
        assert frames == [bulk(1), bulk(1), bulk(1), bulk(2)]
        assert here.dropped == {}


async def test_who_stays_busy_is_given_up():
    takes, frames = answering((503, {"Retry-After": "16"}))
    async with facing(links.accepting(), takes) as (here, endpoint):
        here.transport.send(endpoint, (bulk(1), bulk(2)), bulk=True)
        assert await here.lost.get() == (endpoint, "the far end takes no more bulk for now (status 503)")
        assert len(frames) == 1


async def test_bulk_that_comes_too_early_holds_up_nothing_behind_it(monkeypatch):
    monkeypatch.setattr(resending, "AGAIN_FIRST_S", 0.5)
    takes, frames = answering((425, {}), (425, {}), (204, {}))
    async with facing(links.accepting(), takes) as (here, endpoint):
        here.transport.send(endpoint, (message for message in (bulk(1), bulk(2), bulk(3))))
        await until(lambda: len(frames) == 5)
        assert frames[:3] == [bulk(1), bulk(2), bulk(3)]
        assert sorted(frame.head.index for frame in frames[3:]) == [1, 2]
        assert here.dropped == {}


@pytest.mark.parametrize("there", ["127.0.0.1:9", of_key(bytes(32))])
def test_that_nobody_listens_is_said_of_a_machine_alone_and_never_of_a_key(there):
    """A peer by a relay is away, whoever refuses connections on the way: a relay, or a proxy."""
    why = link._why(ConnectionRefusedError(errno.ECONNREFUSED, "refused"), there)
    assert why == (NOBODY_LISTENS if there == "127.0.0.1:9" else link.NO_WAY)


async def test_bulk_that_is_always_too_early_is_not_sent_for_ever(monkeypatch):
    """Not 200 times with its whole body; the frame right behind it is tried once."""
    monkeypatch.setattr(resending, "AGAIN_FOR_S", 0.4)
    takes, frames = answering((425, {}))
    async with facing(links.accepting(), takes) as (here, endpoint):
        here.transport.send(endpoint, (bulk(1),), bulk=True)
        await until(lambda: here.dropped)
        assert here.dropped == {link.EARLY: 1}
        tries = len(frames)
        assert frames == [bulk(1)] * tries
        assert 1 <= tries <= 4  # at once, and after 0.05, 0.1 and 0.2 s, if the machine is in time
        here.transport.send(endpoint, (bulk(2),), bulk=True)
        await until(lambda: here.dropped == {link.EARLY: 2})
        assert frames[tries:] == [bulk(2)]
        assert here.lost.empty()


async def test_no_more_than_a_few_early_ones_are_held(monkeypatch):
    monkeypatch.setattr(resending, "AGAIN_FIRST_S", 0.5)
    takes, frames = answering(*[(425, {})] * link.EARLY_POSTS, (204, {}))
    async with facing(links.accepting(), takes) as (here, endpoint):
        here.transport.send(endpoint, (bulk(number) for number in range(10)))
        await until(lambda: len(frames) == 10 + link.EARLY_POSTS)
        came = [frame.head.index for frame in frames]
        assert came[: link.EARLY_POSTS + 1] == [*range(link.EARLY_POSTS), 0], "before the next one"
        assert set(came) == set(range(10))
        await until(lambda: here.transport.bulk_budget.taken_bytes == 0)


async def test_a_small_message_that_comes_too_early_is_sent_again():
    async with two() as (here, there):
        there.refuses = [None, TooEarly("not yet"), TooEarly("not yet"), None, None, TooEarly("not yet")]
        here.transport.send(there.endpoint, tuple(small(number) for number in range(5)))
        assert sorted(await there.take(5), key=lambda message: message.nonce) == [small(n) for n in range(5)]
        assert here.dropped == there.dropped == {}


async def test_a_small_message_that_is_always_too_early_is_given_up_and_counted(monkeypatch):
    monkeypatch.setattr(resending, "AGAIN_FOR_S", 0.2)
    async with two() as (here, there):
        there.refuses = [TooEarly("not yet")] * 99
        here.transport.send(there.endpoint, (small(1),))
        await until(lambda: here.dropped)
        assert here.dropped == {link.EARLY: 1}
        assert 96 <= len(there.refuses) < 99  # at once, and after 0.05 and 0.15 s, if the machine is in time


async def test_what_is_too_early_is_offered_as_long_as_its_session_runs_here(monkeypatch):
    """A total that came 15 s too early was once dropped, and its session stood still for minutes."""
    monkeypatch.setattr(resending, "AGAIN_FOR_S", 0.0)
    monkeypatch.setattr(resending, "AGAIN_CAP_S", 0.05)
    running = {small(1), bulk(1)}
    async with node_state(End(ONE, is_wanted=running.__contains__), End(OTHER)) as (here, there):
        for message in (small(1), bulk(1)):
            there.refuses = [TooEarly("not yet")] * 3
            here.transport.send(there.endpoint, (message,))
            assert await there.take(1) == [message]
        assert here.dropped == {}
        for count, message in enumerate((small(1), bulk(1)), 1):
            there.refuses = [TooEarly("not yet")] * 3
            here.transport.send(there.endpoint, (message,))
            await until(lambda: len(there.refuses) < 2)
            running.remove(message)
            await until(lambda count=count: here.dropped == {link.EARLY: count})
        assert here.lost.empty()


async def test_a_link_over_which_nothing_is_sent_is_closed_quietly_and_opened_again():
    async with node_state(End(ONE, limits=replace(LIMITS, idle_s=0.05)), End(OTHER)) as (here, there):
        for number in range(2):
            here.transport.send(there.endpoint, (small(number), bulk(number)))
            await there.take(2)
            await until(lambda: not here.links)
            await nobody_visits(there)
        assert here.lost.empty()
        assert here.again.empty()
        assert here.dropped == there.dropped == {}


async def test_one_link_more_than_may_be_closes_the_idlest():
    few = End(ONE, limits=replace(LIMITS, links=2))
    async with node_state(few, End(OTHER), End(THIRD), End()) as (here, first, second, third):
        for number, end in enumerate((first, second, first, third)):
            here.transport.send(end.endpoint, (small(number),))
            await end.take(1)
        assert set(here.links) == {first.endpoint, third.endpoint}
        await nobody_visits(second)
        assert here.lost.empty()


async def test_what_has_no_room_in_bytes_ends_its_link_and_all_is_given_back():
    """It was once dropped, and the peer waited for it in vain."""
    few = replace(LIMITS, bulk_bytes=700_000, all_bulk_bytes=1_000_000)
    async with node_state(End(ONE, limits=few), End(OTHER), End(THIRD)) as (here, there, other):
        here.transport.send(there.endpoint, (bulk(1), bulk(2), bulk(3), bulk(4)), bulk=True)
        here.transport.send(other.endpoint, (bulk(5),), bulk=True)
        assert await here.lost.get() == (there.endpoint, link.FULL)
        assert await other.take(1) == [bulk(5)]
        assert here.dropped == {link.FULL: 1}
        await until(lambda: here.transport.bulk_budget.taken_bytes == 0)
        here.transport.send(there.endpoint, (bulk(6),), bulk=True)
        while await there.take(1) != [bulk(6)]:
            pass


async def test_small_messages_without_room_end_their_link(monkeypatch):
    monkeypatch.setattr(link, "QUEUED_SENDS", 2)
    async with two() as (here, there):
        here.transport.send(there.endpoint, tuple(small(number) for number in range(4)))
        assert await here.lost.get() == (there.endpoint, link.FULL)
        assert here.dropped == {link.FULL: 1}


async def test_what_its_machine_holds_anyway_waits_without_room_of_its_own():
    """More than 64 totals of 1 MB, a sum of 100 million numbers, once found no room: nobody had them all."""
    few = replace(LIMITS, bulk_bytes=700_000)
    async with node_state(End(ONE, limits=few), End(OTHER)) as (here, there):
        for number in range(9):
            here.transport.send(there.endpoint, Held((partial(bulk, number),)), bulk=True)
        assert await there.take(9) == [bulk(number) for number in range(9)]
        assert here.dropped == {}


async def test_a_sequence_without_room_ends_its_link():
    few = replace(LIMITS, bulk_bytes=700_000)
    async with node_state(End(ONE, limits=few), End(OTHER)) as (here, there):
        here.transport.send(there.endpoint, (message for message in (bulk(1), bulk(2))))
        assert await here.lost.get() == (there.endpoint, link.FULL)


async def test_a_link_that_is_closed_for_room_before_it_began_gives_back_what_it_held():
    one_link = End(ONE, limits=replace(LIMITS, links=1))
    async with node_state(one_link, End(OTHER), End(THIRD)) as (here, there, other):
        here.transport.send(there.endpoint, (bulk(1), small(1)))
        here.transport.send(other.endpoint, (small(2),))
        assert here.dropped == {link.EVICTED: 2}
        assert await other.take(1) == [small(2)]
        assert here.transport.bulk_budget.taken_bytes == 0
        await until(lambda: here.transport.control_budget.taken_bytes == 0)


async def test_a_far_side_that_ends_every_link_at_once_is_not_dialled_without_end():
    async with facing(links.accepting(then=lambda ws: ws.close())) as (here, endpoint):
        here.transport.send(endpoint, (small(1),))
        assert await here.lost.get() == (endpoint, "the far end ends every link at once")
        assert here.again.qsize() == link.REOPENINGS - 1


async def test_a_link_that_broke_is_opened_again_and_loses_nothing_that_is_queued():
    broken, came = [], []

    async def then(ws):
        if not broken:
            broken.append(ws)
            await ws.close()
        else:
            with suppress(TypeError):
                came.append(codec.decode(await ws.receive_bytes()))

    async with facing(links.accepting(then=then)) as (here, endpoint):
        here.transport.send(endpoint, (small(1),))
        assert await here.again.get() == endpoint
        here.transport.send(endpoint, (small(2),))
        await until(lambda: came)
        assert came[0] in (small(1), small(2))
        assert here.lost.empty()


async def test_a_member_s_bulk_that_takes_long_is_told_of_while_it_arrives(monkeypatch):
    """By its head alone, and nobody else's is."""
    monkeypatch.setattr(server, "SLOW_BODY_S", 0.01)
    told, writers = asyncio.Queue(), []
    async with node_state(End(ONE)) as (here,):
        here.transport._server._arriving = told.put
        host, port = here.endpoint.split(":")
        for key in (None, OTHER):
            ticket = "" if key is None else here.transport._server.doors.ticket(key.public).hex()
            shown = f"Authorization: Bearer {ticket}\r\n" if ticket else ""
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"POST /v1/bulk HTTP/1.1\r\nHost: x\r\n{shown}Content-Length: 9\r\n\r\n".encode())
            writers.append(writer)
        assert [await told.get() for _ in range(2)] == [OTHER.public] * 2
        for writer in writers:
            writer.transport.abort()
