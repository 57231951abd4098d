"""What failed waits twice as long each time, and is forgotten in the end."""

import pytest

from protocol.swarm.recovery.backoff import FORGOTTEN_AFTER_S, MAX_DOUBLINGS, Backoff
from tests.parts import NOW


def wait_s(backoff: Backoff[str], what: str) -> int:
    """Returns for how many seconds it is not tried again."""
    return next(seconds for seconds in range(1000) if not backoff.waits(what, NOW + seconds))


@pytest.mark.parametrize(("free", "waits"), [(0, [2, 4, 8]), (1, [0, 4, 8])])
def test_it_waits_twice_as_long_after_each_failure_in_a_row_and_each_thing_for_itself(free, waits):
    backoff: Backoff[str] = Backoff(free)
    found = []
    for _ in waits:
        backoff.failed("one", NOW)
        found.append(wait_s(backoff, "one"))
    assert (found, wait_s(backoff, "other")) == (waits, 0)
    for _ in range(MAX_DOUBLINGS):
        backoff.failed("one", NOW)
    assert wait_s(backoff, "one") == 512
    backoff.succeeded("one")
    backoff.failed("one", NOW)
    assert wait_s(backoff, "one") == waits[0]


@pytest.mark.parametrize(("later_s", "next_s"), [(1.9, 4), (2.0, 2)])
def test_old_failures_are_forgotten(later_s, next_s):
    backoff: Backoff[str] = Backoff()
    backoff.failed("one", NOW)
    backoff.forget(NOW + FORGOTTEN_AFTER_S + later_s)
    backoff.failed("one", NOW)
    assert wait_s(backoff, "one") == next_s
