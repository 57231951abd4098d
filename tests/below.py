"""A pytest of its own for tests that are about the run of tests: a plugin that such a test file names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py")
OWN = ("PYTEST_", "OMP_")
"""How the variables begin that this run has set for itself."""

Below = Callable[..., list[str]]


@pytest.fixture
def run_below(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Below:
    """Runs a file of tests with this conftest and some options; returns the lines that it prints."""
    for name in [name for name in os.environ if name.startswith(OWN)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(CONFTEST.parents[1]))
    pytester.makeconftest(CONFTEST.read_text("utf-8"))

    def run(planted: str, *options: str) -> list[str]:
        pytester.makepyfile(test_planted=planted)
        ended = pytester.runpytest_subprocess(*options)
        return [*ended.errlines, *ended.outlines]

    return run
