"""A command that is interrupted while it loads, or whose reader is gone: its status, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.catalogue import BENCHMARKS
from node.cli.commands import COMMANDS
from scenarios.catalogue import SCENARIOS
from tests.e2e.processes import ENOUGH_S, ROOT

AT_IMPORT = Path(__file__).parent / "at_import"
NODE = ("node", "--peers", "127.0.0.1:1", "--shard", "0/3")
CHECK = ("node.check", "digits", "--shard", "0/3")
AGREE = ("node.agree", "digits", "--shard", "0/3", "--peers", "127.0.0.1:1")
PREDICT = ("node.predict", "--model", "model.safetensors", "--data", "a.csv")
TRACKER = ("node.tracker", "--listen", "127.0.0.1:0")
DOCTOR = ("node.doctor", "--peers", "127.0.0.1:1")
LIST = ("scenarios", "list")
LABELS = ("scenarios", "run", "label-dp")
WARM = """
from pathlib import Path
from scenarios.frame.children import Children, warm_up
warm_up(["colorsys"])
with Children() as children:
    child = children.start("one", Path("log"), "builtins:int")
    children.wait(60)
    print(child.process.exitcode)
"""
MOMENTS = [
    # the first module, one with native code, one of the last; and some of each package that guards itself
    *((NODE, module) for module in ("node.cli.error_handling", "numpy", "torch.nn", "node.app")),
    (("scenarios", "run", "swarm"), "torch.nn"),  # its fork-server loads the same, and hears nothing
    (("node.key", "node.key"), "numpy"),
    (PREDICT, "node.predict.model"),
    (TRACKER, "node.net.routes"),
    (LIST, "argparse"),
    (LABELS, "scenarios.vertical.wide_deep"),
    (("benchmarks", "list"), "argparse"),
]
OPENINGS = [
    (NODE, "torch", "starting: a node with the task digits"),
    (TRACKER, "aiohttp", "starting: introductions at 127.0.0.1:0"),
    (("node.init", "--data", "a.csv"), "pyarrow", "starting: a look at a.csv"),
    (AGREE, "torch", "starting: an agreement for digits-agreed.toml"),
    (PREDICT, "torch", "starting: predictions for a.csv with the model in model.safetensors"),
    (("node.show", "."), "aiohttp", "starting: a page for ."),
    (("node.report", "."), "node.report.write", "starting: a report of ."),
    (("node.rejoin", "--out", "."), "scipy", "starting: a look into ."),
    (DOCTOR, "aiohttp", "starting: an examination of the way to 1 peer"),
    (LABELS, "torch", f"scenario label-dp: {SCENARIOS['label-dp'].summary}"),
    (("scenarios", "data", "mnist", "--data-dir", "."), "aiohttp", "data set mnist, in ."),
    (("benchmarks", "noise", "--quick"), "torch", f"benchmark noise: {BENCHMARKS['noise'].summary}"),
]
"""What a command prints before it loads its slow imports."""
NOBODY = "error: the output cannot be written: its reader has ended; let that run, or write to a file\n"


def words(value: object) -> str | None:
    return " ".join(value) if isinstance(value, tuple) else None


def done(
    words: tuple[str | Path, ...], cwd: Path, stdout: int, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these words and these variables."""
    folders = os.pathsep.join((str(AT_IMPORT), str(ROOT)))
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": folders, **more},
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )


def ended(command: tuple[str, ...], cwd: Path, stdout: int, **more: str) -> tuple[int, str]:
    """Runs `python -m ...`; returns its exit status and its standard error."""
    process = done(("-m", *command), cwd, stdout, **more)
    return process.returncode, process.stderr


def said_before(words: tuple[str | Path, ...], cwd: Path, module: str) -> tuple[int, str, str]:
    """Returns the exit status and both outputs up to the import of the module."""
    process = done(words, cwd, subprocess.PIPE, INTERRUPTED_AT=module)
    return process.returncode, process.stdout, process.stderr


def unread(command: tuple[str, ...], cwd: Path, *, unbuffered: str) -> tuple[int, str]:
    """Runs a command whose output pipe has no reader."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return ended(command, cwd, writer, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(writer)


@pytest.mark.parametrize(("command", "module"), MOMENTS, ids=words)
def test_ctrl_c_at_an_import_ends_a_command_at_once(tmp_path, command, module):
    """If the command never imported the module, it would end in another way."""
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n")
    before = set(tmp_path.iterdir())
    assert ended(command, tmp_path, subprocess.DEVNULL, INTERRUPTED_AT=module) == (130, "")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("argv", "module"),
    [
        (("node", *NODE[1:]), "node.cli.murmuration"),
        (("node", *NODE[1:], "--json"), "torch.nn"),
    ],
    ids=words,
)
def test_ctrl_c_ends_the_installed_command_at_once_too(script, tmp_path, argv, module):
    assert said_before((script, *argv), tmp_path, module) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("command", "module", "line"), OPENINGS, ids=words)
def test_a_command_says_what_it_begins_before_it_loads_what_takes_seconds(tmp_path, command, module, line):
    """Ctrl-C at that import ends it at once, and leaves nothing."""
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n")
    before = set(tmp_path.iterdir())
    assert said_before(("-m", *command), tmp_path, module) == (130, f"{line}\n", "")
    assert set(tmp_path.iterdir()) == before


def test_check_says_it_beside_its_findings(tmp_path):
    line = "starting: checks of digits\n"
    assert said_before(("-m", *CHECK), tmp_path, "torch") == (130, "", line)


@pytest.mark.parametrize("command", [NODE, AGREE, PREDICT], ids=words)
def test_what_a_program_reads_has_no_such_line(tmp_path, command):
    assert said_before(("-m", *command, "--json"), tmp_path, "torch") == (130, "", "")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_that_nobody_reads_is_a_line(monkeypatch, capsys, command):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as nowhere:
        monkeypatch.setattr(sys, "stdout", nowhere)
        assert command.load().main(["--help"]) == 1
    who, _, said = capsys.readouterr().err.partition(": ")
    assert (who in {"error", "scenarios", "benchmarks"}, f"error: {said}") == (True, NOBODY)


@pytest.mark.parametrize(("command", "line"), [(("node", "--help"), NOBODY), (LIST, "")], ids=words)
def test_what_nobody_reads_is_a_line_at_most(tmp_path, command, line):
    """What prints tables says nothing by itself."""
    assert unread(command, tmp_path, unbuffered="") == (1, line)


def test_help_that_nobody_reads_is_no_fault_where_nothing_is_buffered(tmp_path):
    """Argparse then gets the write error, and ignores it."""
    assert unread(("node", "--help"), tmp_path, unbuffered="1") == (0, "")


def test_ctrl_c_does_not_reach_what_starts_the_children(tmp_path):
    """At a terminal SIGINT goes to every process; the command itself ends its children."""
    folders = os.pathsep.join((str(AT_IMPORT), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", WARM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": folders, "INTERRUPTED_AT": "colorsys"},
        capture_output=True,
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
