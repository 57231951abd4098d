"""The shell: one event at a time, in order, to its end; the timer; and who receives an error."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from node.net.reply_path import Nowhere
from node.net.traffic import Counts
from node.runtime.shell import Shell
from protocol.actions import Closed, Note, Notice, Reply
from protocol.errors import RemoteProtocolError
from protocol.wire.masked_messages import Ack, AckVote, Release, ReleaseHead

BACK = Nowhere(None, Counts())


class Recorder:
    """A small machine that records its events, and ticks when it is due."""

    def __init__(self):
        self.deadline = None
        self.events = []
        self.ticked = asyncio.Event()

    def receive(self, message, by, now):
        if message is None:
            raise RemoteProtocolError("nothing")
        if message == "fault":
            raise ZeroDivisionError
        self.events.append(message)
        return [Notice(Note.JOINED, f"{message} 1"), Notice(Note.JOINED, f"{message} 2")]

    def unreachable(self, endpoint, why, now):
        self.events.append(("unreachable", endpoint, why))
        return []

    def reconnected(self, endpoint, now):
        self.events.append(("reconnected", endpoint))
        return []

    def tick(self, now):
        self.deadline = None
        self.events.append("tick")
        self.ticked.set()
        return [Closed()]


def make(heavy=False):
    machine, performed = Recorder(), []

    async def perform(action):
        await asyncio.sleep(0)  # lets others run: they must not come in between
        performed.append(action)
        return [Notice(Note.LEFT, "after")] if action == Notice(Note.JOINED, "a 1") else []

    return machine, performed, Shell(machine, performed.append, perform, heavy)


async def nothing(action):
    return []


async def test_a_remote_error_goes_to_who_brought_the_message_and_one_s_own_breaks_the_shell():
    machine, _, shell = make()
    with pytest.raises(RemoteProtocolError):
        await shell.receive(None, BACK)
    assert not shell.broken.done()
    await shell.receive("a", BACK)
    assert machine.events == ["a"]
    await shell.receive("fault", BACK)
    with pytest.raises(ZeroDivisionError):
        await shell.broken
    with pytest.raises(ZeroDivisionError):
        await shell.finish(lambda now: [])


async def test_after_an_error_of_its_own_only_a_goodbye_enters_the_machine():
    """What the machine takes for done was not done: it could send what must not leave before that."""
    machine, performed, _ = make()

    async def perform(action):
        raise OSError("no space left")

    shell = Shell(machine, performed.append, perform, False)
    await shell.feed(machine.tick)
    await shell.unreachable("127.0.0.1:1", "refused")
    assert machine.events == ["tick"]
    with pytest.raises(OSError, match="no space left"):
        await shell.finish(lambda now: machine.events.append("goodbye") or [])
    assert machine.events == ["tick", "goodbye"]


async def test_the_timer_ticks_when_the_deadline_is_over_and_links_are_told_to_the_machine():
    machine, _, shell = make()
    machine.deadline = shell.clock.now()
    timer = asyncio.create_task(shell.keep_time())
    await machine.ticked.wait()
    timer.cancel()
    await shell.unreachable("127.0.0.1:1", "refused")
    await shell.reconnected("127.0.0.1:1")
    where = "127.0.0.1:1"
    assert machine.events == ["tick", ("unreachable", where, "refused"), ("reconnected", where)]


async def test_at_the_end_of_each_event_the_owner_of_the_machine_looks_also_where_nothing_is_to_be_done():
    machine, performed, looks = Recorder(), [], []

    async def perform(action):
        performed.append(action)
        return []

    shell = Shell(machine, performed.append, perform, False, look=lambda: looks.append(len(performed)))
    await shell.receive("a", BACK)
    assert looks[-1] == 2, "after all that the event led to"
    looks.clear()
    await shell.unreachable("127.0.0.1:1", "refused")
    with pytest.raises(RemoteProtocolError):
        await shell.receive(None, BACK)
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("message", "in_loop"),
    [
        (Ack(AckVote(b"", b"", 0, b""), ()), True),
        (Release(ReleaseHead(b"", b"", 0, b"", b"", b""), ()), False),
    ],
)
async def test_only_what_may_go_through_a_vector_leaves_the_event_loop(message, in_loop):
    machine, _, shell = make(heavy=True)
    threads = []
    machine.receive = lambda message, by, now: threads.append(threading.current_thread()) or []
    await shell.receive(message, BACK)
    assert (threads == [threading.current_thread()]) is in_loop


async def test_whether_an_event_is_light_is_asked_when_it_enters_and_not_when_it_comes():
    """Two totals wait for a running event: after the first, the second is the last one."""
    machine, performed, _ = make()
    inside, goes_on, threads = threading.Event(), threading.Event(), []

    def receive(message, by, now):
        threads.append((message, threading.current_thread() is threading.main_thread()))
        if message == "heavy":
            inside.set()
            goes_on.wait()
        return []

    machine.receive = receive
    is_light = lambda message: message != "heavy" and len(threads) < 2  # noqa: E731
    shell = Shell(machine, performed.append, nothing, True, is_light)
    events = [asyncio.create_task(shell.receive("heavy", BACK))]
    await asyncio.to_thread(inside.wait)
    events += [asyncio.create_task(shell.receive(name, BACK)) for name in ("total", "last total")]
    await asyncio.sleep(0)
    goes_on.set()
    await asyncio.gather(*events)
    assert threads == [("heavy", False), ("total", True), ("last total", False)]


@pytest.mark.parametrize("steps", range(24))
async def test_an_event_is_not_lost_whenever_its_bringer_is_cancelled(steps):
    """Also when the event before has left the machine, and the next one in the queue has not entered yet."""
    machine, performed, shell = make()
    early = [asyncio.create_task(shell.receive(name, BACK)) for name in ("a", "b")]
    for _ in range(steps):
        await asyncio.sleep(0)
    bringer = asyncio.create_task(shell.receive("c", BACK))
    await asyncio.sleep(0)
    bringer.cancel()
    await asyncio.gather(bringer, *early, return_exceptions=True)
    await shell.drain()
    assert machine.events == ["a", "b", "c"]
    assert len(performed) == 7


@pytest.mark.parametrize("heavy", [False, True])
async def test_after_the_last_event_a_machine_is_told_nothing_and_what_has_begun_is_done(heavy):
    machine, performed, shell = make(heavy)
    before = asyncio.create_task(shell.receive("a", BACK))
    await asyncio.sleep(0)
    ending = asyncio.create_task(shell.finish(lambda now: [Notice(Note.LEFT, "goodbye")]))
    await asyncio.sleep(0)
    late = asyncio.create_task(shell.receive("b", BACK))
    await ending
    assert [action.who for action in performed] == ["a 1", "after", "a 2", "goodbye"]
    await asyncio.gather(before, late)
    await shell.unreachable("127.0.0.1:1", "gone")
    await shell.finish(lambda now: [Notice(Note.LEFT, "once more")])
    machine.deadline = 0.0
    timer = asyncio.create_task(shell.keep_time())
    for _ in range(10):
        await asyncio.sleep(0)
    timer.cancel()
    assert (machine.events, len(performed)) == (["a"], 4)


class Changing(Recorder):
    """A machine whose heavy events pause in the middle of a change, and record who reads it then."""

    def __init__(self):
        self.inside, self.goes_on = threading.Semaphore(0), threading.Semaphore(0)
        self.read_inside = []
        self.is_changing = False
        self._until = None
        super().__init__()

    @property
    def deadline(self):
        self.read("deadline")
        return self._until

    @deadline.setter
    def deadline(self, until):
        self._until = until

    def read(self, what):
        if self.is_changing:
            self.read_inside.append(what)

    def receive(self, message, by, now):
        self.is_changing = True
        self.inside.release()
        self.goes_on.acquire()
        self.is_changing = False
        return super().receive(message, by, now)


def changing():
    machine = Changing()
    return machine, Shell(machine, machine.events.append, nothing, heavy=True)


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_neither_the_timer_nor_who_looks_reads_a_machine_that_changes_in_a_thread():
    machine, shell = changing()
    machine.deadline = shell.clock.now() + 3600
    event = asyncio.create_task(shell.receive("heavy", BACK))
    await asyncio.to_thread(machine.inside.acquire)
    timer = asyncio.create_task(shell.keep_time())
    looks = asyncio.create_task(shell.look(lambda: machine.read("look")))
    await turns()
    assert not looks.done()
    machine.goes_on.release()
    await event
    await looks
    assert (machine.read_inside, machine.events) == ([], ["heavy"])
    timer.cancel()


async def test_a_deadline_that_comes_with_a_heavy_event_is_kept():
    machine, shell = changing()
    timer = asyncio.create_task(shell.keep_time())
    await turns()
    machine.goes_on.release()
    machine.deadline = shell.clock.now()
    await shell.receive("heavy", BACK)
    await machine.ticked.wait()
    assert machine.events == ["heavy", "tick"]
    assert not timer.done()
    timer.cancel()


async def test_a_machine_that_can_not_say_its_deadline_is_at_fault():
    class Faulty(Recorder):
        deadline = property(lambda self: 1 // 0, lambda self, until: None)

    machine = Faulty()
    shell = Shell(machine, machine.events.append, nothing, heavy=False)
    await shell.receive("a", BACK)
    assert isinstance(shell.broken.exception(), ZeroDivisionError)
    assert machine.events[0] == "a"


@pytest.mark.parametrize("heavy", [False, True])
async def test_a_reply_goes_to_who_asked_wherever_it_stands_among_the_actions(heavy):
    """Also when two request at once, when a reply follows a slow action, and when a thread handles it."""
    machine, performed, shell = make(heavy)

    def receive(message, by, now):
        machine.events.append((message, by))
        return [Reply((message,)), Notice(Note.JOINED, f"{message} 1"), Reply((message, "late"))]

    machine.receive = receive
    askers = [
        SimpleNamespace(key=key, send=lambda messages, key=key: performed.append((key, messages)))
        for key in (b"one", None)
    ]
    await asyncio.gather(*(shell.receive(name, asker) for name, asker in zip("ab", askers, strict=True)))
    assert machine.events == [("a", b"one"), ("b", None)]
    assert performed == [
        (b"one", ("a",)),
        Notice(Note.JOINED, "a 1"),
        Notice(Note.LEFT, "after"),
        (b"one", ("a", "late")),
        (None, ("b",)),
        Notice(Note.JOINED, "b 1"),
        (None, ("b", "late")),
    ]
