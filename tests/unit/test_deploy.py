"""What deploy/ starts is understood: units, of which systemd finds nothing wrong, and containers."""

import configparser
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from node import options
from node.net.tls import covers
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


def containers() -> dict[str, dict[str, Any]]:
    """The services of the compose file, by name."""
    services: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))[
        "services"
    ]
    return services


@pytest.mark.parametrize("name", ["tracker", "node-0", "node-1", "node-2"])
def test_the_command_of_a_container_is_one_that_is_understood(name):
    words = shlex.split(containers()[name]["command"])
    module = {"node": "node", "tracker": "node.tracker"}[words[0]]
    read = READERS[module](words[1:], {})
    assert read.listen.partition(":")[0] == name
    assert covers(read.tls, read.listen)


def test_the_nodes_of_the_compose_file_make_one_swarm_with_its_tracker():
    services = containers()
    nodes = [
        options.read_options(shlex.split(services[f"node-{number}"]["command"])[1:], {})
        for number in range(3)
    ]
    listen = tracker.read_options(shlex.split(services["tracker"]["command"])[1:], {}).listen
    assert [node.shard for node in nodes] == [(0, 3), (1, 3), (2, 3)]
    assert {node.tracker for node in nodes} == {listen}
    assert len({node.listen for node in nodes}) == 3
    for number, node in enumerate(nodes):
        port = node.listen.rpartition(":")[2]
        assert services[f"node-{number}"]["ports"] == [f"127.0.0.1:910{number + 1}:{port}"]
        assert services[f"node-{number}"]["volumes"] == [f"node-{number}:/data"]
    program, *asked = services["tracker"]["healthcheck"]["test"][1:]
    assert program == "murmuration"
    assert asked == ["doctor", "--tracker", f"https://{listen}"]


def steps() -> list[list[str]]:
    """The instructions of the Dockerfile, as words."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    return [shlex.split(line, comments=True) for line in text.splitlines() if line and line[0] != "#"]


def test_the_image_copies_what_the_wheel_is_built_from_and_nothing_else():
    copied = [step[1:-1] for step in steps() if step[0] == "COPY" and not step[1].startswith("--from")]
    names = {name for part in copied for name in part}
    declared = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text("utf-8"))
    packages = {
        name for name in declared["tool"]["setuptools"]["packages"]["find"]["include"] if "." not in name
    }
    files = {
        "constraints.txt",
        "pyproject.toml",
        declared["project"]["readme"],
        *declared["project"]["license-files"],
    }
    assert names == packages | files
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert {line[1:] for line in allowed if line.startswith("!")} == names
    assert "*" in allowed


def test_the_image_runs_as_a_user_of_its_own_in_a_folder_that_stays():
    named = {step[0]: step[1:] for step in steps()}
    assert named["USER"] == ["murmuration"]
    assert named["WORKDIR"] == named["VOLUME"] == ["/data"]
    assert named["ENTRYPOINT"] == ["[murmuration]"]
    assert [step[1].split("-")[0] for step in steps() if step[0] == "FROM"] == ["python:3.11"] * 2
