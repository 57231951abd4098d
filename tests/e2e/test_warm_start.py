"""A command in a fork of the warm parent ends as one that starts by itself, and has nothing of others."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scenarios.frame.children import Child, Children, last_line
from tests.e2e.processes import free_endpoint
from tests.patience import ENOUGH_S

REFUSED = """
import os
from pathlib import Path
from scenarios.__main__ import main
print(main(["run", "swarm", "--rounds", "0"]))
for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
    print(Path(f"/proc/{pid}/cmdline").read_text())
"""
COMMAND = "scenarios.frame.children:command"


def look() -> int:
    """Prints what this process has, in one line of JSON."""
    print(
        json.dumps(
            {
                "descriptors": descriptors(),
                "parent's threads": len(list(Path(f"/proc/{os.getppid()}/task").iterdir())),
                "loaded": "torch" in sys.modules,
                "collects": gc.isenabled(),
                "loop": asyncio._get_running_loop() is not None,
                "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
                "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
                "terminate": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
                "a group of its own": os.getpgrp() == os.getpid(),
                "random": os.urandom(16).hex(),
            }
        )
    )
    return 0


def descriptors() -> dict[int, str]:
    """Returns what each open descriptor is: a path, or the kind of what has none."""
    found: dict[int, str] = {}
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing
            found[int(one.name)] = str(one.readlink()).partition(":")[0]
    return found


def looked(folder: Path, name: str) -> dict[str, Any]:
    """Starts a child that looks around; returns what it found."""
    with Children() as children:
        children.start(name, folder / name, "tests.e2e.test_warm_start:look")
        while children.running():
            children.wait(ENOUGH_S)
    found: dict[str, Any] = json.loads(last_line(folder / name))
    return found


def started(children: Children, folder: Path) -> Child:
    """Starts a node that waits for a peer; returns it once it has begun to train."""
    here = free_endpoint()
    words = ("--peers", f"{here},{free_endpoint()}", "--listen", here, "--shard", "0/2", "--json")
    child = children.start(folder.name, folder / "log", COMMAND, "node", folder, *words, "--out", "run")
    while not (child.log.exists() and '"training"' in child.log.read_text("utf-8")):
        children.running()
        children.wait(0.01)
    return child


def ended(child: Child) -> int | None:
    child.process.join(ENOUGH_S)
    return child.process.exitcode


def test_the_warm_parent_has_one_thread_and_a_child_nothing_of_its_parents(tmp_path: Path) -> None:
    looked(tmp_path, "first")  # what libraries have started for themselves ends before the first fork
    with socket.create_server(("127.0.0.1", 0)) as listener, (tmp_path / "held").open("w") as held:
        for ours in (listener, held):
            os.set_inheritable(ours.fileno(), True)
        found, other = looked(tmp_path, "second"), looked(tmp_path, "third")
    assert found.pop("random") != other["random"]
    own, log = found.pop("descriptors"), str(tmp_path / "second")
    assert [own.pop(number) for number in "012"] == [os.devnull, log, log]
    assert set(own.values()) <= {"pipe", os.devnull}  # those of multiprocessing
    assert len(own) == len(other["descriptors"]) - 3
    assert found == {
        "parent's threads": 1,
        "loaded": True,
        "collects": True,
        "loop": False,
        "blocked": [],
        "interrupt": True,
        "terminate": True,
        "a group of its own": True,
    }


def test_a_node_ends_as_one_that_starts_by_itself_at_a_signal_or_with_one_line(tmp_path: Path) -> None:
    for sign, status in ((signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        folder = tmp_path / sign.name
        folder.mkdir()
        with Children() as children:
            child = started(children, folder)
            assert child.process.pid is not None
            os.kill(child.process.pid, sign)
            assert ended(child) == status
        assert "Traceback" not in child.log.read_text("utf-8")
        assert (folder / "run" / "summary.json").exists() == (status == 130)
    with Children() as children:
        child = children.start("one", tmp_path / "log", COMMAND, "node", tmp_path, "--peers", "nowhere")
        assert ended(child) == 2
    (line,) = child.log.read_text("utf-8").splitlines()
    assert line.startswith("error: --peers 'nowhere' is refused")


@pytest.mark.sampled
def test_the_warm_parent_of_the_demo_loads_while_the_demo_does(tmp_path: Path) -> None:
    asked = [sys.executable, "-c", REFUSED]
    said = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    _, status, *children = said.stdout.splitlines()
    assert (status, said.stderr) == ("2", "scenarios: --rounds 0: allowed are 1 and more\n")
    assert any("multiprocessing.forkserver" in child for child in children)
