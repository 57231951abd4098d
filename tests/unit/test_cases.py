"""Which cases of a test a run has."""

import pytest

pytest_plugins = ["tests.below"]

PLANTED = """
import pytest
from tests.cases import soak

@pytest.mark.sampled("a")
@pytest.mark.parametrize("case", ["a", "b", soak("c")])
def test_named(case): pass

@pytest.mark.sampled(without=["a"])
@pytest.mark.parametrize("case", ["a", "b"])
def test_others(case): pass

@pytest.mark.sampled
def test_whole(): pass
"""
INI = """
[pytest]
addopts = -m 'not soak'
markers =
    sampled: planted
    soak: planted
"""


@pytest.fixture
def collected(run_below, pytester):
    """Returns the names of the tests that a command line collects of PLANTED, or the error."""
    pytester.makeini(INI)

    def collect(*words: str, planted: str = PLANTED) -> list[str]:
        lines = run_below(planted, "--collect-only", "-q", *words)
        return [line.rpartition("::")[2] for line in lines if "::" in line]

    return collect


@pytest.mark.parametrize(
    ("words", "cases"),
    [
        ((), {"named[a]", "others[b]"}),
        (("--full",), {"named[a]", "named[b]", "others[a]", "others[b]", "whole"}),
        (("-m", "soak"), {"named[c]"}),
        (("test_planted.py::test_whole",), {"whole"}),
    ],
    ids=["plain", "full", "soak", "named"],
)
def test_a_run_has_the_sample_unless_all_are_asked_for_or_a_test_is_named(collected, words, cases):
    assert set(collected(*words)) == {f"test_{case}" for case in cases}


def test_a_mark_that_names_no_case_of_its_test_ends_the_run(collected):
    told = collected(planted=PLANTED.replace('sampled("a")', 'sampled("z")'))
    assert "test_named has no case 'z'; it has 'a', 'b'" in told
