"""Which cases of a test `make test` leaves out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = """
import pytest
from tests.soak import soak

@pytest.mark.sampled("a")
@pytest.mark.parametrize("case", ["a", "b", soak("c")])
def test_named(case): pass

@pytest.mark.sampled(without=["a"])
@pytest.mark.parametrize("case", ["a", "b"])
def test_others(case): pass

@pytest.mark.sampled
def test_whole(): pass
"""


@pytest.fixture
def collected(tmp_path: Path):
    """Returns the names of the tests that a command line collects where PLANTED is, or the error."""
    marks = "".join(f"    {name}: planted\n" for name in ("sampled", "soak"))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = -m 'not soak'\nmarkers =\n{marks}", "utf-8")
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text("utf-8"), "utf-8")
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env = {**own, "PYTHONPATH": str(ROOT)}

    def collect(*words: str, planted: str = PLANTED) -> list[str]:
        (tmp_path / "test_planted.py").write_text(planted, "utf-8")
        command = (sys.executable, "-m", "pytest", "--collect-only", "-q", *words)
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = (ended.stdout + ended.stderr).splitlines()
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
    assert told[-1] == "test_named has no case 'z'; it has 'a', 'b'"
