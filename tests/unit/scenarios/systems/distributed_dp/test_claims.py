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
from scenarios.study.cells import Fact, Outcome
from scenarios.study.sweep import Sweep
from scenarios.study.threads import one_thread
from scenarios.swarms.dealt import FACTOR, HONEST, STEP_BYTES, STEP_S, PeersCell, ServerCell, with_honest
from scenarios.systems.distributed_dp.arms import (
    ADULT,
    ALONE,
    ARMS,
    CENTRAL,
    DATA_SETS,
    DIGITS,
    EPSILONS,
    FASHION,
    MNIST,
    MNIST_FEATURES,
    POOLED,
    SETTINGS,
    USUAL,
    Setting,
    own,
)
from scenarios.systems.distributed_dp.charts import charts, size_of, tables
from scenarios.systems.distributed_dp.claims import CLAIMS, DISTRIBUTED_DP, STUDY, headline
from scenarios.systems.distributed_dp.reference import BY_HONEST, GOALS, SIMULATED

SEEDS = (0, 1, 2)
SPREAD = (-0.001, 0.001, 0.0)
BY_NAME = {cell.arm: cell for cell in ARMS}
ROOM = LocalRoom(Path("nowhere"), 1, lambda _number, _figure: None)
ADULT_FIGURES = {
    CENTRAL: (0.88, 0.895, 0.9),
    ADULT.shared(2): (0.878, 0.893, 0.899),
    ALONE: (0.8, 0.85, 0.87),
}


def _figure(setting: Setting, kind: str, epsilon: int) -> float:
    """As stated, and far from it where nothing is."""
    if setting is ADULT:
        return ADULT_FIGURES.get(kind, (0.5, 0.5, 0.5))[EPSILONS.index(epsilon)]
    stated = SIMULATED.get((setting, kind), {}).get(epsilon)
    return stated or {CENTRAL: 0.987, ALONE: 0.85, DATA_SETS: 0.1}.get(kind, 0.985)


FIGURES: dict[str, float] = {
    setting.arm(kind, epsilon): _figure(setting, kind, epsilon)
    for setting in SETTINGS
    for kind in setting.kinds
    for epsilon in EPSILONS
} | {setting.arm(POOLED): 0.905 if setting is ADULT else 0.98 for setting in SETTINGS}


def facts(arm: str) -> dict[str, Fact]:
    """As an engine has them, made up."""
    setting = next(one for one in SETTINGS if arm.startswith(f"{one.name}-"))
    epsilon = next((one for one in EPSILONS if arm.endswith(f"-eps{one}")), None)
    if epsilon is None:
        return {"epsilon": None, "stated": None, "delta": None, "unit": None, "protects": "nothing"}
    told: dict[str, Fact] = {"epsilon": 0.97 * epsilon, "stated": float(epsilon), "delta": 1e-5}
    told |= {"unit": "one record", "protects": "a lot"}
    if arm == setting.arm(setting.shared(setting.honest[0]), epsilon):
        told |= {HONEST: setting.honest[0] - 1, FACTOR: 1.43}
        told |= {with_honest(members - 1): value * 0.975 for members, value in BY_HONEST[epsilon].items()}
    return told


def made(
    changed: Mapping[str, float] | None = None,
    only: Callable[[str], bool] = lambda arm: True,
    told: Mapping[str, Mapping[str, Fact]] | None = None,
) -> Sweep:
    """A sweep of made-up figures; changed arms vary with the seeds the other way, so differences do."""
    figures = {**FIGURES, **(changed or {})}
    outcomes = {
        arm: tuple(
            Outcome(
                (0.1, figures[arm] + (-off if arm in (changed or {}) else off)),
                {**facts(arm), **(told or {}).get(arm, {})},
                2.0,
            )
            for off in SPREAD
        )
        for arm in BY_NAME
        if only(arm)
    }
    return Sweep(STUDY, SEEDS, tuple(BY_NAME[arm] for arm in outcomes), outcomes)


def failing(sweep: Sweep) -> list[str]:
    """The claims that do not hold."""
    return [claim.name for claim in judge(CLAIMS, sweep) if not claim.verdict.holds]


# -- arms --------------------------------------------------------------------------------------------------


def test_it_is_in_the_catalogue() -> None:
    assert SCENARIOS["distributed-dp"].load() is DISTRIBUTED_DP


