"""A tracker is identified by its key, which it keeps over restarts and nodes pin or remember."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.processes import HOST, Nursery, Process, free_endpoint
from tests.e2e.swarm import one_digest

KEY = "ab" * 32


def key_of(tracker: Process) -> str:
    return tracker.line("tracker ").split()[1]


def test_a_tracker_keeps_its_key_where_it_is_started_and_is_there_once(
    nursery: Nursery, tmp_path: Path
) -> None:
    where = ("--listen", f"{HOST}:0")
    first = nursery.plain("node.tracker", *where, cwd=tmp_path)
    key, at = key_of(first), first.line("tracker ").split()[3]
    assert first.line("nodes come with: ") == f"nodes come with: --tracker {key}@{at}"
    kept = tmp_path / "runs" / "tracker" / "tracker.key"
    assert kept.stat().st_mode & 0o777 == 0o600
    second = nursery.plain("node.tracker", *where, cwd=tmp_path)
    assert second.fails(1) == (
        "error: the key file runs/tracker/tracker.key is in use by another tracker: end that one, or give "
        "another --key"
    )
    first.send(signal.SIGINT)
    assert first.status() == 0
    again = nursery.plain("node.tracker", *where, cwd=tmp_path)
    assert key_of(again) == key


@pytest.mark.parametrize("tls", ["auto", "on"])
@pytest.mark.parametrize("pinned", [False, True])
def test_another_tracker_in_the_place_of_the_first_ends_every_node(
    make_swarm, nursery: Nursery, tls: str, pinned: bool
) -> None:
    where = free_endpoint()
    tracker = nursery.tracker("--listen", where, "--tls", tls)
    key = key_of(tracker)
    swarm = make_swarm(3, 1000, tracker=where)
    named = ["--tracker", f"{key}@{where}"] if pinned else []
    nodes = [swarm.start(number, "--tls", tls, *named) for number in range(3)]
    for node in nodes:
        node.event("round", round=2, outcome="aggregated")
    kept = [swarm.out(number) / "tracker.pub" for number in range(3)]
    assert [file.exists() for file in kept] == [not pinned] * 3
    tracker.send(signal.SIGKILL)
    assert tracker.status() == -signal.SIGKILL
    other = nursery.tracker("--listen", where, "--tls", tls, "--key", str(swarm.folder / "other.key"))
    came = key_of(other)
    for node, file in zip(nodes, kept, strict=True):
        line = node.fails(2)
        assert f"the tracker at {where} is another one than before: " in line
        assert f"the key {came[:16]}" in line
        assert f"not {key[:16]}" in line
        assert line.endswith("correct the KEY of --tracker" if pinned else f"delete {file}")


def test_a_node_that_comes_back_knows_the_tracker(make_swarm, nursery: Nursery) -> None:
    where = free_endpoint()
    tracker = nursery.tracker("--listen", where)
    key = key_of(tracker)
    swarm = make_swarm(3, 3, tracker=where)
    ends = [node.ends_well() for node in swarm.start_all()]
    one_digest(ends)
    assert (swarm.out(0) / "tracker.pub").read_text() == f"{key}@{where}\n"
    tracker.send(signal.SIGKILL)
    tracker.status()
    nursery.tracker("--listen", where, "--key", str(swarm.folder / "other.key")).line("nodes come with")
    line = swarm.start(0, "--rounds", "9").fails(2)
    assert f", not {key}; find out who answers there" in line
    assert line.endswith(f"delete {swarm.out(0) / 'tracker.pub'}")


def test_off_this_machine_a_tracker_without_a_key_is_refused_at_the_start(
    nursery: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "list").write_text(KEY + "\n")
    out = tmp_path / "out"
    argv = ("--listen", "192.0.2.2:9001", "--shard", "0/3", "--allow", str(tmp_path / "list"))
    node = nursery.fork("--tracker", "https://192.0.2.1:9000", *argv, "--out", str(out))
    assert node.fails(2) == (
        "error: --tracker '192.0.2.1:9000' is not on this machine, so give its key: KEY@URL, as the "
        "tracker prints it at its start, or --open to accept the key that it shows first"
    )
    assert not out.exists()
