"""Scenario `rpfl`: its arms, what each claim needs to hold, and what the report draws."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mechanisms.servers.rpfl_server import FIRST_STEP
from mechanisms.servers.server import Federation
from node.errors import ConfigError
from scenarios.catalogue import SCENARIOS
from scenarios.clients.poisons import Backdoor
from scenarios.engines.room import LocalRoom, load
from scenarios.federated.cell import FederatedCell
from scenarios.federated.measures import AUC, BACKDOOR, BALANCED, EXCESS, MAJORITY
from scenarios.frame.spec import judge
from scenarios.study.cells import Outcome
from scenarios.study.sweep import FINAL, Sweep
from scenarios.swarms.lying import MEMBERS, OWN, ROLLED_BACK, LyingSwarmCell
from scenarios.systems.rpfl import claims, lying, theorems
from scenarios.systems.rpfl.arms import (
    ADULT_TRIGGER,
    ARMS,
    AT_REST,
    DEFENCES,
    DOOR,
    FROM_HOLLAND,
    HORIZONS,
    LITERAL,
    LOAN_TRIGGER,
    MEMBER_METHODS,
    NEVER_WORKED,
    NOISES,
    OWNS_NOTHING,
    OWNS_OTHER,
    own,
)
from scenarios.systems.rpfl.charts import charts, tables
from scenarios.systems.rpfl.claims import CLAIMS
from scenarios.systems.rpfl.study import RPFL, STUDY, headline

ADULT, LOAN_IID, PRIVACY, UTILITY = "adult", "loan-iid", "members", "utility"
CLEAN, FLIP_SCALED, SIGN_FLIP = "clean", "flip-x5", "sign-flip"
FEDAVG, GM, TM = "fedavg", "geometric-median", "trimmed-mean"
REDRAWN, GM_RPFL = "rpfl-redrawn", "gm+rpfl"


def arm(where: str, attack: str, share: float, defence: str) -> str:
    return f"{where}-{attack}{share:g}-{defence}" if share else f"{where}-{attack}-{defence}"


def rpfl(weight: float) -> str:
    return f"rpfl-{weight:g}" if weight else "rpfl-literal"


def noised(epsilon: float) -> str:
    return f"ldp{epsilon:g}"


def utility_arm(rounds: int, defence: str) -> str:
    return f"{UTILITY}-{rounds}-{defence}"


SEEDS = (0, 1, 2)
SPREAD = (-0.002, 0.002, 0.0)
SERVED = tuple(one for one in ARMS if isinstance(one.cell, FederatedCell))
BY_NAME = {one.arm: one.cell for one in SERVED if isinstance(one.cell, FederatedCell)}
NAMES = tuple(one.name for one in DEFENCES)
CLEAN_ACCURACY = {FEDAVG: 0.847, rpfl(0.0): 0.846, REDRAWN: 0.845, rpfl(0.01): 0.84, rpfl(0.03): 0.82}
SUCCESS = {
    FEDAVG: 0.99, rpfl(0.0): 0.95, REDRAWN: 0.95, rpfl(0.01): 0.8, rpfl(0.03): 0.4, GM: 0.3,
    TM: 0.06, GM_RPFL: 0.2, "norm-bound": 0.32, "weak-dp": 0.31, "ldp": 0.0, "cdp": 0.2,
}  # fmt: skip
MEMBERSHIP = {FEDAVG: 0.6, "cdp1": 0.51, "cdp8": 0.52, "ldp1": 0.5, "ldp10": 0.51}
"""Made up, near what was measured."""
NEVER = (
    "RPFL performs best",
    "RPFL is 3.39 times as accurate as FedAvg under",
    "RPFL is 2.75 times as accurate as a benchmark under",
    "RPFL's membership inference is 0.71 times",
    "Theorem 1 (c = 1) holds of a logistic regression after one step",
    "Theorem 2's form",
    "RPFL's excess loss falls as 1 / K",
    "More noise on rows first raises and then lowers robustness",
)
"""The beginnings of claims that do not hold with these figures: the document's own."""
NOISE_STDS = {noised(epsilon): 10 / epsilon for epsilon in NOISES} | {"ldp": 7.5}
"""About those of the epsilons."""
EXCESS_LOSS = {FEDAVG: {15: 1e-5, 30: 1e-6, 60: 1e-8}, rpfl(0.0): dict.fromkeys(HORIZONS, 1.5e-4)}
EXCESS_LOSS[REDRAWN] = EXCESS_LOSS[rpfl(0.0)]


