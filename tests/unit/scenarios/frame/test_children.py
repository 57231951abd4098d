"""Real child processes, without torch: they run Python's own functions, named as the parent names its own."""

import os
import signal
from pathlib import Path

import pytest

from node.errors import UserError
from scenarios.frame.children import Child, Children, ending, last_line

ENOUGH_S = 30.0
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


def test_what_the_function_returns_is_the_exit_status(tmp_path: Path) -> None:
    assert run_one(tmp_path / "made" / "log.txt", "operator:index", 0).process.exitcode == 0


def test_a_child_that_fails_is_named_with_its_status_and_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with pytest.raises(UserError) as failed:
        run_one(log, EVALUATE, "print('first') or print('out of luck') or print() or 3")
    assert str(failed.value) == f"peer 2 ended with exit status 3: out of luck (log: {log})"


def test_an_exception_is_in_the_log(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exit status 1: ZeroDivisionError"):
        run_one(tmp_path / "log.txt", "operator:truediv", 1, 0)
    assert "Traceback" in (tmp_path / "log.txt").read_text()


def test_a_killed_child_is_told_with_its_signal(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="peer 1 ended with signal SIGKILL: it said nothing"):
        run_and_kill(tmp_path / "log.txt")


def test_when_one_fails_the_others_are_interrupted(tmp_path: Path) -> None:
    started: list[Child] = []
    with pytest.raises(UserError, match="peer 1 ended with exit status 4"):
        run_beside_one_that_fails(
            tmp_path, EVALUATE, "print('here') or __import__('time').sleep(3600)", started
        )
    assert started[0].process.exitcode == 130


def test_one_that_does_not_hear_the_interrupt_is_killed(tmp_path: Path) -> None:
    started: list[Child] = []
    with pytest.raises(UserError, match="peer 1 ended with exit status 4"):
        run_beside_one_that_fails(tmp_path, EVALUATE, DEAF, started)
    assert started[0].process.exitcode == -signal.SIGKILL


def test_a_second_run_appends_to_the_log(tmp_path: Path) -> None:
    for words in ("one", "two"):
        run_one(tmp_path / "log.txt", EVALUATE, f"print('{words}') or 0")
    assert (tmp_path / "log.txt").read_text() == "one\ntwo\n"


def test_endings_in_words() -> None:
    assert ending(2) == "exit status 2"
    assert ending(-9) == "signal SIGKILL"
    assert ending(-200) == "signal 200"


def test_last_line_of_nothing(tmp_path: Path) -> None:
    assert last_line(tmp_path / "none.txt") == ""
