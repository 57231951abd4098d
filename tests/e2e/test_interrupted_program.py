"""A program with a swarm in it that is interrupted; all else of such programs: tests/unit/node/api."""

from __future__ import annotations

import signal


def test_ctrl_c_ends_a_swarm_cleanly(nursery, tmp_path):
    (tmp_path / "temporary").mkdir()
    process = nursery.module("tests.e2e.interrupted_swarm", str(tmp_path / "temporary"))
    process.line("a round is over")

    process.send(signal.SIGINT)

    assert process.line("interrupted") == "interrupted, True, left: []"
    assert process.status() == 130