def outcome(cell: FederatedCell, changed: Mapping[str, Mapping[str, float]], off: float) -> Outcome:
    """Made up from the arm's name."""
    where = next((one for one in (PRIVACY, ADULT, UTILITY) if cell.arm.startswith(one)), "loan")
    defence = cell.arm.removeprefix(f"{PRIVACY}-")
    if where != PRIVACY:
        names = sorted([*NAMES, *NOISE_STDS], key=len, reverse=True)
        defence = next(name for name in names if cell.arm.endswith(f"-{name}"))
    attacked = "backdoor" in cell.arm
    scaled = "x5" in cell.arm and (defence == FEDAVG or defence.startswith("rpfl"))
    facts: dict[str, float] = {
        FINAL: CLEAN_ACCURACY.get(defence, 0.845) if where == ADULT else 0.857,
        BACKDOOR: (1.0 if scaled else SUCCESS.get(defence, 0.1)) if attacked else 0.06,
        BALANCED: 0.75 if where == ADULT and defence != "ldp" else 0.5,
        AUC: 0.9 if where == ADULT else 0.67,
        MAJORITY: 0.7638 if where == ADULT else 0.8573,
        "stated": 1.5,
        "largest noise std on rows": 0.08,
        FIRST_STEP: 67.5,
    }
    std = 0.03 if defence.startswith("rpfl") else NOISE_STDS.get(defence)
    facts |= {} if std is None else {"least noise std on rows": std}
    if where == UTILITY:
        facts[EXCESS] = EXCESS_LOSS[defence][cell.rounds]
    if where == PRIVACY:
        facts[FINAL] = 0.75 if defence == "ldp1" else 0.82
        facts["membership accuracy"] = MEMBERSHIP.get(defence, 0.52)
        facts["calibrated membership accuracy"] = MEMBERSHIP.get(defence, 0.52)
    known = {"cdp1": 1.0, "ldp1": 1.0, "cdp8": 8.0, "ldp10": 10.0, FEDAVG: None, REDRAWN: 80_000.0}
    epsilon = known.get(defence, 1500.0)
    facts |= changed.get(cell.arm, {})
    figure = facts.pop(FINAL) + off
    fixed = ("stated", MAJORITY, FIRST_STEP, EXCESS, "least noise std on rows", "largest noise std on rows")
    moved = {name: value + (off if name not in fixed else 0) for name, value in facts.items()}
    told = {"epsilon": epsilon, "delta": 1e-5, "unit": "one record", "protects": "rows", **moved}
    return Outcome((0.5, figure), told, 2.0)


def made(
    changed: Mapping[str, Mapping[str, float]] | None = None, only: tuple[str, ...] | None = None
) -> Sweep:
    """Of the arms with a server; swarms without one have tests of their own (test_lying_swarm)."""
    arms = tuple(one for one in SERVED if only is None or one.arm in only)
    outcomes = {
        one.arm: tuple(outcome(BY_NAME[one.arm], changed or {}, off) for off in SPREAD) for one in arms
    }
    return Sweep(STUDY, SEEDS, arms, outcomes)


def failing(sweep: Sweep) -> set[str]:
    judged = (claim for claim in judge(CLAIMS, sweep) if not claim.verdict.holds)
    return {claim.name for claim in judged if not claim.name.startswith(NEVER)}