def test_every_arm_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(ARMS) == len(FIGURES)
    assert set(BY_NAME) == set(FIGURES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", arm) for arm in BY_NAME)


def test_a_full_run_has_all_but_what_few_people_have() -> None:
    usual = [arm for arm in BY_NAME if any(fnmatchcase(arm, pattern) for pattern in USUAL)]
    assert [arm for arm in BY_NAME if arm not in usual] == [
        arm for arm in BY_NAME if arm.startswith("fashion-")
    ]
    assert all(
        BY_NAME[arm].data_sets == ("digits",)
        for arm in BY_NAME
        if any(fnmatchcase(arm, pattern) for pattern in STUDY.quick.arms)
    ), "a quick run needs no file"


def test_shared_noise_is_set_by_the_table_alone() -> None:
    for setting in SETTINGS:
        for kind in (CENTRAL, *map(setting.shared, setting.honest)):
            for epsilon in EPSILONS:
                cell = BY_NAME[setting.arm(kind, epsilon)]
                assert isinstance(cell, PeersCell | ServerCell)
                table = step_defaults(setting.rows, epsilon, "body" in setting.model)
                train, privacy = cell.task.train, cell.task.privacy
                assert (train.steps, train.learning_rate, privacy.clipping_radius) == (
                    table.steps,
                    table.learning_rate,
                    table.clipping_radius,
                )
                assert (privacy.epsilon, privacy.delta) == (epsilon, 1e-5)
                honest = setting.honest[0] if kind == CENTRAL else int(kind.split("-")[0])
                assert privacy.honest == honest - 1
                assert cell.task.aggregation.min_participants == setting.peers


def test_mechanisms_have_the_peers_and_the_budget_of_their_names() -> None:
    for setting in SETTINGS:
        for kind in (ALONE, DATA_SETS):
            for epsilon in EPSILONS:
                cell = BY_NAME[setting.arm(kind, epsilon)]
                assert isinstance(cell, PeersCell)
                assert cell.peers == setting.peers
                assert (cell.task.privacy.mechanism, cell.task.privacy.epsilon) == (kind, epsilon)
        pooled = BY_NAME[setting.arm(POOLED)]
        assert isinstance(pooled, ServerCell)
        assert pooled.task.privacy.mechanism == "none"


def test_rows_are_as_many_as_the_data_set_has() -> None:
    assert len(ROOM.dataset("digits", 0).train_y) == DIGITS.rows
    assert size_of(MNIST) == 50_890


@pytest.mark.parametrize("kind", [*DIGITS.kinds, POOLED])
def test_every_kind_of_arm_runs(kind: str) -> None:
    cell = BY_NAME[DIGITS.arm(kind, None if kind == POOLED else 8)].lasting(2)
    cell.check(ROOM)
    with one_thread():
        outcome = cell.replay(ROOM)
    assert len(outcome.figures) == 2
    spent = outcome.facts["epsilon"]
    assert spent is None if kind == POOLED else isinstance(spent, float) and 6 < spent <= 8.001


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


SHARED_MNIST = MNIST.shared(7)
BROKEN: dict[str, list[dict[str, float]]] = {
    "A trusted server": [{MNIST.arm(CENTRAL, 3): 0.94}, {DIGITS.arm(CENTRAL, 1): 0.9}],
    "Steps with shared noise": [{MNIST.arm(SHARED_MNIST, 8): 0.946}, {MNIST.arm(MNIST.shared(5), 1): 0.92}],
    "Shared noise costs": [{DIGITS.arm(CENTRAL, 3): 0.96}, {MNIST_FEATURES.arm(CENTRAL, 1): 0.986}],
    "Noise for 5": [{MNIST.arm(SHARED_MNIST, 3): 0.946}],
    "Shared noise beats": [{MNIST.arm(ALONE, 3): 0.9405}, {ADULT.arm(ALONE, 8): 0.899}],
    "On MNIST scattering": [{MNIST_FEATURES.arm(SHARED_MNIST, 3): 0.975}, {MNIST.arm(ALONE, 1): 0.86}],
    "Shared noise reaches": [{DIGITS.arm(DIGITS.shared(3), 8): 0.9449}, {MNIST.arm(SHARED_MNIST, 1): 0.914}],
    "On Adult": [{ADULT.arm(ADULT.shared(2), 1): 0.87}],
}


@pytest.mark.parametrize(
    ("words", "changed"), [(words, changed) for words, each in BROKEN.items() for changed in each]
)
def test_each_claim_can_fail(words: str, changed: dict[str, float]) -> None:
    assert any(name.startswith(words) for name in failing(made(changed)))


def test_a_goal_that_is_missed_says_by_how_many_standard_errors() -> None:
    arm = DIGITS.arm(DIGITS.shared(3), 1)
    verdict = next(
        claim.verdict
        for claim in judge(CLAIMS, made({arm: 0.869}))
        if claim.name.startswith("Shared noise reaches")
    )
    error = 0.001 / 3**0.5
    assert verdict.numbers[f"{arm} misses by SE"] == pytest.approx(0.001 / error)
    assert sum(name.endswith("misses by SE") for name in verdict.numbers) == 1


def test_close_to_a_server_is_enough_for_adult() -> None:
    arms = {ADULT.arm(CENTRAL, 1): 0.8, ADULT.arm(ADULT.shared(2), 1): 0.796, ADULT.arm(ALONE, 1): 0.7}
    assert failing(made(arms)) == []


def test_an_arm_that_spends_more_than_it_states_is_found() -> None:
    for arm in (DIGITS.arm(CENTRAL, 1), MNIST.arm(DATA_SETS, 8)):
        assert failing(made(told={arm: {"epsilon": 8.1}})) == [CLAIMS[0].name]


@pytest.mark.parametrize("value", [3.5, 4.2])
def test_an_epsilon_by_honest_members_that_is_not_the_stated_one_is_found(value: float) -> None:
    told = {MNIST.arm(SHARED_MNIST, 3): {with_honest(4): value}}
    assert failing(made(told=told)) == [CLAIMS[1].name]


def test_epsilon_by_honest_members_is_judged_for_steps_of_as_many_rows() -> None:
    arm = MNIST.arm(SHARED_MNIST, 3)
    cell = BY_NAME[arm]
    assert isinstance(cell, PeersCell)
    larger = cell.changed({"train": {"expected_batch": 8192}})
    sweep = made(only=lambda one: one == arm)
    names = [claim.name for claim in judge(CLAIMS, sweep)]
    assert CLAIMS[1].name in names
    assert CLAIMS[1].name not in [claim.name for claim in judge(CLAIMS, replace(sweep, arms=(larger,)))]


@pytest.mark.parametrize(
    ("seconds", "sent", "holds"), [(0.2, 5e5, True), (0.3, 5e5, False), (0.2, 6e5, False)]
)
def test_steps_of_real_nodes_are_judged_where_they_ran(seconds: float, sent: float, holds: bool) -> None:
    told: dict[str, dict[str, Fact]] = {MNIST.arm(SHARED_MNIST, 3): {STEP_S: seconds, STEP_BYTES: sent}}
    judged = judge(CLAIMS, made(told=told))
    assert judged[-1].name == CLAIMS[-1].name
    assert judged[-1].verdict.holds == holds


def test_a_claim_is_judged_only_where_its_arms_were_run() -> None:
    assert judge(CLAIMS, made(only=lambda arm: arm == DIGITS.arm(POOLED))) == ()
    central = judge(CLAIMS, made(only=lambda arm: arm.startswith(DIGITS.arm(CENTRAL))))
    assert [claim.name for claim in central] == [CLAIMS[0].name, CLAIMS[2].name]


def test_the_quick_form_judges_what_the_digits_say() -> None:
    quick = made(only=lambda arm: any(fnmatchcase(arm, pattern) for pattern in STUDY.quick.arms))
    assert len(judge(CLAIMS, quick)) == 6
    assert failing(quick) == []


def test_goals_are_within_what_was_simulated() -> None:
    for (setting, kind), by_epsilon in GOALS.items():
        assert all(goal <= SIMULATED[setting, kind][epsilon] for epsilon, goal in by_epsilon.items())


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
    few = made(only=lambda arm: arm in (DIGITS.arm(CENTRAL, 3), FASHION.arm(ALONE, 3)))
    assert [chart.key for chart in charts(few)] == [
        "epsilon-digits",
        "epsilon-fashion-mlp",
        "rounds-digits",
        "rounds-fashion-mlp",
    ]
    assert charts(made(only=lambda arm: False)) == ()


def test_tables_have_figures_costs_and_protections() -> None:
    by_epsilon, costs, protections, arms = tables(made(told={MNIST.arm(SHARED_MNIST, 3): {STEP_S: 0.2}}))
    assert ("digits, central", "90.4% ± 0.1", "94.4% ± 0.1", "96.0% ± 0.1") in by_epsilon.rows
    assert any(row[0] == "adult, without privacy" for row in by_epsilon.rows)
    assert (MNIST.arm(SHARED_MNIST, 3), "1.43", "", "0.2", "") in costs.rows
    assert [row[0] for row in protections.rows].count("a trusted server") == 1
    assert len(arms.rows) == len(ARMS)


def test_the_headline_compares_the_best_known_setting_that_was_run() -> None:
    assert headline(made()) == (
        "MNIST, perceptron, epsilon 3: 94.4% with a trusted server, 94.1% with noise shared, 7 of 10 "
        "honest, 93.8% with noise shared, 5 of 10 honest, 92.1% with each node for itself."
    )
    assert headline(made(only=lambda arm: arm.startswith("digits"))).startswith(
        "digits, perceptron, epsilon 3"
    )
    assert headline(made(only=lambda arm: arm == DIGITS.arm(POOLED))) == "1 arms, 3 seeds each."
