"""A round that counts gets its line, wherever a node is told to end, and wherever it is killed.

A lone node receives the end of a session as from its shell. Threads run at once, so that a turn of the event
loop is always the same moment.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from safetensors.numpy import load_file

from node.app.signals import until_over
from node.runtime.record.ending import End
from node.runtime.record.figures import Record
from protocol.actions import Failed, Reason, Spend
from protocol.swarm.phases import Event
from tests.unit.node.alone import Alone, ended, words

SID = b"s" * 32


class AtOnce(ThreadPoolExecutor):
    """Runs a thread's work at once."""

    def submit(self, call, /, *arguments, **named):
        done = Future()
        done.set_result(call(*arguments, **named))
        return done


def completes(node):
    """Makes the end of a session as node.runtime.engine receives it."""

    def event(now):
        end(node)
        node.peer._node._storing = True
        return [Spend(SID, 1, 0), ended(node, words(node, 0.25))]

    return event


def falls_back(node):
    def event(now):
        end(node)
        return [Failed(Reason.SUMS_TIMEOUT, 1, (b"k" * 32,), SID)]

    return event


def end(node):
    """Ends a session that took the offer, or the round of a node that has not sought a group yet."""
    session = node.peer._node
    if session._seeker.offer is None:
        session._course.step(Event.OFFER)
    else:
        session._seeker.give_up()
    session._course.step(Event.GROUP)
    session._end(0.0)


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def seeking(node):
    """Runs until the node waits for a group."""
    for _ in range(200):
        await asyncio.sleep(0)
        if node.peer._node.status.phase == "group":
            return
    raise AssertionError


def lines(node):
    return node.peer._history._folder.history()


def agrees(node, summary):
    """Checks that state, history, models and summary agree on the rounds and the base."""
    state, told = node.state, lines(node)
    assert [line.own for line in told] == list(range(1, state.round + 1))
    assert (summary.rounds, summary.aggregated + summary.fallbacks) == (state.base.generation, len(told))
    assert summary.aggregated == state.base.generation
    assert summary.base_digest == state.base.digest.hex()
    assert not told or told[-1].base_digest == summary.base_digest
    model = load_file(node.folder / "model.safetensors")
    tensors = node.learning.trainer.tensors(state.base_vector)
    assert model.keys() == tensors.keys()
    assert all(np.array_equal(model[name], tensors[name]) for name in model)


async def at_once(node):
    node.peer.stopping.at_once()


async def drained(node):
    await node.peer.drain(0.001)


@pytest.mark.parametrize(
    ("event", "stop", "at"),
    [
        (completes, at_once, range(28)),
        (completes, drained, range(28)),
        (falls_back, at_once, range(0, 28, 2)),
        (falls_back, drained, range(1, 28, 2)),
    ],
)
async def test_told_to_end_at_any_turn_around_the_end_of_a_round(event, stop, at, tmp_path):
    asyncio.get_running_loop().set_default_executor(AtOnce())
    rounds = []
    for turn in at:
        node = Alone(folder_for(tmp_path, turn), "none")
        life = asyncio.create_task(until_over(node.peer))
        await seeking(node)
        session = asyncio.create_task(after(14, lambda node=node: node.peer._shell.feed(event(node))))
        await turns(turn)
        await asyncio.gather(stop(node), life, session)
        agrees(node, await node.peer.summarise())
        assert node.peer.end is End.TOLD
        rounds.append(node.state.round)
        node.state.close()
    assert set(rounds) == {0, 1}, "the end of the round was not among these turns"


def folder_for(tmp_path, turn):
    folder = tmp_path / str(turn)
    folder.mkdir()
    return folder


async def after(count, call):
    await turns(count)
    await call()


async def started_again(folder):
    """Restarts on the folder; returns its history lines and its output when it looks for the next group."""
    asyncio.get_running_loop().set_default_executor(AtOnce())
    node = Alone(folder, "none")
    life = asyncio.create_task(until_over(node.peer))
    await seeking(node)
    told, said = lines(node), node.said.getvalue()
    node.peer.stopping.at_once()
    await life
    agrees(node, await node.peer.summarise())
    assert lines(node) == told
    node.state.close()
    return told, said


@pytest.mark.parametrize("half", ["", '{"round": 1, "outco', "\n"])
@pytest.mark.parametrize("event", [completes, falls_back])
async def test_killed_between_a_round_and_its_line(tmp_path, event, half):
    """The next start writes it, from what was stored with the round, and only once."""
    node = Alone(tmp_path, "none")
    node.peer._training = node.peer._train(1)
    await node.peer._shell.feed(event(node))
    assert lines(node) == []
    stored = Record.from_ending(node.state.ending)
    node.state.close()
    (tmp_path / "history.jsonl").write_text(half)
    (line,), said = await started_again(tmp_path)
    outcome = ("aggregated", None, 3) if event is completes else ("fallback", "sums-timeout", 0)
    assert (line.outcome, line.reason, line.participants) == outcome
    assert (line.train_loss, line.train_s) == pytest.approx((stored.train_loss, stored.train_s), abs=1e-6)
    assert (line.missing, line.phases.keys()) == (stored.missing, stored.phases.keys())
    assert said.count('"event": "round"') == 1
    again, said = await started_again(tmp_path)
    assert again == [line]
    assert '"event": "round"' not in said


async def test_killed_between_two_rounds_nothing_is_written_again(tmp_path):
    node = Alone(tmp_path, "none")
    node.peer._training = node.peer._train(1)
    await node.peer._shell.feed(falls_back(node))
    await node.peer._history.catch_up()
    before = lines(node)
    node.state.close()
    assert (await started_again(tmp_path))[0] == before


async def test_what_shows_a_node_takes_snapshots_until_its_life_is_over(tmp_path):
    asyncio.get_running_loop().set_default_executor(AtOnce())
    node, seen = Alone(tmp_path, "none"), []

    async def show(take):
        seen.append((await take()).phase)
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("over")

    life = asyncio.create_task(until_over(node.peer, show))
    await seeking(node)
    assert len(seen) == 1
    node.peer.stopping.at_once()
    await life
    assert seen[1:] == ["over"]
    node.state.close()


async def test_what_can_not_be_shown_ends_the_node(tmp_path):
    node = Alone(tmp_path, "none")

    async def show(take):
        raise OSError("the terminal is gone")

    with pytest.raises(OSError, match="the terminal is gone"):
        await until_over(node.peer, show)
    node.state.close()