def doubtful(sweep: Sweep) -> set[str]:
    """All claims that do not hold, the document's own too."""
    return {claim.name for claim in judge(CLAIMS, sweep) if not claim.verdict.holds}


# -- arms --------------------------------------------------------------------------------------------------


def test_it_is_in_the_catalogue() -> None:
    assert SCENARIOS["rpfl"].load() is RPFL


def test_every_arm_has_a_name_of_its_own_that_a_file_can_have() -> None:
    names = {cell.arm for cell in ARMS}
    assert len(names) == len(ARMS)
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", name) for name in names)


def test_arms_of_one_attack_differ_in_their_defence_alone() -> None:
    for cell in BY_NAME.values():
        if cell.arm.startswith(ADULT):
            base = BY_NAME[arm(ADULT, CLEAN, 0.0, FEDAVG)]
            assert (cell.rows, cell.clients, cell.model, cell.train) == (
                *(base.rows, base.clients, base.model, base.train),
            )


def test_every_defence_meets_every_attack_on_adult_and_the_literal_one_has_no_weight() -> None:
    for defence in NAMES:
        assert arm(ADULT, "backdoor", 0.4, defence) in BY_NAME
        assert arm(ADULT, FLIP_SCALED, 0.2, defence) in BY_NAME
    literal, redrawn = (
        BY_NAME[arm(ADULT, CLEAN, 0.0, one)].mechanism.parameters for one in ("rpfl-literal", REDRAWN)
    )
    assert literal["weight"] == 0.0
    assert redrawn == {**literal, "draw": "each-round"}


def test_the_arms_are_what_their_factors_say() -> None:
    whole = made()
    for one in SERVED:
        cell, factors = BY_NAME[one.arm], one.factors
        assert one.arm.startswith(str(factors["setting"]))
        assert cell.attackers.of == factors["share"]
        assert (factors["attack"] == CLEAN) == (factors["share"] == 0)
        assert cell.rounds == factors.get("rounds", cell.rounds)
        parameters = cell.mechanism.parameters
        assert parameters.get("weight") == factors.get("weight")
        if factors["defence"] == "ldp":
            assert parameters["epsilon"] == factors["epsilon"]
        assert parameters.get("aggregator", GM) in (factors["defence"], GM)
    assert whole.select({**DOOR, "defence": GM}) == (arm(ADULT, "backdoor", 0.4, GM),)
    assert whole.line("weight", {**DOOR, "defence": "rpfl"}).arms == tuple(
        arm(ADULT, "backdoor", 0.4, rpfl(weight)) for weight in (0.0, 0.01, 0.03)
    )
    assert whole.line("rounds", {"setting": UTILITY, **LITERAL}).levels == HORIZONS
    assert len({tuple(sorted(one.factors.items())) for one in ARMS}) == len(ARMS)
    for one in lying.ARMS:
        cell = one.cell
        assert isinstance(cell, LyingSwarmCell)
        assert cell.lie == lying.LIES[str(one.factors["lie"])][0]
        gated = cell.of.task.aggregation.loss_gate is not None
        assert (cell.groups, gated) == lying.DEFENCES[str(one.factors["defence"])][:2]


def test_the_usual_arm_of_a_selection_comes_first() -> None:
    whole = made()
    assert whole.first({**AT_REST, "defence": "ldp"}) == arm(ADULT, CLEAN, 0.0, "ldp")
    assert whole.first({"setting": PRIVACY}) == f"{PRIVACY}-{FEDAVG}"


def test_the_table_of_everything_has_the_factors() -> None:
    names = {
        *made(only=(arm(ADULT, CLEAN, 0.0, "ldp"), arm(ADULT, CLEAN, 0.0, "rpfl-0.01"))).frame().column_names
    }
    assert {"setting", "attack", "share", "defence", "epsilon", "weight"} <= names


