"""Values from another thread, for a coroutine that awaits them."""

import asyncio
import gc
import threading

import pytest

from node.api.streams import Stream


def nobody_leaves():
    raise AssertionError("nobody left before the end")


async def all_of(stream):
    return [value async for value in stream.read(nobody_leaves)]


async def test_a_reader_gets_what_another_thread_puts_and_ends_with_it():
    stream = Stream()
    reading = asyncio.create_task(all_of(stream))
    await asyncio.sleep(0)  # it waits now
    for value in (1, 2, 3):
        threading.Thread(target=stream.put, args=(value,)).start()
    while len(stream.values()) < 3:  # noqa: ASYNC110 - threads put them
        await asyncio.sleep(0)
    stream.end(None)
    assert sorted(await reading) == [1, 2, 3]
    assert stream.ended


async def test_a_late_reader_gets_all_and_so_does_a_second_one():
    stream = Stream()
    stream.put("first")
    stream.put("second")
    stream.end(None)
    assert await all_of(stream) == await all_of(stream) == ["first", "second"]
    stream.wait()


async def test_an_error_comes_after_the_values_to_readers_and_waiters():
    stream = Stream()
    stream.put(1)
    stream.end(LookupError("lost"))
    seen = []

    async def read():
        async for value in stream.read(nobody_leaves):
            seen.append(value)  # noqa: PERF401 - the error would take a list along

    with pytest.raises(LookupError, match="lost"):
        await read()
    with pytest.raises(LookupError, match="lost"):
        stream.wait()
    assert seen == [1]


async def test_whoever_leaves_before_the_end_is_noticed_once():
    stream, left = Stream(), []
    stream.put(1)
    async for _ in stream.read(lambda: left.append("by break")):
        break
    gc.collect()
    reading = stream.read(lambda: left.append("by closing"))
    await reading.aclose()
    await reading.aclose()
    del reading
    gc.collect()
    assert left == ["by break", "by closing"]


async def test_a_reader_whose_wait_was_cancelled_goes_on_where_it_was():
    stream = Stream()
    reading = stream.read(lambda: None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(reading), 0)
    stream.put("late")
    assert await anext(reading) == "late"


def test_a_loop_that_is_closed_holds_nobody_up():
    stream = Stream()

    async def give_up():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream.read(lambda: None)), 0.01)

    asyncio.run(give_up())
    stream.put(1)
    assert stream.values() == (1,)
