"""A clock that was set, and a machine that slept, are reported; the time between two checks is not."""

import asyncio
import time

import pytest

from node.runtime import wall_clock


@pytest.fixture
def clocks(monkeypatch):
    """The test sets the wall clock and the time asleep."""
    ahead = {"wall": 0.0, "asleep": 0.0}
    right, boot = time.time, time.clock_gettime
    monkeypatch.setattr(wall_clock, "LOOK_S", 0.0)
    monkeypatch.setattr(time, "time", lambda: right() + ahead["wall"])
    if hasattr(time, "CLOCK_BOOTTIME"):
        monkeypatch.setattr(time, "clock_gettime", lambda clock: boot(clock) + ahead["asleep"])
    return ahead


async def told_of(clocks, **moves):
    """Returns the reports when the clocks move between checks."""
    told = asyncio.Queue()

    async def tell(offset_s, asleep_s):
        told.put_nowait((offset_s, asleep_s))

    watching = asyncio.create_task(wall_clock.watch(tell))
    try:
        for _ in range(5):
            await asyncio.sleep(0)
        assert told.empty()
        clocks.update(moves)
        found = await told.get()
        for _ in range(5):
            await asyncio.sleep(0)
        assert told.empty()
        return found
    finally:
        watching.cancel()


@pytest.mark.parametrize("by_s", [600.0, -100.0])
async def test_a_clock_that_is_set_is_told_of_once(clocks, by_s):
    offset_s, asleep_s = await told_of(clocks, wall=by_s)

    assert (offset_s, asleep_s) == (pytest.approx(by_s, abs=0.5), pytest.approx(0.0, abs=0.5))


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system does not tell how long it slept")
async def test_a_machine_that_slept_says_for_how_long(clocks):
    offset_s, asleep_s = await told_of(clocks, wall=3600.0, asleep=3600.0)

    assert (offset_s, asleep_s) == (pytest.approx(3600.0, abs=0.5), pytest.approx(3600.0, abs=0.5))