def test_the_short_form_is_of_arms_that_there_are() -> None:
    assert len(STUDY.quick.arms) == 15
    assert set(STUDY.quick.arms) <= set(BY_NAME)
    assert {arm(ADULT, "backdoor", 0.4, TM), f"{PRIVACY}-ldp1"} <= set(STUDY.quick.arms)
    assert len(judge(CLAIMS, made(only=STUDY.quick.arms))) >= 5


@pytest.mark.skipif("MURMURATION_DATA" not in os.environ, reason="MURMURATION_DATA is not set")
@pytest.mark.parametrize(
    "name",
    [
        *(arm(ADULT, "backdoor", 0.4, defence) for defence in NAMES),
        *(arm("loan-states", "flip", 0.4, defence) for defence in NAMES),
        *(f"{PRIVACY}-{method.name}" for method in MEMBER_METHODS),
        *(utility_arm(HORIZONS[0], defence) for defence in (FEDAVG, REDRAWN)),
        arm(ADULT, "flip", 0.4, noised(NOISES[0])),
    ],
)
def test_an_arm_can_be_run(name: str, room: LocalRoom) -> None:
    BY_NAME[name].check(room)


@pytest.fixture(scope="module")
def room() -> LocalRoom:
    return LocalRoom(Path(os.environ["MURMURATION_DATA"]), 1, lambda number, figure: None)


@pytest.mark.skipif("MURMURATION_DATA" not in os.environ, reason="MURMURATION_DATA is not set")
@pytest.mark.parametrize(("name", "trigger"), [("adult", ADULT_TRIGGER), ("loan", LOAN_TRIGGER)])
def test_a_trigger_is_rare_categories(name: str, trigger: object) -> None:
    """Columns that hardly a row has, and that are 0 or 1 before rows are scaled."""
    places = [NEVER_WORKED, FROM_HOLLAND] if name == "adult" else [OWNS_NOTHING, OWNS_OTHER]
    assert sorted(trigger.values) == sorted(places)  # type: ignore[attr-defined]
    x = load(name, Path(os.environ["MURMURATION_DATA"]), 0).train_x[:, places]
    assert set(x.ravel().tolist()) <= {0.0, 1.0}
    assert x.mean(axis=0).max() < 0.003


def test_a_user_s_own_mechanism_is_under_the_strongest_backdoor_of_the_threat_model() -> None:
    cell = own("a.b:C", {"x": 1})
    assert cell.arm == "own"
    assert (cell.attackers.of, cell.attackers.forgery) == (0.4, None)
    assert isinstance(cell.attackers.poison, Backdoor)


def test_more_attackers_than_are_withstood_are_refused_before_anything_is_run() -> None:
    """As when --peers takes clients from a trimmed mean."""
    few = BY_NAME[arm(ADULT, "backdoor", 0.4, TM)].among(20)
    with pytest.raises(ConfigError, match="trimmed = 16 is not allowed: 0 to 9"):
        few.mechanism.make(Federation((5,) * 20, 3, (107, 1)))


# -- claims ------------------------------------------------------------------------------------------------


def test_with_these_figures_only_the_document_s_own_fail() -> None:
    sweep = made()
    assert len(judge(CLAIMS, sweep)) == len(CLAIMS) - len(lying.CLAIMS)
    assert failing(sweep) == set()
    assert {claim.name for claim in judge(CLAIMS, sweep) if not claim.verdict.holds} == {
        claim.name for claim in CLAIMS if claim.name.startswith(NEVER)
    }


def door(defence: str) -> str:
    return arm(ADULT, "backdoor", 0.4, defence)


