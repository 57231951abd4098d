"""Real child processes, without torch: they run Python's own functions, named as the parent names its own."""

import os
import signal
from pathlib import Path

import pytest

from node.system.errors import UserError
from scenarios.frame.children import Child, Children, ending, last_line
from tests.patience import ENOUGH_S

FOR_EVER_S = 3600.0
EVALUATE = "builtins:eval"
DEAF = """(__import__('signal').pthread_sigmask(0, [2])
           or print('deaf', flush=True) or __import__('time').sleep(3600))"""


def wait_for_all(children: Children) -> None:
    while children.running():
        children.wait(ENOUGH_S)


def run_one(log: Path, target: str, *arguments: object) -> Child:
    """Runs a child to its end; raises the parent's error, if any."""
    with Children() as children:
        child = children.start("peer 2", log, target, *arguments)
        wait_for_all(children)
    return child


def run_and_kill(log: Path) -> None:
    with Children() as children:
        child = children.start("peer 1", log, "time:sleep", FOR_EVER_S)
        assert child.process.pid is not None
        os.kill(child.process.pid, signal.SIGKILL)
        wait_for_all(children)


def run_beside_one_that_fails(folder: Path, target: str, argument: object, started: list[Child]) -> None:
    """Starts `target`, waits for its first output, then starts a child that ends with status 4."""
    with Children(interrupt_grace_s=2.0) as children:
        started.append(children.start("peer 0", folder / "0.txt", target, argument))
        while not last_line(folder / "0.txt"):
            children.wait(0.01)
        children.start("peer 1", folder / "1.txt", "operator:index", 4)
        wait_for_all(children)


def test_what_the_function_returns_is_the_exit_status_and_a_second_run_appends_to_the_log(tmp_path):
    assert run_one(tmp_path / "made" / "log.txt", "operator:index", 0).process.exitcode == 0
    for words in ("one", "two"):
        run_one(tmp_path / "log.txt", EVALUATE, f"print('{words}') or 0")
    assert (tmp_path / "log.txt").read_text() == "one\ntwo\n"


def test_a_child_that_fails_is_named_with_its_status_and_its_last_words_or_exception(tmp_path):
    log = tmp_path / "log.txt"
    with pytest.raises(UserError) as failed:
        run_one(log, EVALUATE, "print('first') or print('out of luck') or print() or 3")
    assert str(failed.value) == f"peer 2 ended with exit status 3: out of luck (log: {log})"
    with pytest.raises(UserError, match="exit status 1: ZeroDivisionError"):
        run_one(log, "operator:truediv", 1, 0)
    assert "Traceback" in log.read_text()


def test_a_child_that_was_killed_is_told_with_its_signal_and_endings_in_words(tmp_path):
    with pytest.raises(UserError, match="peer 1 ended with signal SIGKILL: it said nothing"):
        run_and_kill(tmp_path / "log.txt")
    assert ending(2) == "exit status 2"
    assert ending(-9) == "signal SIGKILL"
    assert ending(-200) == "signal 200"
    assert last_line(tmp_path / "none.txt") == ""


def test_when_one_fails_the_others_are_interrupted_and_the_deaf_killed(tmp_path):
    here = "print('here') or __import__('time').sleep(3600)"
    for name, does, status in (("hears", here, 130), ("deaf", DEAF, -signal.SIGKILL)):
        started: list[Child] = []
        with pytest.raises(UserError, match="peer 1 ended with exit status 4"):
            run_beside_one_that_fails(tmp_path / name, EVALUATE, does, started)
        assert started[0].process.exitcode == status
