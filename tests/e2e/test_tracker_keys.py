"""A tracker is identified by its key, which it keeps over restarts."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.e2e.processes import HOST, Nursery, Process


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
    line = second.fails(1)
    assert line.startswith("error: the key file runs/tracker/tracker.key is in use by another tracker")
    assert line.endswith(": end that one, or give another --key")
    first.send(signal.SIGINT)
    assert first.status() == 0
    again = nursery.plain("node.tracker", *where, cwd=tmp_path)
    assert key_of(again) == key
