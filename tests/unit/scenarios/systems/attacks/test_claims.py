"""Scenario `attacks`: its arms, what each claim needs to hold, and what the report draws."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from node.errors import ConfigError
from scenarios.catalogue import SCENARIOS
from scenarios.frame.report import Ended, render
from scenarios.frame.spec import Request, judge
from scenarios.inference.inversion import FOUND, TRUTH, InversionCell
from scenarios.inference.membership import MembershipCell
from scenarios.inference.property import PropertyCell, counting_auc
from scenarios.runs.request import judged
from scenarios.study.cells import Outcome
from scenarios.study.sweep import FINAL, Sweep
from scenarios.systems.attacks.arms import (
    ARMS,
    MEMBERS,
    RECORD_EPSILONS,
    SUMS,
    UPDATE_EPSILONS,
    own,
)
from scenarios.systems.attacks.charts import MEMBERS_SHOWN, PICTURED, Pictures, charts, tables
from scenarios.systems.attacks.claims import ATTACKS_SCENARIO, CLAIMS, STUDY, headline

BY_NAME = {arm.arm: arm.cell for arm in ARMS}
SEEDS = (0, 1, 2, 3)
SPREAD = (-0.004, 0.004, -0.002, 0.002)
FEW = "Gradient inversion does not recover it from the secure sum of three"
TEN = "A secure sum of ten hides it"

inversion_noise, inversion_records = "inversion-epsilon{:g}".format, "inversion-dp-sgd-epsilon{:g}".format
property_noise, property_records = "property-epsilon{:g}".format, "property-dp-sgd-epsilon{:g}".format


def inversion_sum(updates: int) -> str:
    return "inversion-bare" if updates == 1 else f"inversion-sum{updates}"


def inversion_node(rows: int, updates: int = 1) -> str:
    return f"inversion-node{rows}" + (f"-sum{updates}" if updates > 1 else "")


def property_sum(updates: int) -> str:
    return "property-bare" if updates == 1 else f"property-sum{updates}"


def membership_noise(epsilon: float) -> str:
    return f"membership-epsilon{epsilon:g}" if epsilon else "membership-none"


FIGURES: dict[str, float] = {
    **dict(zip(map(inversion_sum, SUMS), (1.0, 0.99, 0.98, 0.93, 0.83), strict=True)),
    inversion_node(16): 0.95,
    inversion_node(100): 0.78,
    inversion_node(287): 0.6,
    inversion_node(100, 3): 0.79,
    **dict(zip(map(inversion_noise, UPDATE_EPSILONS), (0.05, 0.1, 0.3, 0.85, 0.98), strict=True)),
    **dict(zip(map(inversion_records, RECORD_EPSILONS), (0.05, 0.1), strict=True)),
    **dict(zip(map(property_records, RECORD_EPSILONS), (0.67, 0.87), strict=True)),
    **dict(zip(map(property_sum, MEMBERS), (0.93, 0.73, 0.6), strict=True)),
    **dict(zip(map(property_noise, UPDATE_EPSILONS), (0.51, 0.52, 0.55, 0.8, 0.9), strict=True)),
    **dict(zip(map(membership_noise, (0, *RECORD_EPSILONS)), (0.68, 0.53, 0.58), strict=True)),
}
"""Made up, near what was measured: with these every claim holds but the two that did not."""
GUESS = 0.85


def facts(arm: str, figure: float) -> dict[str, object]:
    """What the cells say beside their figure."""
    match BY_NAME[arm]:
        case InversionCell():
            quotient = 1.0 if arm == inversion_sum(1) else figure - 0.2
            return {
                "quotient": quotient,
                "search": figure,
                "guess": GUESS,
                "above guess": figure - GUESS,
                "quotient above guess": quotient - GUESS,
                "recovered": float(figure >= 0.9),
            }
        case PropertyCell(updates=updates):
            return {"accuracy": figure - 0.05, "counting auc": counting_auc(updates)}
        case MembershipCell(privacy=privacy):
            attacks = {"loss": figure - 0.02, "calibrated": figure - 0.01, "ratio": figure}
            return {
                **{f"{name} auc": auc for name, auc in attacks.items()},
                **{f"{name} tpr": auc - 0.45 for name, auc in attacks.items()},
                **{f"{name} advantage": auc - 0.5 for name, auc in attacks.items()},
                "ceiling": 0.76 if privacy.epsilon == 1 else 0.9999,
                "accuracy": 0.4,
            }


def outcome(arm: str, figure: float, told: Mapping[str, float], off: float) -> Outcome:
    """Of one seed: all numbers but those that do not follow from draws are `off` by a little."""
    fixed = ("counting auc", "ceiling", "recovered")
    own_facts = {
        name: value if name in fixed or not isinstance(value, float) else value + off
        for name, value in {**facts(arm, figure), **told}.items()
    }
    epsilon = BY_NAME[arm].privacy.epsilon if BY_NAME[arm].privacy.mechanism != "none" else None
    series = {TRUTH: (0.5,) * 64, FOUND: (0.25,) * 64} if arm.startswith("inversion") else {}
    known = {"epsilon": epsilon, "protects": "a sentence", "unit": "one row"}
    return Outcome((figure + off,), {**known, **own_facts}, 1.0, series)


def made(
    changed: Mapping[str, float] | None = None,
    told: Mapping[str, Mapping[str, float]] | None = None,
    only: tuple[str, ...] = tuple(BY_NAME),
) -> Sweep:
    figures = {**FIGURES, **(changed or {})}
    arms = tuple(one for one in ARMS if one.arm in only)
    outcomes = {
        one.arm: tuple(
            outcome(one.arm, figures[one.arm], (told or {}).get(one.arm, {}), off) for off in SPREAD
        )
        for one in arms
    }
    return Sweep(STUDY, SEEDS, arms, outcomes)


def failing(sweep: Sweep) -> set[str]:
    return {claim.name for claim in judge(CLAIMS, sweep) if not claim.verdict.holds}


# -- arms --------------------------------------------------------------------------------------------------


def test_it_is_in_the_catalogue() -> None:
    assert SCENARIOS["attacks"].load() is ATTACKS_SCENARIO


def test_every_arm_has_a_name_of_its_own_and_a_made_up_figure() -> None:
    assert len(BY_NAME) == len(ARMS) == len(FIGURES)
    assert set(BY_NAME) == set(FIGURES)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", arm) for arm in BY_NAME)
    whole = made()
    assert [whole.first(where) for where in PICTURED.values()] == [
        *map(inversion_sum, (1, 3, 100)),
        *(inversion_node(100), inversion_noise(10000), inversion_noise(100), None),
    ]


def test_arms_are_what_they_are_named_for() -> None:
    three, node, noised = (
        BY_NAME[arm] for arm in (inversion_sum(3), inversion_node(100, 3), inversion_noise(8))
    )
    assert isinstance(three, InversionCell)
    assert isinstance(node, InversionCell)
    assert isinstance(noised, InversionCell)
    assert (three.updates, three.rows, three.train.epochs, three.train.batch_size) == (3, 1, 1, 1)
    assert (node.updates, node.rows, node.train.epochs, node.train.batch_size) == (3, 100, 2, 16)
    assert (noised.updates, noised.privacy.mechanism, noised.privacy.epsilon) == (1, "ldp", 8)
    assert BY_NAME[membership_noise(1)].privacy.mechanism == "dp-sgd"
    assert {cell.privacy.delta for cell in BY_NAME.values()} == {1e-5}
    assert {cell.rounds for cell in BY_NAME.values()} == {1}


def test_the_arms_are_what_their_factors_say() -> None:
    for arm in ARMS:
        cell, factors = arm.cell, arm.factors
        assert factors["attack"] == cell.describe()["kind"]
        assert factors["mechanism"] == cell.privacy.mechanism
        assert factors.get("epsilon") == (cell.privacy.epsilon if factors["mechanism"] != "none" else None)
        assert factors.get("updates") == getattr(cell, "updates", None)
        if isinstance(cell, InversionCell):
            assert factors["rows"] == cell.rows
            assert factors["training"] == ("one step" if cell.train.epochs == 1 else "as nodes")
    assert len({tuple(arm.factors.items()) for arm in ARMS}) == len(ARMS)
    names = made().frame().column_names
    assert {"attack", "training", "updates", "rows", "mechanism", "epsilon"} <= {*names}


# -- claims ------------------------------------------------------------------------------------------------


def test_as_measured_all_claims_hold_but_two() -> None:
    every = judge(CLAIMS, made())
    assert [claim.name for claim in every] == [claim.name for claim in CLAIMS]
    assert {name.startswith((FEW, TEN)) for name in failing(made())} == {True}
    assert len(failing(made())) == 2
    for claim in every:
        assert claim.verdict.numbers
        assert all(isinstance(value, int | float | str) for value in claim.verdict.numbers.values())


def test_those_two_would_hold_where_sums_hid_more() -> None:
    hidden = dict.fromkeys(map(inversion_sum, SUMS[1:]), 0.8)
    assert not [name for name in failing(made(hidden)) if name.startswith(FEW)]
    assert [name for name in failing(made({**hidden, inversion_sum(3): 0.87})) if name.startswith(FEW)]
    assert not [name for name in failing(made({property_sum(10): 0.54})) if name.startswith(TEN)]


BROKEN: list[tuple[str, Mapping[str, float], Mapping[str, Mapping[str, float]]]] = [
    ("Gradient inversion recovers", {inversion_sum(1): 0.89}, {}),
    ("Gradient inversion recovers", {}, {inversion_sum(1): {"above guess": 0.001}}),
    ("It does not from the secure sum of a hundred", {inversion_sum(100): 0.86}, {}),
    (
        "It does not from the secure sum of a hundred",
        {inversion_sum(100): 0.91},
        {inversion_sum(100): {"above guess": -0.01}},
    ),
    ("What is found is less like", {inversion_sum(10): 1.02}, {}),
    ("What is found is less like", dict.fromkeys(map(inversion_sum, SUMS), 0.9), {}),
    ("The first layer's quotient", {}, {inversion_sum(1): {"quotient": 0.8}}),
    ("The first layer's quotient", {}, {inversion_sum(10): {"quotient above guess": 0.02}}),
    ("Inversion does not recover a row from updates", {inversion_node(287): 0.87}, {}),
    ("Inversion does not recover a row from updates", {inversion_node(100, 3): 0.87}, {}),
    ("It does not from a noised update", {inversion_noise(100): 0.87}, {}),
    ("It does not from an update whose step is private", {inversion_records(8): 0.87}, {}),
    ("A bare update tells", {property_sum(1): 0.801}, {}),
    ("A secure sum tells less", {property_sum(10): 0.73}, {}),
    ("A secure sum tells no more", {property_sum(3): 0.82}, {}),
    ("Noise hides it", {property_noise(8): 0.56}, {}),
    ("Membership inference is above chance", {}, {membership_noise(0): {"loss auc": 0.502}}),
    ("Attacks calibrated", {}, {membership_noise(0): {"calibrated auc": 0.65}}),
    ("Membership inference is near chance", {}, {membership_noise(1): {"loss auc": 0.56}}),
    ("No attack on membership", {}, {membership_noise(1): {"calibrated advantage": 0.77}}),
]


@pytest.mark.parametrize(("words", "changed", "told"), BROKEN)
def test_each_claim_can_fail(
    words: str, changed: Mapping[str, float], told: Mapping[str, Mapping[str, float]]
) -> None:
    assert any(name.startswith(words) for name in failing(made(changed, told)))
    assert not any(name.startswith(words) for name in failing(made()))


def test_a_claim_is_judged_only_where_its_arms_were_run() -> None:
    assert judge(CLAIMS, made(only=())) == ()
    names = [claim.name for claim in judge(CLAIMS, made(only=(inversion_sum(1),)))]
    assert names == [CLAIMS[0].name]
    assert len(judge(CLAIMS, made(only=(membership_noise(0),)))) == 2
    assert len(judge(CLAIMS, made(only=(property_sum(3),)))) == 1


def test_the_short_form_judges_every_claim() -> None:
    patterns = [pattern.replace("*", ".*") for pattern in STUDY.quick.arms]
    arms = tuple(arm for arm in BY_NAME if any(re.fullmatch(pattern, arm) for pattern in patterns))
    assert len(judge(CLAIMS, made(only=arms))) == len(CLAIMS)


# -- the command line --------------------------------------------------------------------------------------


def test_a_mechanism_of_one_s_own_is_attacked_by_inversion() -> None:
    cell = own("tests.own_mechanisms:Counting", {"epsilon": 2.0})
    assert (cell.arm, cell.updates, cell.rows) == ("own", 1, 1)
    assert (cell.privacy.mechanism, cell.privacy.epsilon) == ("tests.own_mechanisms:Counting", 2.0)
    assert own("ldp", {"epsilon": 2.0}).privacy.mechanism == "ldp"
    with pytest.raises(ConfigError, match=r"privacy\.mechanism = 'fedadam' is refused"):
        own("fedadam", {})


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(rounds=3), "--rounds 3: attacks are on one round"),
        (Request(peers=3), "--peers 3: each arm has its own number of updates"),
        (Request(overrides=("train.epochs=3",)), r"--set train\.epochs: each arm has its own"),
        (Request(overrides=("scenario.arms=nothing",)), "'nothing' is no arm of attacks"),
    ],
)
def test_what_can_not_be_asked_for_is_one_line(request_: Request, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        judged(STUDY, request_)
    assert "\n" not in str(raised.value)


def test_only_arms_on_adult_need_a_file(tmp_path: Path) -> None:
    chosen = ("scenario.arms=inversion-bare,membership-none",)
    assert len(judged(STUDY, Request(data_dir=tmp_path, overrides=chosen)).arms) == 2
    with pytest.raises(ConfigError, match=r"property-bare: data set adult: .*adult\.data\.gz"):
        judged(STUDY, Request(data_dir=tmp_path, overrides=("scenario.arms=property-bare",)))


# -- charts, tables, words ---------------------------------------------------------------------------------


def test_pictures_stand_in_a_grid() -> None:
    chart = Pictures().chart(made())
    columns = 1 + len(PICTURED) - 1
    assert len(chart.traces) == 3 * columns
    assert chart.traces[0]["z"] == [[0.5] * 8] * 8
    assert chart.traces[1]["z"] == [[0.25] * 8] * 8
    assert [note["text"] for note in chart.layout["annotations"]][:3] == ["true", "bare", "sum<br>of 3"]
    for number, trace in enumerate(chart.traces[1:], start=2):
        assert (trace["xaxis"], trace["yaxis"]) == (f"x{number}", f"y{number}")
        assert chart.layout[f"yaxis{number}"]["scaleanchor"] == f"x{number}"
    domains = [chart.layout[f"xaxis{number}"]["domain"] for number in range(2, columns + 1)]
    assert all(one[1] < other[0] for one, other in pairwise(domains))
    assert domains[-1][1] == pytest.approx(1.0)
    below, above = chart.layout[f"yaxis{columns + 1}"]["domain"], chart.layout["yaxis2"]["domain"]
    assert 0 <= below[0] < below[1] < above[0] < above[1] < 1


def test_bars_of_membership_begin_at_chance() -> None:
    chart = MEMBERS_SHOWN.chart(made())
    bars = chart.traces
    assert [bar["name"] for bar in bars] == ["loss threshold", "less the shadows' loss", "likelihood ratio"]
    assert bars[2]["x"] == ["no noise", "ε = 1", "ε = 8"]
    assert [*chart.layout["xaxis"]["categoryarray"]] == ["no noise", "ε = 8", "ε = 1"]
    assert bars[2]["base"] == 0.5
    assert bars[2]["y"] == pytest.approx([0.18, 0.03, 0.08])


def test_only_what_was_run_is_drawn() -> None:
    keys = ["pictures", "inversion", "property", "noise", "membership"]
    assert [chart.key for chart in charts(made())] == keys
    for only, drawn in (
        ((property_sum(3),), []),
        ((property_sum(1), property_sum(3)), ["property"]),
        ((property_noise(1), property_noise(8)), ["noise"]),
        ((membership_noise(1),), ["membership"]),
        ((inversion_sum(3),), ["pictures"]),
        ((inversion_sum(3), inversion_sum(100)), ["pictures", "inversion"]),
    ):
        assert [chart.key for chart in charts(made(only=only))] == drawn


def test_lines_hold_the_means() -> None:
    lines = {trace["name"]: trace for chart in charts(made())[1:4] for trace in chart.traces}
    assert lines["updates of one step on one row"]["x"] == list(SUMS)
    assert lines["updates of one step on one row"]["y"] == pytest.approx(
        [FIGURES[inversion_sum(n)] for n in SUMS]
    )
    assert lines["one update, trained as nodes do"]["x"] == [16, 100, 287]
    assert lines["the first layer's quotient only"]["y"][0] == pytest.approx(1.0)
    assert lines["a guess"]["x"] == [1, 3, 10, 16, 30, 100, 100, 287, 300]
    assert lines["a guess"]["y"] == pytest.approx([GUESS] * 9)
    assert lines["one who counts the members that have it"]["y"][1] == pytest.approx(0.8125)
    assert lines["inversion: similarity"]["x"] == list(UPDATE_EPSILONS)


def test_tables_are_whole_and_the_report_can_be_written() -> None:
    sweep = made()
    for table in tables(sweep):
        assert table.rows
        assert all(len(row) == len(table.headings) for row in table.rows)
    assert [len(table.rows) for table in tables(sweep)][:3] == [16, 10, 3]
    assert [table.title for table in tables(made(only=(property_sum(1),)))] == [
        *("Property inference: mostly women", "What is protected"),
    ]
    ended = Ended("attacks", "", headline(sweep), "", {}, "", {}, "", 1.0)
    page = render(ended, charts(sweep), tables(sweep), judge(CLAIMS, sweep))
    assert page.count("class='chart'") == 5
    json.dumps([list(chart.traces) for chart in charts(sweep)])


def test_the_headline_tells_what_was_run() -> None:
    assert headline(made()).startswith("Inversion finds a row with similarity 1.00 in a bare update")
    assert "0.53 at epsilon 1." in headline(made())
    assert (
        headline(made(only=(property_sum(10),)))
        == "A property is told with an AUC of 0.60 from a sum of ten."
    )
    assert headline(made(only=(property_noise(1),))) == "Arms: 1, each with 4 seeds."
    assert FINAL not in headline(made())
