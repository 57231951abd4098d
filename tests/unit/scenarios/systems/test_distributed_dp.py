"""What is special about scenario `distributed-dp`: its steps, its goals, and what a step costs."""

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from node.system.errors import ConfigError
from node.task.step_defaults import step_defaults
from scenarios.frame.spec import judge
from scenarios.study.arms import matches
from scenarios.swarms.dealt import PeersCell, ServerCell
from scenarios.systems.distributed_dp import arms
from scenarios.systems.distributed_dp.charts import charts
from scenarios.systems.distributed_dp.claims import CLAIMS, STUDY, size_of
from scenarios.systems.distributed_dp.reference import GOALS, SIMULATED
from tests.unit.scenarios.rooms import replayed, room
from tests.unit.scenarios.systems.made_up import SYSTEMS

SYSTEM = SYSTEMS["distributed-dp"]
BY_NAME = {arm.arm: arm for arm in arms.ARMS}
FACTORS = {arm.arm: arm.factors for arm in arms.ARMS}
ROOM = room()


def arm(of: arms.Setting, kind: str, epsilon: int | None = None) -> str:
    """The name of an arm."""
    return f"{of.name}-{kind}" + ("" if epsilon is None else f"-eps{epsilon}")


def shared(of: arms.Setting, honest: int | None = None) -> str:
    return f"{honest or of.honest[0]}-of-{of.peers}"


def kinds(of: arms.Setting) -> list[str]:
    return ["central", *(shared(of, honest) for honest in of.honest), "dp-sgd", "ldp"]


def test_every_arm_has_a_name_and_a_full_run_all_but_what_few_people_have():
    named = {
        arm(of, kind, epsilon) for of in arms.SETTINGS for kind in kinds(of) for epsilon in arms.EPSILONS
    }
    assert set(BY_NAME) == named | {arm(of, "pooled") for of in arms.SETTINGS}
    usual = [name for name in BY_NAME if any(fnmatchcase(name, pattern) for pattern in arms.USUALLY_RUN)]
    assert {*BY_NAME} - {*usual} == {name for name in BY_NAME if name.startswith("fashion-")}
    quick = [name for name in BY_NAME if any(fnmatchcase(name, one) for one in STUDY.quick.arms)]
    assert {BY_NAME[name].cell.data_sets for name in quick} == {("digits",)}, "a quick run needs no file"


def test_shared_noise_is_set_by_the_table_alone() -> None:
    for of in arms.SETTINGS:
        for kind, honest in (("central", of.honest[0]), *((shared(of, n), n) for n in of.honest)):
            for epsilon in arms.EPSILONS:
                cell = BY_NAME[arm(of, kind, epsilon)].cell
                assert isinstance(cell, PeersCell | ServerCell)
                table = step_defaults(of.data.rows, epsilon, "body" in of.model)
                train, privacy = cell.task.train, cell.task.privacy
                assert (train.steps, train.learning_rate, privacy.clipping_radius) == (
                    table.steps,
                    table.learning_rate,
                    table.clipping_radius,
                )
                assert (privacy.epsilon, privacy.delta) == (epsilon, 1e-5)
                assert privacy.honest == honest - 1
                assert cell.task.aggregation.min_participants == of.peers


def test_the_arms_are_what_their_factors_say() -> None:
    for one in arms.ARMS:
        cell, factors = one.cell, one.factors
        assert isinstance(cell, PeersCell | ServerCell)
        privacy, mechanism = cell.task.privacy, factors["mechanism"]
        assert (mechanism in ("none", "central")) == isinstance(cell, ServerCell)
        assert privacy.mechanism == ("distributed-dp-sgd" if mechanism == "central" else mechanism)
        assert factors.get("honest_members") == (
            privacy.honest + 1 if matches(factors, arms.SHARED) else None
        )
    for of in arms.SETTINGS:
        assert FACTORS[arm(of, "pooled")] == {"setting": of.name, "mechanism": "none"}
        for kind, where in zip(kinds(of), of.kinds.values(), strict=True):
            meant = {**of.where, **where}
            assert [name for name in BY_NAME if matches(FACTORS[name], meant)] == [
                arm(of, kind, epsilon) for epsilon in arms.EPSILONS
            ]


def test_rows_are_as_many_as_the_data_set_has_and_goals_within_what_was_simulated():
    assert len(ROOM.dataset("digits", 0).train_y) == arms.DIGITS.data.rows
    assert size_of(arms.MNIST) == 50_890
    simulated = {str(where): said for where, said in SIMULATED}
    for where, goals in GOALS:
        assert all(goal <= simulated[str(where)][epsilon] for epsilon, goal in goals.items())
    drawn = {chart.key: chart for chart in charts(SYSTEM.sweep())}
    for key in ("epsilon-adult", "rounds-adult"):
        assert drawn[key].layout["yaxis"]["title"]["text"].startswith("AUC")


@pytest.mark.parametrize("kind", [*kinds(arms.DIGITS), "pooled"])
def test_every_kind_of_arm_runs(kind: str) -> None:
    cell = BY_NAME[arm(arms.DIGITS, kind, None if kind == "pooled" else 8)].lasting(2).cell
    cell.check(ROOM)
    outcome = replayed(cell)
    assert len(outcome.figures) == 2
    spent = outcome.facts["epsilon"]
    assert spent is None if kind == "pooled" else isinstance(spent, float) and 6 < spent <= 8.001


def test_an_own_mechanism_is_a_node_s_on_the_digits() -> None:
    cell = arms.own("tests.own_mechanisms:Counting", {"epsilon": 4.0})
    assert isinstance(cell, PeersCell)
    assert (cell.arm, cell.peers, cell.task.privacy.epsilon) == ("own", 5, 4.0)
    with pytest.raises(ConfigError, match="colour"):
        arms.own("tests.own_mechanisms:Counting", {"colour": "red"})


def test_a_goal_that_is_missed_says_by_how_many_standard_errors() -> None:
    missed = arm(arms.DIGITS, shared(arms.DIGITS), 1)
    verdict = next(
        claim.verdict
        for claim in judge(CLAIMS, SYSTEM.sweep({missed: 0.869}))
        if claim.name.startswith("Shared noise reaches")
    )
    error = 0.001 / 3**0.5
    assert verdict.numbers[f"{missed} misses by SE"] == pytest.approx(0.001 / error)
    assert sum(name.endswith("misses by SE") for name in verdict.numbers) == 1


def test_epsilon_by_honest_members_is_judged_for_steps_of_as_many_rows() -> None:
    name = arm(arms.MNIST, shared(arms.MNIST), 3)
    larger = BY_NAME[name].changed({"train": {"expected_batch": 8192}})
    sweep = SYSTEM.sweep(only=(name,))
    names = [claim.name for claim in judge(CLAIMS, sweep)]
    assert CLAIMS[1].name in names
    assert CLAIMS[1].name not in [claim.name for claim in judge(CLAIMS, replace(sweep, arms=(larger,)))]


def test_of_two_numbers_of_honest_members_the_larger_is_the_usual_one() -> None:
    whole = SYSTEM.sweep()
    assert whole.line("epsilon", {**arms.MNIST.where, **arms.USUAL}).arms == tuple(
        arm(arms.MNIST, shared(arms.MNIST), e) for e in arms.EPSILONS
    )
    assert whole.line("epsilon", {**arms.MNIST.where, **arms.FEWER}).arms == tuple(
        arm(arms.MNIST, shared(arms.MNIST, 5), e) for e in arms.EPSILONS
    )
    assert whole.select({**arms.DIGITS.where, **arms.FEWER}) == ()
