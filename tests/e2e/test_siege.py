"""Strangers flood a node, clocks are wrong, nodes are killed; afterwards all is as before (`make siege`).

MURMURATION_SIEGE_S sets another length.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest

from tests.e2e.dying_peer import Orders, WrongClock
from tests.e2e.processes import Nursery, Process
from tests.e2e.swarm import Swarm, one_digest
from tests.run_folders import history

SIEGE_S = float(os.environ.get("MURMURATION_SIEGE_S", "600"))
COUNT, ATTACKED, TWIN = 6, 0, 5
CLOCKS = {1: 600.0, 2: -100.0}
KILL_EVERY_S = 25.0
REST_S = 60.0
"""The time after the siege until memory is measured."""
MANY = 1_000_000
MIB = 1 << 20
SETTINGS = ("aggregation.group_timeout_s=30",)
pause = threading.Event()  # is never set: what is waited for is time


def resident(node: Process) -> int:
    lines = Path(f"/proc/{node.pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def descriptors(node: Process) -> int:
    return sum(1 for _ in Path(f"/proc/{node.pid}/fd").iterdir())


def orders(number: int) -> Orders:
    return Orders(clock=WrongClock(CLOCKS[number])) if number in CLOCKS else Orders()


def rounds_of(swarm: Swarm, number: int) -> list[dict]:
    return history(swarm.out(number))


@pytest.mark.soak
def test_a_siege_with_wrong_clocks_and_kills_leaves_nothing_behind(
    make_swarm, nursery: Nursery, tmp_path: Path
) -> None:
    swarm = make_swarm(COUNT, MANY, *SETTINGS)
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("".join(key.hex() + "\n" for key in swarm.keys))
    listed = ("--allow", str(allowed))
    nodes = [swarm.start(number, *listed, orders=orders(number)) for number in range(COUNT)]
    nodes[ATTACKED].event_after("round", lambda event: event["round"] >= 50)
    before = resident(nodes[ATTACKED]), descriptors(nodes[ATTACKED])
    of_twin = resident(nodes[TWIN])

    where, seconds = swarm.endpoints[ATTACKED], f"{SIEGE_S:.0f}"
    held = nursery.plain("benchmarks.siege.attacker", "--endpoint", where, "--seconds", seconds, cwd=tmp_path)
    strangers = nursery.plain("tests.e2e.strangers", where, seconds, "digits", cwd=tmp_path)
    most, kills, killed_rounds = before[0], 0, set()
    schedule = random.Random(7)
    for _ in range(int(SIEGE_S // KILL_EVERY_S)):
        pause.wait(KILL_EVERY_S)
        most = max(most, resident(nodes[ATTACKED]))
        victim = schedule.randrange(1, TWIN)
        killed_rounds.add(rounds_of(swarm, ATTACKED)[-1]["round"])
        nodes[victim].send(signal.SIGKILL)
        assert nodes[victim].status() == -signal.SIGKILL
        nodes[victim] = swarm.start(victim, *listed, orders=orders(victim))
        kills += 1
    for attacker in (held, strangers):
        assert attacker.status(SIEGE_S + 60) == 0, attacker.told()
    pause.wait(min(REST_S, SIEGE_S))
    after = resident(nodes[ATTACKED]), descriptors(nodes[ATTACKED])
    grown = resident(nodes[TWIN]) - of_twin

    last = max(rounds_of(swarm, number)[-1]["round"] for number in range(COUNT))
    lost = {line["round"] for line in rounds_of(swarm, ATTACKED) if line["reason"] is not None}
    for node in nodes:
        node.send(signal.SIGINT)
    for node in nodes:
        assert node.status() == 130, node.told()
    swarm.rounds = last + 20
    ends = [swarm.start(number, *listed, orders=orders(number)) for number in range(COUNT)]
    digest = one_digest([node.ends_well() for node in ends])
    print(
        f"{last} rounds, {kills} kills, rounds lost at the one that stayed: {sorted(lost)}; digest {digest}; "
        f"memory {before[0] / MIB:.0f} MiB before, {most / MIB:.0f} at most, {after[0] / MIB:.0f} after, "
        f"the twin grew by {grown / MIB:.0f}; "
        f"descriptors {before[1]} before, {after[1]} after; {strangers.out.all()[-1]}; {held.out.all()[-1]}"
    )
    beside_kills = {number for number in lost if not any(0 <= number - k <= 5 for k in killed_rounds)}
    assert not beside_kills, beside_kills
    assert most - before[0] <= 64 * MIB
    assert after[0] - before[0] - grown <= 16 * MIB
    assert after[1] <= before[1] + COUNT
