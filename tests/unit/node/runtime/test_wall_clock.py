"""A clock that was set, and a machine that slept, are reported; the time between two checks is not."""

import asyncio

import pytest

from node.runtime import wall_clock
from node.system.clock import Clock


class Clocks:
    """Clocks that the test sets."""

    def __init__(self):
        self.wall_s = self.asleep_s = 0.0
        self.clock = Clock(lambda: 50.0, lambda: 1e9 + self.wall_s, lambda: 70.0 + self.asleep_s)

    def move(self, wall_s, asleep_s):
        self.wall_s, self.asleep_s = wall_s, asleep_s


@pytest.fixture
def clocks(monkeypatch):
    monkeypatch.setattr(wall_clock, "LOOK_S", 0.0)
    return Clocks()


async def told_of(clocks, *moves):
    """Returns the reports when the clocks move between checks."""
    told = asyncio.Queue()

    async def tell(offset_s, asleep_s):
        told.put_nowait((offset_s, asleep_s))

    watching = asyncio.create_task(wall_clock.watch(tell, clocks.clock))
    try:
        for _ in range(5):
            await asyncio.sleep(0)
        assert told.empty()
        clocks.move(*moves)
        found = await told.get()
        for _ in range(5):
            await asyncio.sleep(0)
        assert told.empty()
        return found
    finally:
        watching.cancel()


@pytest.mark.parametrize(("by_s", "asleep_s"), [(600.0, 0.0), (-100.0, 0.0), (3600.0, 3600.0)])
async def test_a_clock_that_is_set_and_a_machine_that_slept_are_told_of_once(clocks, by_s, asleep_s):
    assert await told_of(clocks, by_s, asleep_s) == (by_s, asleep_s)