CHANGES = {
    "falls with its weight": {door(rpfl(0.03)): {BACKDOOR: 0.85}},
    "Geometric median and trimmed": {door(GM): {BACKDOOR: 0.5}},
    "GM + RPFL lets fewer": {door(GM_RPFL): {BACKDOOR: 0.31}},
    "weight costs accuracy": {arm(ADULT, CLEAN, 0.0, rpfl(0.03)): {FINAL: 0.84}},
    "stays relatively high": {arm(ADULT, "flip", 0.4, rpfl(0.01)): {FINAL: 0.7}},
    "Scaled backdoors get through": {arm(ADULT, "backdoor-x5", 0.2, GM): {BACKDOOR: 0.95}},
    "Averaging without noise": {f"{PRIVACY}-{FEDAVG}": {"membership accuracy": 0.5}},
    "near chance": {f"{PRIVACY}-ldp1": {"calibrated membership accuracy": 0.6}},
    "Table I: RPFL": {f"{PRIVACY}-{rpfl(0.01)}": {FINAL: 0.75}},
    "Table I's 86 %": {arm(LOAN_IID, CLEAN, 0.0, FEDAVG): {FINAL: 0.88}},
    "What is proved of Theorem 1's noise": {arm(ADULT, CLEAN, 0.0, rpfl(0.0)): {"stated": 2000.0}},
    "Theorem 3 bounds": {utility_arm(60, REDRAWN): {EXCESS: 1e4}},
    "Noise redrawn in each round": {door(REDRAWN): {BACKDOOR: 0.9}},
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_claim_fails_with_other_figures(words: str) -> None:
    assert any(words in name for name in failing(made(CHANGES[words])))


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("performs best", {door(rpfl(0.03)): {BACKDOOR: 0.01}}),
        ("under poisoned data", {door(rpfl(0.01)): {FINAL: 0.9}, door(FEDAVG): {FINAL: 0.2}}),
        ("under scaled updates", {arm(ADULT, FLIP_SCALED, 0.2, FEDAVG): {FINAL: 0.17}}),
        ("2.75 times as accurate as a benchmark under poisoned", {door(TM): {FINAL: 0.2}}),
        (
            "2.75 times as accurate as a benchmark under forged",
            {arm(ADULT, SIGN_FLIP, 0.2, GM): {FINAL: 0.2}},
        ),
        ("0.71 times", {f"{PRIVACY}-{FEDAVG}": {"membership accuracy": 0.8}}),
        ("Theorem 1 (c = 1) holds", {arm(ADULT, CLEAN, 0.0, rpfl(0.0)): {FIRST_STEP: 1.4}}),
        ("falls as 1 / K", {utility_arm(60, one): {EXCESS: 3e-5} for one in (rpfl(0.0), REDRAWN)}),
        ("first raises", {arm(ADULT, "flip", 0.4, noised(300.0)): {FINAL: 0.86}}),
    ],
)
def test_the_document_s_claims_could_hold(words: str, changed: Mapping[str, Mapping[str, float]]) -> None:
    holds = {claim.name for claim in judge(CLAIMS, made(changed)) if claim.verdict.holds}
    assert any(words in name for name in holds)


def test_where_nothing_learns_nothing_is_best() -> None:
    still = {arm(ADULT, CLEAN, 0.0, name): {BALANCED: 0.5} for name in NAMES}
    assert claims.rpfl_is_best.judge(made(still)) is None


def test_redrawn_noise_that_costs_the_root_of_the_rounds_would_do() -> None:
    """A guarantee is a value of the cell: here of a sweep in which K rounds cost what one does."""
    sweep = made()
    redrawn = arm(ADULT, CLEAN, 0.0, REDRAWN)
    cheap = tuple(replace(one, facts={**one.facts, "epsilon": 1500.0}) for one in sweep.outcomes[redrawn])
    verdict = theorems.rounds_cost_their_root.judge(
        replace(sweep, outcomes={**sweep.outcomes, redrawn: cheap})
    )
    assert verdict is not None
    assert verdict.holds


def test_noise_that_only_raises_or_only_lowers_robustness_is_no_balance() -> None:
    """At one end of the curve nothing is between."""
    for end in (FEDAVG, "ldp"):
        most = {arm(ADULT, attack, 0.4, end): {FINAL: 0.86} for attack in ("flip", "backdoor")}
        assert any("first raises" in name for name in doubtful(made(most)))


