"""The units under deploy/ start what they are meant to start, and systemd finds nothing wrong with them."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from node import options
from node.tracker import options as tracker

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ETC = "/etc/murmuration"
PYTHON = "/opt/murmuration/bin/python"
READERS = {"node": options.read_options, "node.tracker": tracker.read_options}
UNITS = {"murmuration-node.service": "node", "murmuration-tracker.service": "node.tracker"}
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


def service(unit: str) -> dict[str, str]:
    """The last value of each key of [Service]."""
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(DEPLOY / unit)
    return dict(parser["Service"])


@pytest.mark.parametrize(("unit", "module"), UNITS.items())
def test_the_command_of_a_unit_is_one_that_is_understood(unit, module):
    command = shlex.split(service(unit)["ExecStart"])
    assert command[:3] == [PYTHON, "-m", module]
    argv = [part.replace(ETC, str(DEPLOY)) for part in command[3:]]
    read = READERS[module](argv, {})
    assert read.log.style == "json"
    assert read.allow == Path(ETC, "peers.txt")


def test_the_node_keeps_its_state_where_the_unit_lets_it(monkeypatch):
    unit = service("murmuration-node.service")
    assert unit["WorkingDirectory"] == f"%S/{unit['StateDirectory']}"
    argv = shlex.split(unit["ExecStart"])[3:]
    read = options.read_options([part.replace(ETC, str(DEPLOY)) for part in argv], {})
    assert read.out == Path("run")
    assert int(unit["TimeoutStopSec"]) > read.drain_timeout_s + 10


def test_what_the_examples_leave_out_is_understood_too(tmp_path):
    """The lines that are commented out are options all the same."""
    written = (DEPLOY / "node.toml").read_text("utf-8")
    for name, value in (("[set.privacy]", ""), ('mechanism = "dp-sgd"', ""), ("epsilon = 8", "")):
        assert f"# {name}" in written
        written = written.replace(f"# {name}", name + value)
    (tmp_path / "node.toml").write_text(written, "utf-8")
    lines = [line[2:] for line in (DEPLOY / "node.env").read_text("utf-8").splitlines() if "=" in line]
    environ = dict(line.split("=", 1) for line in lines)
    assert len(environ) == 3
    read = options.read_options(["--config", str(tmp_path / "node.toml")], environ)
    assert (read.task.privacy.epsilon, read.log.level) == (4.0, "debug")


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_nothing_wrong(unit, tmp_path):
    """With an interpreter that is there."""
    text = (DEPLOY / unit).read_text("utf-8").replace(PYTHON, sys.executable)
    (tmp_path / unit).write_text(text, "utf-8")
    found = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit)], capture_output=True, text=True, check=False
    )
    assert unit not in found.stderr + found.stdout
    assert found.returncode == 0, found.stderr


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_leaves_little_open(unit):
    """The exposure that systemd finds, of 10.0, is at most 2.0; unhardened it is 9.6."""
    found = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(DEPLOY / unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-200:] + found.stderr
