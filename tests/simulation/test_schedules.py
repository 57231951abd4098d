"""Random plans: every rule of scenarios.simulator.rules holds, and every peer ends, under any faults."""

from dataclasses import replace

import pytest

from protocol.swarm.node import Node
from scenarios.simulator import __main__ as command
from scenarios.simulator.network import Network
from scenarios.simulator.plans import Conditions, Crash, Hang, Links, Plan, Summation, random_plan
from scenarios.simulator.rules import Violation
from tests.cases import soaks
from tests.simulation.runs import run

IN_CI = 30
IN_SOAK = 5000
FIRST_OF_SOAK = 100_000


@pytest.mark.sampled("0")
@pytest.mark.parametrize("first", range(0, IN_CI, 10))
def test_random_plans_break_no_rule(first):
    for seed in range(first, first + 10):
        run(random_plan(seed), seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST_OF_SOAK, FIRST_OF_SOAK + IN_SOAK, 50))
def test_many_random_plans_break_no_rule(first):
    for seed in range(first, first + 50):
        run(random_plan(seed), seed)


@pytest.mark.parametrize("seed", [*range(8), *soaks(range(8, 16))])
def test_where_nothing_is_lost_and_nobody_fails_all_rounds_aggregate_and_all_end_alike(seed):
    plan = random_plan(seed)
    links = replace(plan.conditions.links, delay_s=(0.001, 0.2), loss=0.0)
    aggregation = Summation(plan.aggregation.shares)
    network = run(Plan(plan.peers, plan.rounds, Conditions(links), aggregation, tracker=plan.tracker), seed)
    assert {outcome.reason for outcome in network.rules.outcomes} == {None}, f"seed {seed}"
    assert len(network.finishers()) == plan.peers
    assert len(network.digests()) == 1, f"seed {seed}"


@pytest.mark.parametrize("seed", range(12))
def test_where_more_than_half_and_three_live_on_the_living_end_alike(seed):
    """The faults come early enough for two whole rounds to follow, and nothing else is lost."""
    faults = Conditions(
        Links(delay_s=(0.001, 0.2), notices_loss=seed % 2 == 0),
        crashes=(Crash(seed % 5, 10 + seed, None),),
        hangs=(Hang((seed + 2) % 5, 20 + seed, 5.0),),
    )
    network = run(Plan(5, 4, faults, tracker=seed % 3 == 0), seed)
    assert len(network.finishers()) >= 4
    assert len(network.digests()) == 1, f"seed {seed}"


def test_one_seed_is_one_schedule():
    def transcript(seed: int) -> list[tuple[float, int, str]]:
        lines = run(random_plan(seed), seed).transcript
        return [(line.at_s, line.sender, line.to) for line in lines]

    assert transcript(7) == transcript(7)
    assert transcript(7) != transcript(8)


def test_a_violation_names_its_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def broken(self: Network) -> Network:
        self.rules.violated("water flows uphill")

    monkeypatch.setattr(Network, "run", broken)
    assert command.main(["--first", "41", "--count", "3"]) == 1
    assert "seed 41: water flows uphill; run it again: --first 41 --count 1" in capsys.readouterr().out


def test_the_command_line_counts_how_rounds_ended(capsys: pytest.CaptureFixture[str]):
    assert command.main(["--first", "3", "--count", "2"]) == 0
    assert "2 schedules without a violation; rounds: " in capsys.readouterr().out


def test_a_run_that_does_not_end_is_a_violation():
    with pytest.raises(Violation, match=r"seed 3: peers \[0, 1, 2\] are not done"):
        Network(Plan(3, 2), 3).run(50)


def test_a_machine_is_ticked_at_its_deadlines_only(monkeypatch: pytest.MonkeyPatch):
    """As by a real node's timer, which is set anew whenever the deadline moves."""
    left_s, tick = [], Node.tick

    def noting(node: Node, now: float):
        left_s.append(None if node.deadline is None else node.deadline - now)
        return tick(node, now)

    monkeypatch.setattr(Node, "tick", noting)
    run(random_plan(3), 3)
    assert left_s
    assert all(left is not None and left <= 0 for left in left_s)
