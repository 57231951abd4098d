"""The installed command and `python -m` run the same code, whether or not somebody reads what it says."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from node.cli import murmuration
from node.cli.commands import COMMANDS, Entry
from node.desk import __main__ as desk
from scenarios.__main__ import main as scenarios

NAMES = [command.name for command in COMMANDS]
NOBODY = "the output cannot be written: its reader has ended; let that run, or write to a file\n"
Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Returns a function that calls a command as if `program` was started: its status and both outputs."""

    def call(
        main: Callable[[Sequence[str]], int], argv: Sequence[str], program: str = murmuration.SCRIPT
    ) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [f"/bin/{program}", *argv])
        monkeypatch.setenv("COLUMNS", "100")
        return main(argv), *capsys.readouterr()

    return call


def without_program(said: str) -> str:
    """Replaces both names of each command by one, and rewraps the lines."""
    for command in COMMANDS:
        names = rf"(murmuration {command.name}|python -m {re.escape(command.package)})\b(?!\.)"
        said = re.sub(names, f"<{command.name}>", said)
    return " ".join(said.split())


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
@pytest.mark.parametrize("option", ["--help", "--nope"])
def test_both_doors_lead_to_the_same(called: Called, command: Entry, option: str) -> None:
    by_name = called(murmuration.main, (command.name, option))
    by_module = called(command.load().main, (option,), "__main__.py")

    assert by_name[0] == by_module[0] == (0 if option == "--help" else 2)
    assert [without_program(said) for said in by_name[1:]] == [
        without_program(said) for said in by_module[1:]
    ]
    if option == "--help":
        assert by_name[1].startswith(f"usage: murmuration {command.name} ")
        assert by_module[1].startswith(f"usage: python -m {command.package} ")
    else:
        assert by_name[2].count("\n") == 1


def test_every_command_starts_and_ends_by_the_shared_way() -> None:
    """tests/e2e/test_starting.py interrupts them; an error of any is one line."""
    for entry in COMMANDS:
        source = Path(str(entry.load().__file__)).read_text("utf-8")
        assert source.endswith("\nmain.start(__name__)\n"), entry.name


@pytest.mark.parametrize(
    ("argv", "status", "out", "err"),
    [
        ((), 2, "usage: murmuration COMMAND", ""),
        (("--help",), 0, "usage: murmuration COMMAND", ""),
        (("--version",), 0, "murmuration ", ""),
        (("nod",), 2, "", "error: 'nod' is no command of murmuration (did you mean node?); allowed: node, "),
        (("zzz",), 2, "", "error: 'zzz' is no command of murmuration; allowed: node, tracker, init, check, "),
        (("--debug",), 2, "", "error: '--debug' is no command of murmuration; allowed: node, "),
    ],
)
def test_what_the_program_says_itself(
    called: Called, argv: tuple[str, ...], status: int, out: str, err: str
) -> None:
    ending, said, complained = called(murmuration.main, argv)

    assert ending == status
    assert said.startswith(out) if out else said == ""
    assert complained.startswith(err) if err else complained == ""
    assert complained.count("\n") == bool(err)
    assert argv[:1] not in [(), ("--help",)] or all(f"\n  {name} " in said for name in NAMES)


def test_without_a_command_a_terminal_gets_the_desk(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(desk, "main", lambda argv: started.append(argv) or 0)
    for terminals, status in ((("stdin", "stdout"), 0), (("stdin",), 2), (("stdout",), 2)):
        for stream in ("stdin", "stdout"):
            answer = stream in terminals
            monkeypatch.setattr(getattr(sys, stream), "isatty", lambda answer=answer: answer, raising=False)
        assert called(murmuration.main, ())[0] == status
    assert started == [[]]


def unread(capsys: pytest.CaptureFixture[str], main: Callable[[Sequence[str]], int], *argv: str) -> str:
    """Calls a command whose output is a pipe without a reader: it fails; returns what it complains."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as nowhere, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", nowhere)
        try:
            status = main(argv)
        except SystemExit as end:  # the library that prints tables ends by itself
            status = int(end.code or 0)
    assert status == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_help_that_nobody_reads_is_a_line(capsys: pytest.CaptureFixture[str], command: Entry) -> None:
    who, _, said = unread(capsys, command.load().main, "--help").partition(": ")
    assert (who in {"error", "scenarios", "benchmarks"}, said) == (True, NOBODY)


def test_a_table_that_nobody_reads_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The library that prints it says nothing by itself."""
    assert unread(capsys, scenarios, "list") == ""
