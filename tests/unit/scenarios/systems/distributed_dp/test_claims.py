"""Scenario `distributed-dp`: its arms, what each claim needs to hold, and what the report draws."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from node.errors import ConfigError
from node.task.step_defaults import step_defaults
from scenarios.catalogue import SCENARIOS
from scenarios.engines.room import LocalRoom
from scenarios.frame.spec import Chart, judge
from scenarios.study.arms import matches
from scenarios.study.cells import Fact, Outcome
from scenarios.study.sweep import Sweep
from scenarios.study.threads import one_thread
from scenarios.swarms.dealt import FACTOR, HONEST, STEP_BYTES, STEP_S, PeersCell, ServerCell, with_honest
from scenarios.systems.distributed_dp.arms import (
    ADULT,
    ARMS,
    DIGITS,
    EPSILONS,
    FASHION,
    FEWER,
    MNIST,
    MNIST_FEATURES,
    SETTINGS,
    SHARED,
    USUAL,
    USUALLY_RUN,
    Setting,
    own,
)
from scenarios.systems.distributed_dp.charts import charts, tables
from scenarios.systems.distributed_dp.claims import CLAIMS, DISTRIBUTED_DP, STUDY, headline, size_of
from scenarios.systems.distributed_dp.reference import BY_HONEST, GOALS, SIMULATED

SEEDS = (0, 1, 2)
SPREAD = (-0.001, 0.001, 0.0)
BY_NAME = {arm.arm: arm for arm in ARMS}
FACTORS = {arm.arm: arm.factors for arm in ARMS}
ROOM = LocalRoom(Path("nowhere"), 1, lambda _number, _figure: None)
ADULT_FIGURES = {
    "central": (0.88, 0.895, 0.9),
    "distributed-dp-sgd": (0.878, 0.893, 0.899),
    "dp-sgd": (0.8, 0.85, 0.87),
}


def arm(of: Setting, kind: str, epsilon: int | None = None) -> str:
    """The name of an arm."""
    return f"{of.name}-{kind}" + ("" if epsilon is None else f"-eps{epsilon}")


def shared(of: Setting, honest: int | None = None) -> str:
    return f"{honest or of.honest[0]}-of-{of.peers}"


def kinds(of: Setting) -> list[str]:
    return ["central", *(shared(of, honest) for honest in of.honest), "dp-sgd", "ldp"]


def _figure(name: str) -> float:
    """As stated, and far from it where nothing is."""
    factors = FACTORS[name]
    mechanism, epsilon = str(factors["mechanism"]), factors.get("epsilon")
    if factors["setting"] == "adult":
        figures = ADULT_FIGURES.get(mechanism, (0.5, 0.5, 0.5))
        return 0.905 if epsilon is None else figures[EPSILONS.index(epsilon)]  # type: ignore[arg-type]
    for where, said in SIMULATED:
        if matches(factors, where) and epsilon in said:
            return said[epsilon]  # type: ignore[index]
    return {"none": 0.98, "central": 0.987, "dp-sgd": 0.85, "ldp": 0.1}.get(mechanism, 0.985)


FIGURES: dict[str, float] = {name: _figure(name) for name in BY_NAME}


def facts(name: str) -> dict[str, Fact]:
    """As an engine has them, made up."""
    factors = FACTORS[name]
    epsilon = factors.get("epsilon")
    if epsilon is None:
        return {"epsilon": None, "stated": None, "delta": None, "unit": None, "protects": "nothing"}
    told: dict[str, Fact] = {"epsilon": 0.97 * float(epsilon), "stated": float(epsilon), "delta": 1e-5}
    told |= {"unit": "one record", "protects": "a lot"}
    if matches(factors, USUAL):
        told |= {HONEST: factors["honest_members"] - 1, FACTOR: 1.43}  # type: ignore[operator]
        told |= {with_honest(n - 1): value * 0.975 for n, value in BY_HONEST[epsilon].items()}  # type: ignore[index]
    return told


def made(
    changed: Mapping[str, float] | None = None,
    only: Callable[[str], bool] = lambda one: True,
    told: Mapping[str, Mapping[str, Fact]] | None = None,
) -> Sweep:
    """A sweep of made-up figures; changed arms vary with the seeds the other way, so differences do."""
    figures = {**FIGURES, **(changed or {})}
    outcomes = {
        name: tuple(
            Outcome(
                (0.1, figures[name] + (-off if name in (changed or {}) else off)),
                {**facts(name), **(told or {}).get(name, {})},
                2.0,
            )
            for off in SPREAD
        )
        for name in BY_NAME
        if only(name)
    }
    return Sweep(STUDY, SEEDS, tuple(BY_NAME[name] for name in outcomes), outcomes)


def failing(sweep: Sweep) -> list[str]:
    """The claims that do not hold."""
    return [claim.name for claim in judge(CLAIMS, sweep) if not claim.verdict.holds]


# -- arms --------------------------------------------------------------------------------------------------


def test_it_is_in_the_catalogue() -> None:
    assert SCENARIOS["distributed-dp"].load() is DISTRIBUTED_DP


def test_every_arm_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(ARMS)
    named = {arm(of, kind, epsilon) for of in SETTINGS for kind in kinds(of) for epsilon in EPSILONS}
    assert set(BY_NAME) == named | {arm(of, "pooled") for of in SETTINGS}
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in BY_NAME)


def test_a_full_run_has_all_but_what_few_people_have() -> None:
    usual = [name for name in BY_NAME if any(fnmatchcase(name, pattern) for pattern in USUALLY_RUN)]
    assert [name for name in BY_NAME if name not in usual] == [
        name for name in BY_NAME if name.startswith("fashion-")
    ]
    assert all(
        BY_NAME[name].cell.data_sets == ("digits",)
        for name in BY_NAME
        if any(fnmatchcase(name, pattern) for pattern in STUDY.quick.arms)
    ), "a quick run needs no file"


def test_shared_noise_is_set_by_the_table_alone() -> None:
    for of in SETTINGS:
        for kind, honest in (("central", of.honest[0]), *((shared(of, n), n) for n in of.honest)):
            for epsilon in EPSILONS:
                cell = BY_NAME[arm(of, kind, epsilon)].cell
                assert isinstance(cell, PeersCell | ServerCell)
                table = step_defaults(of.rows, epsilon, "body" in of.model)
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
    for one in ARMS:
        cell, factors = one.cell, one.factors
        assert isinstance(cell, PeersCell | ServerCell)
        privacy, mechanism = cell.task.privacy, factors["mechanism"]
        assert factors["setting"] == cell.task.task.name
        assert (mechanism in ("none", "central")) == isinstance(cell, ServerCell)
        assert privacy.mechanism == ("distributed-dp-sgd" if mechanism == "central" else mechanism)
        assert privacy.epsilon == factors.get("epsilon", privacy.epsilon)
        assert getattr(cell, "peers", None) == factors.get("peers")
        assert factors.get("honest_members") == (privacy.honest + 1 if matches(factors, SHARED) else None)
    for of in SETTINGS:
        assert FACTORS[arm(of, "pooled")] == {"setting": of.name, "mechanism": "none"}
        for kind, where in zip(kinds(of), of.kinds.values(), strict=True):
            meant = {**of.where, **where}
            assert [name for name in BY_NAME if matches(FACTORS[name], meant)] == [
                arm(of, kind, epsilon) for epsilon in EPSILONS
            ]
    assert {"setting", "mechanism", "epsilon", "peers", "honest_members"} <= {*made().frame().column_names}


def test_rows_are_as_many_as_the_data_set_has() -> None:
    assert len(ROOM.dataset("digits", 0).train_y) == DIGITS.rows
    assert size_of(MNIST) == 50_890


@pytest.mark.parametrize("kind", [*kinds(DIGITS), "pooled"])
def test_every_kind_of_arm_runs(kind: str) -> None:
    cell = BY_NAME[arm(DIGITS, kind, None if kind == "pooled" else 8)].lasting(2).cell
    cell.check(ROOM)
    with one_thread():
        outcome = cell.replay(ROOM)
    assert len(outcome.figures) == 2
    spent = outcome.facts["epsilon"]
    assert spent is None if kind == "pooled" else isinstance(spent, float) and 6 < spent <= 8.001


def test_an_own_mechanism_is_a_node_s_on_the_digits() -> None:
    cell = own("tests.own_mechanisms:Counting", {"epsilon": 4.0})
    assert isinstance(cell, PeersCell)
    assert (cell.arm, cell.peers, cell.task.privacy.epsilon) == ("own", 5, 4.0)
    with pytest.raises(ConfigError, match="colour"):
        own("tests.own_mechanisms:Counting", {"colour": "red"})


# -- claims ------------------------------------------------------------------------------------------------


def test_all_claims_hold_where_figures_are_as_stated() -> None:
    judged = judge(CLAIMS, made())
    assert [claim.name for claim in judged] == [claim.name for claim in CLAIMS[:-1]], "no real nodes"
    assert failing(made()) == []
    for claim in judged:
        assert claim.verdict.numbers


SEVEN, FIVE = shared(MNIST), shared(MNIST, 5)
BROKEN: dict[str, list[dict[str, float]]] = {
    "A trusted server": [{arm(MNIST, "central", 3): 0.94}, {arm(DIGITS, "central", 1): 0.9}],
    "Steps with shared noise": [{arm(MNIST, SEVEN, 8): 0.946}, {arm(MNIST, FIVE, 1): 0.92}],
    "Shared noise costs": [{arm(DIGITS, "central", 3): 0.96}, {arm(MNIST_FEATURES, "central", 1): 0.986}],
    "Noise for 5": [{arm(MNIST, SEVEN, 3): 0.946}],
    "Shared noise beats": [{arm(MNIST, "dp-sgd", 3): 0.9405}, {arm(ADULT, "dp-sgd", 8): 0.899}],
    "On MNIST scattering": [{arm(MNIST_FEATURES, SEVEN, 3): 0.975}, {arm(MNIST, "dp-sgd", 1): 0.86}],
    "Shared noise reaches": [{arm(DIGITS, shared(DIGITS), 8): 0.9449}, {arm(MNIST, SEVEN, 1): 0.914}],
    "On Adult": [{arm(ADULT, shared(ADULT), 1): 0.87}],
}


@pytest.mark.parametrize(
    ("words", "changed"), [(words, changed) for words, each in BROKEN.items() for changed in each]
)
def test_each_claim_can_fail(words: str, changed: dict[str, float]) -> None:
    assert any(name.startswith(words) for name in failing(made(changed)))


def test_a_goal_that_is_missed_says_by_how_many_standard_errors() -> None:
    missed = arm(DIGITS, shared(DIGITS), 1)
    verdict = next(
        claim.verdict
        for claim in judge(CLAIMS, made({missed: 0.869}))
        if claim.name.startswith("Shared noise reaches")
    )
    error = 0.001 / 3**0.5
    assert verdict.numbers[f"{missed} misses by SE"] == pytest.approx(0.001 / error)
    assert sum(name.endswith("misses by SE") for name in verdict.numbers) == 1


def test_close_to_a_server_is_enough_for_adult() -> None:
    arms = {arm(ADULT, "central", 1): 0.8, arm(ADULT, shared(ADULT), 1): 0.796, arm(ADULT, "dp-sgd", 1): 0.7}
    assert failing(made(arms)) == []


def test_an_arm_that_spends_more_than_it_states_is_found() -> None:
    for name in (arm(DIGITS, "central", 1), arm(MNIST, "ldp", 8)):
        assert failing(made(told={name: {"epsilon": 8.1}})) == [CLAIMS[0].name]


@pytest.mark.parametrize("value", [3.5, 4.2])
def test_an_epsilon_by_honest_members_that_is_not_the_stated_one_is_found(value: float) -> None:
    told = {arm(MNIST, SEVEN, 3): {with_honest(4): value}}
    assert failing(made(told=told)) == [CLAIMS[1].name]


def test_epsilon_by_honest_members_is_judged_for_steps_of_as_many_rows() -> None:
    name = arm(MNIST, SEVEN, 3)
    larger = BY_NAME[name].changed({"train": {"expected_batch": 8192}})
    sweep = made(only=lambda one: one == name)
    names = [claim.name for claim in judge(CLAIMS, sweep)]
    assert CLAIMS[1].name in names
    assert CLAIMS[1].name not in [claim.name for claim in judge(CLAIMS, replace(sweep, arms=(larger,)))]


@pytest.mark.parametrize(
    ("seconds", "sent", "holds"), [(0.2, 5e5, True), (0.3, 5e5, False), (0.2, 6e5, False)]
)
def test_steps_of_real_nodes_are_judged_where_they_ran(seconds: float, sent: float, holds: bool) -> None:
    told: dict[str, dict[str, Fact]] = {arm(MNIST, SEVEN, 3): {STEP_S: seconds, STEP_BYTES: sent}}
    judged = judge(CLAIMS, made(told=told))
    assert judged[-1].name == CLAIMS[-1].name
    assert judged[-1].verdict.holds == holds


def test_a_claim_is_judged_only_where_its_arms_were_run() -> None:
    assert judge(CLAIMS, made(only=lambda one: one == arm(DIGITS, "pooled"))) == ()
    central = judge(CLAIMS, made(only=lambda one: one.startswith(arm(DIGITS, "central"))))
    assert [claim.name for claim in central] == [CLAIMS[0].name, CLAIMS[2].name]


def test_the_quick_form_judges_what_the_digits_say() -> None:
    quick = made(only=lambda one: any(fnmatchcase(one, pattern) for pattern in STUDY.quick.arms))
    assert len(judge(CLAIMS, quick)) == 6
    assert failing(quick) == []


def test_goals_are_within_what_was_simulated() -> None:
    simulated = {str(where): said for where, said in SIMULATED}
    for where, goals in GOALS:
        assert all(goal <= simulated[str(where)][epsilon] for epsilon, goal in goals.items())


def test_of_two_numbers_of_honest_members_the_larger_is_the_usual_one() -> None:
    whole = made()
    assert whole.line("epsilon", {**MNIST.where, **USUAL}).arms == tuple(
        arm(MNIST, SEVEN, e) for e in EPSILONS
    )
    assert whole.line("epsilon", {**MNIST.where, **FEWER}).arms == tuple(
        arm(MNIST, FIVE, e) for e in EPSILONS
    )
    assert whole.select({**DIGITS.where, **FEWER}) == ()


# -- what is drawn -----------------------------------------------------------------------------------------


def drawn(key: str, sweep: Sweep) -> Chart:
    return next(chart for chart in charts(sweep) if chart.key == key)


def test_every_setting_has_its_chart_over_epsilon_and_by_round() -> None:
    keys = [chart.key for chart in charts(made())]
    assert keys == [f"{kind}-{one.name}" for kind in ("epsilon", "rounds") for one in SETTINGS]
    lines = drawn("epsilon-mnist-mlp", made()).traces
    assert [line["name"] for line in lines] == [
        "a trusted server",
        "noise shared, 7 of 10 honest",
        "noise shared, 5 of 10 honest",
        "dp-sgd: each node for itself",
        "ldp: whole data sets",
        "all rows, without privacy",
    ]
    assert list(lines[0]["x"]) == list(EPSILONS)
    assert drawn("epsilon-adult", made()).layout["yaxis"]["title"]["text"].startswith("AUC")
    assert drawn("rounds-adult", made()).layout["yaxis"]["title"]["text"].startswith("AUC")


def test_what_was_not_run_is_not_drawn() -> None:
    few = made(only=lambda one: one in (arm(DIGITS, "central", 3), arm(FASHION, "dp-sgd", 3)))
    assert [chart.key for chart in charts(few)] == ["rounds-digits", "rounds-fashion-mlp"]
    line = made(only=lambda one: one.startswith(arm(DIGITS, "central")))
    assert [chart.key for chart in charts(line)] == ["epsilon-digits", "rounds-digits"]
    assert charts(made(only=lambda one: False)) == ()


def test_tables_have_figures_costs_and_protections() -> None:
    by_epsilon, plain, costs, protections, arms = tables(made(told={arm(MNIST, SEVEN, 3): {STEP_S: 0.2}}))
    assert ("digits, a trusted server", "90.4% ± 0.1", "94.4% ± 0.1", "96.0% ± 0.1") in by_epsilon.rows
    assert ("adult", "90.5% ± 0.1") in plain.rows
    assert (arm(MNIST, SEVEN, 3), "1.43", "", "0.2", "") in costs.rows
    assert [row[0] for row in protections.rows].count("a trusted server") == 1
    assert len(arms.rows) == len(ARMS)


def test_the_headline_compares_the_best_known_setting_that_was_run() -> None:
    assert headline(made()) == (
        "MNIST, perceptron, epsilon 3: 94.4% with a trusted server, 94.1% with noise shared, 7 of 10 "
        "honest, 93.8% with noise shared, 5 of 10 honest, 92.1% with each node for itself."
    )
    assert headline(made(only=lambda one: one.startswith("digits"))).startswith(
        "digits, perceptron, epsilon 3"
    )
    assert headline(made(only=lambda one: one == arm(DIGITS, "pooled"))) == "1 arms, 3 seeds each."
