"""A command that is interrupted while it is loaded, or whose reader is gone: its status, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import ENOUGH_S, ROOT

AT_IMPORT = Path(__file__).parent / "at_import"
NODE = ("node", "--peers", "127.0.0.1:1", "--shard", "0/3")
CHECK = ("node.check", "digits", "--shard", "0/3")
PREDICT = ("node.predict", "--model", "model.safetensors", "--data", "a.csv")
TRACKER = ("node.tracker", "--listen", "127.0.0.1:0")
LIST = ("scenarios", "list")
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
    # the first module, one in the middle, one of the last
    *((NODE, module) for module in ("node.cli.exit", "numpy", "torch.nn", "node.app")),
    *((("node.init", "--data", "a.csv"), module) for module in ("argparse", "numpy")),
    *((CHECK, module) for module in ("node.cli.exit", "numpy", "node.check.checks")),
    *((PREDICT, module) for module in ("argparse", "numpy", "node.predict.model")),
    *((("node.key", "node.key"), module) for module in ("node.cli.exit", "numpy")),
    *((TRACKER, module) for module in ("asyncio", "aiohttp", "node.net.routes")),
    *((LIST, module) for module in ("argparse", "rich", "scenarios.vertical.wide_deep")),
    (("node.agree", "--data", "a.csv", "--peers", "127.0.0.1:1"), "numpy"),
    (("benchmarks", "list"), "argparse"),
]
NOBODY = "error: the output can not be written: what reads it has ended; let it run, or write to a file\n"
HELPS = [
    (("node", "--help"), NOBODY),
    (("node.init", "--help"), NOBODY),
    (("node.check", "--help"), NOBODY),
    (("node.predict", "--help"), NOBODY),
    (("node.key", "--help"), NOBODY),
    (("node.tracker", "--help"), NOBODY),
    (("scenarios", "list"), ""),  # what prints tables says nothing by itself
]


def words(value: object) -> str | None:
    return " ".join(value) if isinstance(value, tuple) else "line" if value == NOBODY else None


def ended(command: tuple[str, ...], cwd: Path, stdout: int, **more: str) -> tuple[int, str]:
    """`python -m ...`: its exit status, and what it said on standard error."""
    folders = os.pathsep.join((str(AT_IMPORT), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": folders, **more},
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )
    return done.returncode, done.stderr


def unread(command: tuple[str, ...], cwd: Path, *, unbuffered: str) -> tuple[int, str]:
    """Its output goes to a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return ended(command, cwd, writer, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(writer)


@pytest.mark.parametrize(("command", "module"), MOMENTS, ids=words)
def test_ctrl_c_at_an_import_ends_a_command_at_once(tmp_path, command, module):
    """Where the module is never imported, the command ends in another way."""
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n")
    before = set(tmp_path.iterdir())
    assert ended(command, tmp_path, subprocess.DEVNULL, INTERRUPTED_AT=module) == (130, "")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("command", "line"), HELPS, ids=words)
def test_what_nobody_reads_is_a_line_at_most(tmp_path, command, line):
    assert unread(command, tmp_path, unbuffered="") == (1, line)


def test_help_that_nobody_reads_is_no_fault_where_nothing_is_buffered(tmp_path):
    """Argparse then sees it, and says nothing."""
    assert unread(("node", "--help"), tmp_path, unbuffered="1") == (0, "")


def test_ctrl_c_does_not_reach_what_starts_the_children(tmp_path):
    """At a terminal it goes to every process; the children are told by the command itself."""
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
