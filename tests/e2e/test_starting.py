"""A command that is interrupted while it loads: what it has said, its status, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.catalogue import BENCHMARKS
from scenarios.catalogue import SCENARIOS
from tests.e2e.processes import ROOT
from tests.patience import ENOUGH_S

AT_IMPORT = Path(__file__).parent / "at_import"
NODE = ("-m", "node", "--peers", "127.0.0.1:1", "--shard", "0/3")
AGREE = ("-m", "node.agree", "digits", "--shard", "0/3", "--peers", "127.0.0.1:1")
PREDICT = ("-m", "node.predict", "--model", "model.safetensors", "--data", "a.csv")
TRACKER = ("-m", "node.tracker", "--listen", "127.0.0.1:0")
DOCTOR = ("-m", "node.doctor", "--peers", "127.0.0.1:1")
LABELS = ("-m", "scenarios", "run", "label-dp")
WARM = """
from pathlib import Path
from scenarios.frame.children import Children, warm_up
warm_up(["colorsys"])
with Children() as children:
    child = children.start("one", Path("log"), "builtins:int")
    children.wait(60)
    print(child.process.exitcode)
"""
SILENT = [
    # the first module, one with native code, and one of the last; what each package guards itself
    *((NODE, module) for module in ("node.cli.error_handling", "numpy")),
    *(((*NODE, "--json"), module) for module in ("torch", "torch.nn", "node.app.run")),
    *(((*command, "--json"), "torch") for command in (AGREE, PREDICT)),
    (("-m", "node.key", "node.key"), "numpy"),
    (("-m", "scenarios", "list"), "argparse"),
    (("-m", "benchmarks", "list"), "argparse"),
]
"""A command and a module at whose import it is interrupted: it has said nothing."""
OPENINGS = [
    (NODE, "torch", "starting: a node with the task digits"),
    (TRACKER, "aiohttp", "starting: introductions at 127.0.0.1:0"),
    (TRACKER, "node.net.incoming.routes", "starting: introductions at 127.0.0.1:0"),
    (("-m", "node.init", "--data", "a.csv"), "pyarrow", "starting: a look at a.csv"),
    (AGREE, "torch", "starting: an agreement for digits-agreed.toml"),
    (PREDICT, "torch", "starting: predictions for a.csv with the model in model.safetensors"),
    (("-m", "node.show", "."), "aiohttp", "starting: a page for ."),
    (("-m", "node.desk"), "aiohttp", "starting: a page for this folder"),
    (("-m", "node.report", "."), "node.report.write", "starting: a report of ."),
    (("-m", "node.rejoin", "--out", "."), "scipy", "starting: a look into ."),
    (DOCTOR, "aiohttp", "starting: an examination of the way to 1 peer"),
    (LABELS, "torch", f"scenario label-dp: {SCENARIOS['label-dp'].summary}"),
    (("-m", "scenarios", "data", "mnist", "--data-dir", "."), "aiohttp", "data set mnist, in ."),
    (("-m", "benchmarks", "noise", "--quick"), "torch", f"benchmark noise: {BENCHMARKS['noise'].summary}"),
]
"""What a command prints before it loads its slow imports."""


def python(words: tuple[str | Path, ...], cwd: Path, module: str) -> tuple[int, str, str]:
    """Runs Python with these words; it interrupts itself when it imports the module."""
    folders = os.pathsep.join((str(AT_IMPORT), str(ROOT)))
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": folders, "INTERRUPTED_AT": module},
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.sampled
def test_ctrl_c_at_an_import_ends_a_command_at_once_after_its_first_line(
    script: Path, tmp_path: Path
) -> None:
    """If the command never imported the module, it would end in another way."""
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n")
    before = set(tmp_path.iterdir())
    installed = (script, "node", *NODE[2:])
    cases = [
        *((words, module, "", "") for words, module in SILENT),
        *((words, module, f"{line}\n", "") for words, module, line in OPENINGS),
        (("-m", "node.check", "digits", "--shard", "0/3"), "torch", "", "starting: checks of digits\n"),
        (installed, "node.cli.murmuration", "", ""),
        ((*installed, "--json"), "torch.nn", "", ""),
    ]
    for words, module, *said in cases:
        assert python(words, tmp_path, module) == (130, *said), (words, module)
    assert set(tmp_path.iterdir()) == before


def test_ctrl_c_does_not_reach_what_starts_the_children(tmp_path: Path) -> None:
    """At a terminal SIGINT goes to every process; the command itself ends its children."""
    assert python(("-c", WARM), tmp_path, "colorsys") == (0, "0\n", "")
