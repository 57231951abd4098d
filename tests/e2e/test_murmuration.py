"""The installed command, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT
from tests.patience import ENOUGH_S

SHIPPED = ("node", "protocol", "mechanisms", "scenarios")
OWN_TASK = """\
[task]
name = "own"
[model]
class = "mine:Net"
[data]
source = "digits"
"""
OWN_MODEL = """\
from torch import nn
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
"""


def ended(words: tuple[str | Path, ...], cwd: Path, packages: Path = ROOT) -> tuple[int, str, str]:
    """Runs Python with these words; returns its exit status and both outputs."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(packages), "COLUMNS": "100"},
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_both_doors_are_there_and_one_line_says_that_the_repository_is_not(
    script: Path, tmp_path: Path
) -> None:
    """tests/unit/node/cli/test_murmuration.py compares what lies behind them."""
    for words in ((script, "key"), ("-m", "node.key")):
        status, out, err = ended((*words, "--help"), tmp_path)
        assert (status, err) == (0, "")
        assert out.startswith("usage: ")
    assert ended(("-m", "node.key", "--nope"), tmp_path)[:2] == (2, "")

    for name in SHIPPED:  # Python's path has nothing that a developers' environment adds to it
        (tmp_path / name).symlink_to(ROOT / name)

    status, out, err = ended(("-S", script, "bench", "list"), tmp_path, packages=tmp_path)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: bench is not part of the installed package: it is in the repository; ")


@pytest.mark.sampled
def test_a_class_of_ones_own_is_found_in_this_folder(script: Path, tmp_path: Path) -> None:
    """As `python -m` finds it; the script is in another folder."""
    (tmp_path / "own.toml").write_text(OWN_TASK)
    (tmp_path / "mine.py").write_text(OWN_MODEL)

    status, out, _ = ended((script, "check", "own.toml", "--shard", "0/3"), tmp_path)

    assert (status, out.splitlines()[-1]) == (0, "nothing found that would fail")
    assert "ok       model: mine:Net, 650 parameters, takes these rows" in out.splitlines()


def test_a_scenario_runs_with_its_processes(script: Path, tmp_path: Path) -> None:
    """Children of the installed command import it again, but do not run it again."""
    argv = ("scenarios", "run", "swarm", "--quick", "--peers", "3", "--rounds", "1", "--out", "run")

    status, out, err = ended((script, *argv), tmp_path)

    assert (status, err) == (0, "")
    assert out.startswith("scenario swarm: Real peers on loopback")
    assert (tmp_path / "run" / "report.html").is_file()
