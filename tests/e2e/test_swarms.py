"""What a node shows of a swarm without faults: plain lines, and the live view of a terminal."""

from __future__ import annotations

import json
import pty
from pathlib import Path

from tests.e2e.processes import Nursery, free_endpoint
from tests.e2e.swarm import SMALL, settings
from tests.run_folders import summary


def test_the_plain_command_line_prints_plain_lines(nursery: Nursery, tmp_path: Path) -> None:
    """As in the first lines of --help: three terminals, no --listen, no --out."""
    peers = ",".join(free_endpoint() for _ in range(3))
    nodes = [
        nursery.command(
            "node.__main__",
            (
                *("--peers", peers, "--shard", f"{number}/3", "--rounds", "2"),
                *("--wait", "forever", *settings(*SMALL)),
            ),
            tmp_path,
        )
        for number in range(3)
    ]
    for node in nodes:
        assert node.status() == 0, node.told()
        node.out.join()
        node.err.join()
        lines = node.out.all()
        assert node.err.all() == []
        assert [line.partition(":")[0] for line in lines[:8]] == [
            *("starting", "node", "task", "data", "may join", "links", "sums", "privacy")
        ]
        assert not any("\x1b" in line or line.startswith("{") for line in lines)
        assert any(line.startswith("round 2/2: aggregated with 3 peers; test accuracy") for line in lines)
        assert lines[-1].startswith("finished after round 2: 2 aggregated, 0 on its own; test accuracy")
    outs = list((tmp_path / "runs").iterdir())
    assert len(outs) == 3
    assert len({summary(out)["base_digest"] for out in outs}) == 1


def test_a_terminal_shows_the_live_view(nursery: Nursery, tmp_path: Path) -> None:
    """One node that nobody joins: the view shows what it waits for, and the outcome."""
    master, slave = pty.openpty()
    endpoint = free_endpoint()
    node = nursery.terminal(
        *("--peers", endpoint, "--shard", "0/3", "--rounds", "1", "--out", str(tmp_path / "out")),
        *("--wait", "0", *settings(*SMALL, "aggregation.group_timeout_s=1")),
        cwd=tmp_path,
        master=master,
        slave=slave,
    )
    assert node.status() == 1, node.told()
    node.out.join()
    shown = "\n".join(node.out.all())
    assert "\x1b[" in shown
    for text in ("looking for a group", "at most", "round", "own: group-timeout", "stopped after round 0"):
        assert text in shown, shown
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["fallbacks"] == 1
