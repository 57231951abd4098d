"""One of three real nodes of an exact job is killed by pid after it has spent its words, and comes back.

The others have voted for a sum that needs the dead node's, so they wait until it is back; all end with the
same bits. All other steps, and which vectors were spent: tests/box/test_kills.py, test_jobs_killed.py.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from node.init import __main__ as init
from tests.e2e.dying_peer import Fate, Orders
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.e2e.swarm import one_digest, settings
from tests.own_data import ward
from tests.run_folders import rows, summary

NODES = 3
CURVES = ("node.__main__", ("--task",), settings("model.args.trees=0"))
STATISTICS = ("node.stats", (), settings("privacy.mechanism=none", 'statistics.tables=[["ward", "smoker"]]'))


@pytest.mark.parametrize(("job", "session"), [(CURVES, 6), (STATISTICS, 3)], ids=["curves", "statistics"])
def test_a_node_killed_in_a_sum_comes_back_and_all_have_one_result(
    nursery: Nursery, tmp_path: Path, job: tuple[str, tuple[str, ...], list[str]], session: int
) -> None:
    task, (module, named, sets) = tmp_path / "ward.toml", job
    for number in range(NODES):
        (tmp_path / f"{number}.csv").write_text(ward(150 + 50 * number, number))
    drafted = ("--target", "outcome", "--agree", "--privacy", "none", "--out", str(task))
    assert init.main(["--data", str(tmp_path / "0.csv"), *drafted]) == 0
    endpoints = [free_endpoint() for _ in range(NODES)]

    def start(number: int, orders: Orders | None = None) -> Process:
        where = ("--peers", ",".join(endpoints), "--listen", endpoints[number], "--wait", "forever")
        own = ("--data", str(tmp_path / f"{number}.csv"), "--out", str(tmp_path / f"out-{number}"))
        return nursery.module(module, *named, str(task), *where, *own, "--json", *sets, orders=orders)

    others = [start(number) for number in range(1, NODES)]
    victim = start(0, Orders(fate=Fate("Sum", session)))
    assert victim.status() == -signal.SIGKILL
    out = tmp_path / "out-0"
    ends = [node.ends_well() for node in (*others, start(0))]
    one_digest(ends)
    assert all(end["finished"] and end["generation"] > session for end in ends)
    ledger = rows(out, "select sid, round from ledger")
    assert len({sid for sid, _ in ledger}) == len({round for _, round in ledger}) == len(ledger)
    assert summary(out)["offers"] == len(ledger)
