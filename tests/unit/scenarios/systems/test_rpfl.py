"""What is special about scenario `rpfl`: its arms, what its claims compute, and swarms without a server."""

import os
from pathlib import Path

import pytest

from mechanisms.servers.server import Federation
from node.system.errors import ConfigError
from scenarios.clients.poisons import Backdoor
from scenarios.engines.room import LocalRoom, load
from scenarios.federated.cell import FederatedCell
from scenarios.study.cells import Outcome
from scenarios.study.sweep import Sweep
from scenarios.swarms.lying import MEMBERS, OWN, ROLLED_BACK, LyingSwarmCell
from scenarios.systems.rpfl import arms, claims, lying, theorems
from scenarios.systems.rpfl.charts import charts, tables
from scenarios.systems.rpfl.study import STUDY
from tests.unit.scenarios import rooms
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["rpfl"]
SERVED = tuple(one for one in arms.ARMS if isinstance(one.cell, FederatedCell))
BY_NAME = {one.arm: one.cell for one in SERVED if isinstance(one.cell, FederatedCell)}
NAMES = tuple(one.name for one in arms.DEFENCES)


def test_arms_of_one_attack_differ_in_their_defence_alone_and_every_defence_meets_every_attack():
    for cell in BY_NAME.values():
        if cell.arm.startswith("adult"):
            base = BY_NAME["adult-clean-fedavg"]
            assert (cell.rows, cell.clients, cell.model, cell.train) == (
                *(base.rows, base.clients, base.model, base.train),
            )
    for defence in NAMES:
        assert f"adult-backdoor0.4-{defence}" in BY_NAME
        assert f"adult-flip-x50.2-{defence}" in BY_NAME
    literal, redrawn = (
        BY_NAME[f"adult-clean-{one}"].mechanism.parameters for one in ("rpfl-literal", "rpfl-redrawn")
    )
    assert literal["weight"] == 0.0
    assert redrawn == {**literal, "draw": "each-round"}


def test_the_arms_are_what_their_factors_say_and_the_usual_one_comes_first():
    whole = SYSTEM.sweep()
    for one in SERVED:
        parameters, factors = BY_NAME[one.arm].mechanism.parameters, one.factors
        assert one.arm.startswith(str(factors["setting"]))
        assert (factors["attack"] == "clean") == (factors["share"] == 0)
        assert parameters.get("weight") == factors.get("weight")
        if factors["defence"] == "ldp":
            assert parameters["epsilon"] == factors["epsilon"]
        assert parameters.get("aggregator", "geometric-median") in (factors["defence"], "geometric-median")
    assert whole.select({**arms.DOOR, "defence": "geometric-median"}) == (
        "adult-backdoor0.4-geometric-median",
    )
    assert whole.line("weight", {**arms.DOOR, "defence": "rpfl"}).arms == tuple(
        f"adult-backdoor0.4-rpfl-{weight}" for weight in ("literal", 0.01, 0.03)
    )
    assert whole.line("rounds", {"setting": "utility", **arms.LITERAL}).levels == arms.HORIZONS
    for one in lying.ARMS:
        cell = one.cell
        assert isinstance(cell, LyingSwarmCell)
        assert cell.lie == lying.LIES[str(one.factors["lie"])][0]
        gated = cell.task.aggregation.loss_gate is not None
        assert (cell.groups, gated) == lying.DEFENCES[str(one.factors["defence"])][:2]
    assert whole.first({**arms.AT_REST, "defence": "ldp"}) == "adult-clean-ldp"
    assert whole.first({"setting": "members"}) == "members-fedavg"


@pytest.mark.skipif("MURMURATION_DATA" not in os.environ, reason="MURMURATION_DATA is not set")
@pytest.mark.parametrize(
    "name",
    [
        *(f"adult-backdoor0.4-{defence}" for defence in NAMES),
        *(f"loan-states-flip0.4-{defence}" for defence in NAMES),
        *(f"members-{method.name}" for method in arms.MEMBER_METHODS),
        *(f"utility-{arms.HORIZONS[0]}-{defence}" for defence in ("fedavg", "rpfl-redrawn")),
        f"adult-flip0.4-ldp{arms.NOISES[0]:g}",
    ],
)
def test_an_arm_can_be_run(name: str, room: LocalRoom) -> None:
    BY_NAME[name].check(room)


@pytest.fixture(scope="module")
def room() -> LocalRoom:
    return rooms.room(Path(os.environ["MURMURATION_DATA"]))


@pytest.mark.skipif("MURMURATION_DATA" not in os.environ, reason="MURMURATION_DATA is not set")
@pytest.mark.parametrize(("name", "trigger"), [("adult", arms.ADULT_TRIGGER), ("loan", arms.LOAN_TRIGGER)])
def test_a_trigger_is_rare_categories(name: str, trigger: object) -> None:
    """Columns that hardly a row has, and that are 0 or 1 before rows are scaled."""
    places = (
        [arms.NEVER_WORKED, arms.FROM_HOLLAND] if name == "adult" else [arms.OWNS_NOTHING, arms.OWNS_OTHER]
    )
    assert sorted(trigger.values) == sorted(places)
    x = load(name, Path(os.environ["MURMURATION_DATA"]), 0).train_x[:, places]
    assert set(x.ravel().tolist()) <= {0.0, 1.0}
    assert x.mean(axis=0).max() < 0.003


def test_more_attackers_than_are_withstood_are_refused_and_one_s_own_meets_the_strongest_backdoor():
    few = BY_NAME["adult-backdoor0.4-trimmed-mean"].among(20)
    with pytest.raises(ConfigError, match="trimmed = 16 is not allowed: 0 to 9"):
        few.mechanism.make(Federation((5,) * 20, 3, (107, 1)))
    cell = arms.own("a.b:C", {"x": 1})
    assert cell.arm == "own"
    assert (cell.attackers.of, cell.attackers.forgery) == (0.4, None)
    assert isinstance(cell.attackers.poison, Backdoor)


def test_theorem_3_is_wrong_after_so_many_rounds_and_chance_judged_up_to_epsilon_one():
    verdict = theorems.excess_vanishes.judge(SYSTEM.sweep())
    bound_at_one = (0.5 + 0.01) * 2 / 1e-4 * (1 + 107 * 0.08**2)
    beyond = verdict.numbers["rounds after which it would exceed the bound, rpfl"]
    assert beyond == pytest.approx(bound_at_one / 1.5e-4)
    verdict = claims.membership_is_chance.judge(SYSTEM.sweep())
    assert {name.split(",")[0] for name in verdict.numbers if "," in name} == {"members-cdp1", "members-ldp1"}
    assert 0.7 < float(verdict.numbers["no attack can exceed"] or 0) < 0.75


def test_swarms_without_a_server_have_a_plot_and_a_table() -> None:
    facts = {MEMBERS: 3.0, OWN: 0.9, ROLLED_BACK: 1.5}
    outcomes = {cell.arm: (Outcome((0.8,), facts, 1.0), Outcome((0.9,), facts, 1.0)) for cell in lying.ARMS}
    sweep = Sweep(STUDY, (0, 1), tuple(lying.ARMS), outcomes)
    (chart,) = charts(sweep)
    assert (chart.key, len(chart.traces)) == ("swarms", 4)
    table = tables(sweep)[0]
    assert len(table.rows) == 20
    assert table.rows[0][1:] == ("85.0% ± 5.0", "90.0% ± 0.0", "1.5", "3")
