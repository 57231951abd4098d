"""Readers of a node while its session changes in a thread never see a half-done change."""

import asyncio
import threading

import pytest

from protocol.wire.messages import Hello
from tests.parts import announce, stranger

OTHER = stranger()
WHERE = "127.0.0.1:7"


class Halting(tuple):
    """Announcements that pause the first iteration over them, in which a session takes in their senders."""

    def __new__(cls):
        made = super().__new__(cls)
        made.inside, made.goes_on = threading.Semaphore(0), threading.Semaphore(0)
        made.was_inside = False
        return made

    def __iter__(self):
        if not self.was_inside:
            self.was_inside = True
            self.inside.release()
            self.goes_on.acquire()
        return super().__iter__()


@pytest.fixture
async def halted(alone):
    """Makes a node that has learned of another one, and has not finished that event."""
    node, known = alone("none"), Halting()
    node.peer._shell._heavy = True
    told = announce(OTHER, task="digits", parameters=node.parameters, endpoint=WHERE)
    hello = Hello(told, bytes(16), False, "", known)
    session = node.peer._node
    event = asyncio.create_task(node.peer._shell.feed(lambda now: session.receive(hello, OTHER.public, now)))
    await asyncio.to_thread(known.inside.acquire)
    assert session._discovery.members.get(OTHER.public) is not None

    async def go_on():
        known.goes_on.release()
        await event

    yield node, go_on
    known.goes_on.release()
    await event


async def test_who_may_answer_is_as_it_was_until_the_event_is_over(halted):
    node, go_on = halted
    may_answer = node.peer._node.addresses.may_answer
    assert may_answer(WHERE) == frozenset()
    await go_on()
    assert may_answer(WHERE) == {OTHER.public}


async def test_the_live_view_and_the_rounds_wait_for_the_event(halted):
    node, go_on = halted
    looks = [asyncio.create_task(look()) for look in (node.peer.inspector.take, node.peer._is_over)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(look.done() for look in looks)
    await go_on()
    snapshot, is_over = await asyncio.gather(*looks)
    assert (snapshot.phase, snapshot.round, is_over) == ("idle", 0, False)