def test_a_curve_of_robustness_needs_both_of_its_ends() -> None:
    names = tuple(
        arm(ADULT, attack, 0.4, defence)
        for attack in ("flip", "backdoor")
        for defence in (FEDAVG, *map(noised, NOISES), "ldp")
    )
    assert theorems.noise_raises_then_lowers.judge(made(only=names)) is not None
    for missing in (arm(ADULT, "flip", 0.4, FEDAVG), arm(ADULT, "backdoor", 0.4, "ldp")):
        kept = tuple(name for name in names if name != missing)
        assert theorems.noise_raises_then_lowers.judge(made(only=kept)) is None
    ends = tuple(arm(ADULT, attack, 0.4, end) for attack in ("flip", "backdoor") for end in (FEDAVG, "ldp"))
    assert theorems.noise_raises_then_lowers.judge(made(only=ends)) is None


def test_the_rounds_after_which_theorem_3_would_be_wrong() -> None:
    verdict = theorems.excess_vanishes.judge(made())
    assert verdict is not None
    bound_at_one = (0.5 + 0.01) * 2 / 1e-4 * (1 + 107 * 0.08**2)
    beyond = verdict.numbers["rounds after which it would exceed the bound, rpfl"]
    assert beyond == pytest.approx(bound_at_one / 1.5e-4)


def test_claims_about_what_was_not_run_are_left_out() -> None:
    assert judge(CLAIMS, made(only=("own",))) == ()
    assert judge(CLAIMS, made(only=(utility_arm(30, FEDAVG),))) == ()
    some = judge(CLAIMS, made(only=(f"{PRIVACY}-{FEDAVG}", f"{PRIVACY}-ldp1")))
    assert {claim.name.split()[0] for claim in some} == {"Averaging", "Membership"}


def test_chance_is_judged_only_where_epsilon_is_at_most_one() -> None:
    verdict = claims.membership_is_chance.judge(made())
    assert verdict is not None
    assert {name.split(",")[0] for name in verdict.numbers if "," in name} == {
        f"{PRIVACY}-cdp1",
        f"{PRIVACY}-ldp1",
    }
    assert 0.7 < float(verdict.numbers["no attack can exceed"] or 0) < 0.75


# -- the report --------------------------------------------------------------------------------------------


def test_the_report_has_all_plots_and_tables_and_less_with_fewer_arms() -> None:
    assert len(charts(made())) == 8
    assert len(tables(made())) == 6
    assert {chart.key for chart in charts(made(only=(f"{PRIVACY}-{FEDAVG}",)))} == {"members"}
    assert headline(made(only=(f"{PRIVACY}-{FEDAVG}",))) == "1 arms were run."
    assert "99% (FedAvg)" in headline(made())


def test_swarms_without_a_server_have_a_plot_and_a_table() -> None:
    facts = {MEMBERS: 3.0, OWN: 0.9, ROLLED_BACK: 1.5}
    outcomes = {cell.arm: (Outcome((0.8,), facts, 1.0), Outcome((0.9,), facts, 1.0)) for cell in lying.ARMS}
    sweep = Sweep(STUDY, (0, 1), tuple(lying.ARMS), outcomes)
    (chart,) = charts(sweep)
    assert (chart.key, len(chart.traces)) == ("swarms", 4)
    table = tables(sweep)[0]
    assert len(table.rows) == 20
    assert table.rows[0][1:] == ("85.0% ± 5.0", "90.0% ± 0.0", "1.5", "3")


def test_the_document_s_table_stands_beside_ours() -> None:
    table = next(table for table in tables(made()) if table.title.startswith("Table I"))
    plain = next(row for row in table.rows if row[0] == "plain averaging")
    assert plain[1:3] == ("82 %", "86 %")
    assert plain[3].startswith("60.0%")
    assert plain[5].startswith("82.0%")
