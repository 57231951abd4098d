"""One of five real peers joins every sum and then withholds its part: it is named and left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.dying_peer import Orders
from tests.e2e.swarm import STEPS, Swarm, get, history, one_digest, rows, summary

PEERS, ROUNDS, EVERY = 5, 6, 5
SPOILED = (2, 3)
"""Two steps at the beginning; one after four rounds without it, if it comes back before the sixth is over."""
NICKNAME = "ward b"
RUN = (
    f"train.steps={ROUNDS * EVERY}",
    f"train.report_every={EVERY}",
    "privacy.honest=2",
    "privacy.epsilon=3",
    "aggregation.min_participants=4",
    "aggregation.sums_timeout_s=4",
)


@pytest.mark.parametrize("silent", [0, 3])  # 0 coordinates
def test_a_peer_that_withholds_costs_few_steps_and_is_named(make_swarm, tmp_path: Path, silent: int) -> None:
    swarm: Swarm = make_swarm(PEERS, ROUNDS, *RUN, usual=STEPS)
    names = tmp_path / "names"
    names.write_text(f"{NICKNAME} = {swarm.keys[silent].hex()}\n")
    others = {
        number: swarm.start(number, "--names", str(names)) for number in range(PEERS) if number != silent
    }
    lying = swarm.start(silent, orders=Orders(withholds=True))
    for node in others.values():
        node.line(f"{NICKNAME} did not send its masked vector, and the sum failed: left out for 4 rounds")
    first = next(iter(others))
    healthy = json.loads(get(swarm.endpoints[first], "/healthz")[1])
    ends = [node.ends_well() for node in others.values()]
    lying.kill()

    one_digest(ends)
    assert healthy["left_out"] == "1 peer withheld what was due to sums, and is left out for a while"
    for number in others:
        lines = history(swarm.out(number))
        assert sum(line["steps"] for line in lines) == ROUNDS * EVERY
        failed = sum(line["steps_failed"] for line in lines)
        assert failed in SPOILED
        assert len(rows(swarm.out(number), "select sid from ledger")) == ROUNDS * EVERY + failed
        assert lines[-1]["participants"] == PEERS - 1
        assert summary(swarm.out(number))["privacy"]["epsilon_spent"] <= 3.0
