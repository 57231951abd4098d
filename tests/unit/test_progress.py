"""The line that tells how far the tests are, and their order."""

import re
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.progress import LONG_S, longest_first, seconds_left, weights

pytest_plugins = ["tests.below"]

PLANTED = """
import os

def test_bad():
    assert False, 'as planted'

def test_threads():
    assert os.environ['OMP_NUM_THREADS'] == '1'
"""


def item(name: str, *marks: str) -> Any:
    return SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: mark in marks)


def test_long_tests_come_first_and_the_others_stay_in_their_order() -> None:
    items = [item("a"), item("b"), item("long"), item("c"), item("slow", "slow"), item("longest"), item("d")]
    recorded = {"a": 1, "b": LONG_S / 2, "long": LONG_S, "longest": 90}
    assert [one.nodeid for one in longest_first(items, recorded)] == [
        *("longest", "slow", "long", "a", "b", "c", "d")
    ]


def test_the_rate_says_how_long_the_rest_lasts_and_before_it_the_record():
    assert seconds_left(done=30, todo=60, elapsed_s=10, workers=2, trusted_s=0) == 20
    assert seconds_left(done=0, todo=60, elapsed_s=10, workers=2, trusted_s=0) is None
    assert seconds_left(done=0, todo=60, elapsed_s=0, workers=2, trusted_s=60) == 30
    assert weights("abc", {"a": 1, "b": 3, "gone": 100}) == {"a": 1, "b": 3, "c": 2}
    assert weights("ab", {"gone": 100}) == {"a": 1, "b": 1}


AMOUNTS = st.floats(1, 1e4)


@given(done=AMOUNTS, todo=AMOUNTS, elapsed_s=AMOUNTS, workers=st.integers(1, 64))
def test_the_estimate_lies_between_the_recorded_seconds_and_the_rate(done, todo, elapsed_s, workers):
    by_record, by_rate = todo / workers, todo * elapsed_s / done
    left = seconds_left(done, todo, elapsed_s, workers, trusted_s=60)
    assert left is not None
    assert min(by_record, by_rate) * 0.999 <= left <= max(by_record, by_rate) * 1.001


def test_a_run_tells_of_its_workers_of_one_thread_its_failures_and_its_end(run_below) -> None:
    """What a second run of these tests prints, side by side."""
    options = ("-n", "2", "-p", "tests.progress", "-o", "console_output_style=classic")
    for _ in range(2):
        told = run_below(PLANTED, *options)
    collecting = re.compile(r"2 workers collect the tests, \d+ s so far; then about \d+ s")
    assert any(collecting.search(line) for line in told)
    assert "FAILED test_planted.py::test_bad" in told
    assert any(line.endswith("2/2, 1 failed, about 0 s left") for line in told)
    assert "FAILED test_planted.py::test_bad - AssertionError: as planted" in told
    assert "1 failed, 1 passed in" in told[-1]
