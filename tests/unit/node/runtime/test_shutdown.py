"""Told to end once, a node begins nothing new; told twice, it waits for nothing."""

import asyncio

from node.runtime.shutdown import Stopping


async def test_asked_once_only_training_ends():
    stopping = Stopping()
    assert not stopping.asked
    stopping.ask()
    assert (stopping.asked, stopping.training.is_set()) == (True, True)
    result = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(result.set_result, 7)
    assert await stopping.unless(result) == 7


async def test_at_once_ends_every_wait_and_cancels_what_was_waited_for():
    stopping = Stopping()
    endless = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.create_task(stopping.unless(endless))
    asyncio.get_running_loop().call_soon(stopping.at_once)
    assert await waiting is None
    await asyncio.wait((endless,), timeout=30)
    assert endless.cancelled()
    assert stopping.asked


async def test_what_is_there_already_counts_more():
    stopping = Stopping()
    stopping.at_once()
    result = asyncio.get_running_loop().create_future()
    result.set_result(7)
    assert await stopping.unless(result) == 7
