"""What each pytest of this tree, and each test, begins with."""

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.anew import begin_anew, note_generators
from tests.cases import left_out
from tests.workers import is_worker

# More threads would mostly wait for each other. numpy and torch read it when they are loaded.
os.environ["OMP_NUM_THREADS"] = "1"

# Processes that tests start, wherever they run, take their modules from this tree.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])

# A node alone costs as much as its run: those that want one say so.
os.environ.setdefault("MURMURATION_NODE_ALONE", "no")

# No property fails on a busy machine.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# A shell that starts the tests in the background makes them, and every command they start, deaf to Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="all cases of the tests that are marked as sampled")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: the garbage collector need not look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # it knows all cases of a test
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the cases out that are in no sample, unless all are asked for or a test is named."""
    if config.getoption("full") or any("::" in arg for arg in config.args):
        return
    out = set(left_out(items))
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]


def pytest_collection_finish(session: pytest.Session) -> None:
    """In a worker that may come to a test with real nodes, one warm parent has what all children load."""
    note_generators(session.items)
    if is_worker() and any("e2e" in item.path.parts for item in session.items):
        from tests.warm import warm_parent  # noqa: PLC0415 - torch, which others may not need

        warm_parent()


@pytest.fixture(autouse=True)
def _anew(request: pytest.FixtureRequest) -> None:
    begin_anew(getattr(request, "module", None))
