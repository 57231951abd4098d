"""Scenario `aldp`: its arms, what each claim needs to hold, and what the report draws."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from node.errors import ConfigError
from scenarios.__main__ import main
from scenarios.catalogue import SCENARIOS
from scenarios.frame.report import Ended, render
from scenarios.frame.spec import judge
from scenarios.study.cells import Outcome
from scenarios.study.sweep import Sweep
from scenarios.swarms.share_errors import ShareErrorCell
from scenarios.systems.aldp.arms import (
    ARMS,
    CAPS,
    EXACT,
    FIXED,
    LINEAR,
    NONE,
    POWERS,
    RADII,
    RECORD_EPSILONS,
    STATED,
    SWARM_SIZES,
    own,
)
from scenarios.systems.aldp.charts import charts, tables
from scenarios.systems.aldp.claims import CLAIMS, STUDY, headline

RING, SEED = "shares-ring", "shares-seed"
exact, linear, record = "exact-{}".format, "linear-{}".format, "dp-sgd-{}".format


def sized(kind: str, peers: int) -> str:
    name = "none" if kind == "none" else exact(300)
    return name if peers == 10 else f"{name}-n{peers}"


def capped(radius: str, cap: float) -> str:
    return exact(3000) if (radius, cap) == ("raw", 1) else f"{radius}-cap{cap:g}"


def floats(power: int) -> str:
    return f"shares-float-1e{power}"


SEEDS = (0, 1, 2)
SPREAD = (-0.004, 0.0, 0.004)
TRUE = dict(zip(STATED, (0.28, 1.6, 3.5, 7.9, 25.4, 68.3, 410, 3744, 3e4, 3.4e5), strict=True))
CURVE = (0.1, 0.1, 0.12, 0.18, 0.25, 0.32, 0.66, 0.9, 0.94, 0.95)
CLAIM = dict(
    zip(
        (
            *("exact_is_no_worse", "linear_wastes", "exact_is_no_worse_anywhere", "linear_overspends"),
            *("exact_spends_its_budget", "rises_with_epsilon", "documented_range_is_useful"),
            *("records_are_cheaper", "more_peers_help", "adaptive_radius_helps"),
            *("error_grows_tenfold", "error_is_of_stated_order", "integers_are_exact"),
        ),
        CLAIMS,
        strict=True,
    )
)

Given = tuple[float, Mapping[str, object]]
"""A figure, and facts."""


def given() -> dict[str, Given]:
    """Every arm, near what was measured: with these all claims hold but the one about 5 to 20."""
    arms: dict[str, Given] = {}
    for epsilon, figure in zip(STATED, CURVE, strict=True):
        facts = {"stated": float(epsilon), "unit": "a node", "radius": 1.0, "outside": "the radius"}
        arms[exact(epsilon)] = (figure, {**facts, "epsilon": float(epsilon), "noise_std": 10 / epsilon})
        arms[linear(epsilon)] = (
            figure - 0.02,
            {**facts, "epsilon": TRUE[epsilon], "noise_std": 25 / epsilon},
        )
    for epsilon, figure in zip(RECORD_EPSILONS, (0.4, 0.75, 0.88, 0.9), strict=True):
        arms[record(epsilon)] = (
            figure,
            {"stated": float(epsilon), "epsilon": float(epsilon), "unit": "a row"},
        )
    for peers, quiet, loud in zip(
        SWARM_SIZES, (0.97, 0.97, 0.955, 0.95, 0.93), (0.4, 0.6, 0.66, 0.8, 0.82), strict=True
    ):
        arms |= {sized("none", peers): (quiet, {}), sized("exact", peers): (loud, arms[exact(300)][1])}
    for cap, fixed in zip(CAPS, (0.93, 0.92, 0.72), strict=True):
        arms |= {capped(radius, cap): (0.94, {}) for radius in ("aggregate", "quantile")}
        arms[capped("raw", cap)] = (0.94, arms[exact(3000)][1])
        arms[capped("fixed", cap)] = (fixed, {"unit": "a node"})
    for power in POWERS:
        arms[floats(power)] = (4.4e-8 * 10**power, {"largest_error": 3e-7 * 10**power})
    arms["none"] = (0.955, {"protects": "the sum"})
    return {**arms, RING: (1.1e-9, {"largest_error": 1e-8}), SEED: (1.2e-9, {"largest_error": 1e-8})}


def sweep(changes: Mapping[str, Given] | None = None, only: tuple[str, ...] = ("*",)) -> Sweep:
    """A made-up sweep; figures spread over the seeds by up to 0.4 points, errors by 0.4 %.

    Changed arms vary with the seeds the other way, so differences from them do.
    """
    arms = {**given(), **(changes or {})}
    arms = {name: arms[name] for name in arms if any(fnmatchcase(name, pattern) for pattern in only)}
    cells = tuple(replace_rounds(cell) for cell in ARMS if cell.arm in arms)
    spreads = {arm: tuple(-off for off in SPREAD) for arm in changes or {}}
    outcomes = {
        cell.arm: tuple(outcomes_of(*arms[cell.arm], spreads.get(cell.arm, SPREAD))) for cell in cells
    }
    return Sweep(STUDY, SEEDS, cells, outcomes)


def replace_rounds(cell):
    return cell.lasting(2)


def outcomes_of(figure: float, facts: Mapping[str, object], spread: tuple[float, ...]) -> Iterator[Outcome]:
    for off in spread:
        last = figure * (1 + off) if figure < 0.05 else figure + off
        yield Outcome((last / 2, last), dict(facts), 1.0)  # type: ignore[arg-type]


def holds(
    claim: str, changes: Mapping[str, Given] | None = None, only: tuple[str, ...] = ("*",)
) -> bool | None:
    verdict = CLAIM[claim].judge(sweep(changes, only))
    return None if verdict is None else verdict.holds


def but(arm: str, figure: float | None = None, **facts: object) -> dict[str, Given]:
    """The arm with another figure or other facts."""
    before, those = given()[arm]
    return {arm: (before if figure is None else figure, {**those, **facts})}


# -- arms --------------------------------------------------------------------------------------------------


def test_every_arm_is_there_once() -> None:
    names = [arm.arm for arm in ARMS]
    assert len(names) == len(set(names))
    assert set(names) == set(given())


def test_the_arms_are_what_their_factors_say() -> None:
    named = {arm.arm: arm for arm in ARMS}
    swarms = [arm for arm in ARMS if not isinstance(arm.cell, ShareErrorCell)]
    for arm in swarms:
        privacy = arm.cell.task.privacy  # type: ignore[attr-defined]
        assert (privacy.mechanism, arm.cell.peers) == (arm.factors["mechanism"], arm.factors["peers"])  # type: ignore[attr-defined]
        assert privacy.epsilon == arm.factors.get("epsilon", privacy.epsilon)
        assert privacy.clipping_radius == arm.factors.get("clipping_radius", privacy.clipping_radius)
        assert privacy.calibration == arm.factors.get("calibration", privacy.calibration)
        assert (privacy.window_source or "fixed") == arm.factors.get("radius", "fixed")
    for epsilon in STATED:
        assert named[exact(epsilon)].factors == {**named[linear(epsilon)].factors, "calibration": "exact"}
        assert named[exact(epsilon)].factors["epsilon"] == epsilon
    assert [named[record(epsilon)].factors["epsilon"] for epsilon in RECORD_EPSILONS] == [*RECORD_EPSILONS]
    for peers in SWARM_SIZES:
        assert named[sized("none", peers)].factors == {"mechanism": "none", "peers": peers}
        assert named[sized("exact", peers)].factors == {**named[exact(300)].factors, "peers": peers}
    for cap in CAPS:
        made = [named[capped(radius, cap)].factors for radius in RADII]
        assert [(one["radius"], one["clipping_radius"], one["epsilon"]) for one in made] == [
            (radius, cap, 3000) for radius in RADII
        ]
    kinds = {arm.arm: arm.cell.of.task.aggregation for arm in ARMS if isinstance(arm.cell, ShareErrorCell)}
    assert [kinds[floats(power)].max_share_value for power in POWERS] == [10.0**power for power in POWERS]
    assert [kinds[arm].shares for arm in (floats(0), RING, SEED)] == ["float", "ring", "seed"]
    assert named[floats(3)].factors == {"shares": "float", "max_share_value": 1000}


def test_the_usual_arm_of_a_selection_comes_first() -> None:
    whole = sweep()
    assert [whole.first(where) for where in (NONE, EXACT, LINEAR, FIXED)] == [
        *("none", exact(1), linear(1), capped("fixed", 1)),
    ]


def test_the_table_of_everything_has_the_factors() -> None:
    names = sweep(only=(exact(20), floats(2), "none")).frame().column_names
    assert {"mechanism", "radius", "calibration", "epsilon", "peers", "shares", "max_share_value"} <= {*names}


def test_the_quick_form_has_arms_of_every_kind() -> None:
    for pattern in STUDY.quick.arms:
        assert any(fnmatchcase(cell.arm, pattern) for cell in ARMS), pattern
    quick = sweep(only=STUDY.quick.arms)
    assert {cell.arm for cell in quick.arms} == set(STUDY.quick.arms)
    assert len(judge(CLAIMS, quick)) >= 8


def test_an_arm_of_ones_own_takes_keys_of_privacy() -> None:
    mine = own("tests.own_mechanisms:Counting", {"epsilon": 3, "mechanism": "none"})
    assert (mine.arm, mine.peers, mine.task.privacy.epsilon) == ("own", 10, 3.0)
    assert mine.task.privacy.mechanism == "tests.own_mechanisms:Counting"
    assert own("ldp", {"epsilon": 3}).task.privacy.mechanism == "ldp"
    for path, parameters, said in (
        ("nowhere:Class", {}, "nowhere:Class"),
        ("fedadam", {}, r"privacy\.mechanism = 'fedadam' is refused"),
        ("tests.own_mechanisms:Counting", {"lambda": 3}, "privacy.lambda"),
    ):
        with pytest.raises(ConfigError, match=said):
            own(path, parameters)


# -- claims ------------------------------------------------------------------------------------------------


def test_with_what_was_measured_all_claims_hold_but_one() -> None:
    verdicts = {judged.name: judged.verdict for judged in judge(CLAIMS, sweep())}
    assert len(verdicts) == len(CLAIMS)
    failed = [name for name, verdict in verdicts.items() if not verdict.holds]
    assert failed == ["Epsilons from 5 to 20 give meaningful utility"]
    assert all(verdict.numbers for verdict in verdicts.values())


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("exact_is_no_worse", but(linear(50), 0.27)),
        ("exact_is_no_worse_anywhere", but(linear(50), 0.27)),
        ("exact_is_no_worse_anywhere", but(linear(1000), 0.99)),
        ("linear_wastes", but(linear(50), noise_std=0.19)),
        ("linear_overspends", but(linear(10_000), epsilon=9000.0)),
        ("linear_overspends", but(linear(1), epsilon=1.5)),
        ("linear_overspends", but(linear(5), epsilon=6.0)),
        ("exact_spends_its_budget", but(exact(20), epsilon=20.1)),
        ("exact_spends_its_budget", but(exact(20), epsilon=19.0)),
        ("rises_with_epsilon", but(exact(100), 0.2)),
        ("rises_with_epsilon", {exact(epsilon): (0.1, given()[exact(epsilon)][1]) for epsilon in STATED}),
        ("records_are_cheaper", but(record(5), 0.1)),
        ("more_peers_help", but(sized("exact", 30), 0.4)),
        ("adaptive_radius_helps", but(capped("fixed", 10), 0.94)),
        ("adaptive_radius_helps", but(capped("fixed", 3), 0.96)),
        ("error_grows_tenfold", but(floats(3), 4.4e-8 * 10**4)),
        ("error_grows_tenfold", but(floats(6), 4.4e-8 * 10**5)),
        ("error_is_of_stated_order", but(floats(6), 1.1)),
        ("error_is_of_stated_order", but(floats(0), 0.9e-8)),
        ("integers_are_exact", but(SEED, 4.5e-8)),
    ],
)
def test_a_claim_turns_out_false(claim: str, changes: dict[str, Given]) -> None:
    assert holds(claim) is True
    assert holds(claim, changes) is False


def test_a_useful_model_at_20_makes_the_documents_range_hold() -> None:
    assert holds("documented_range_is_useful", but(exact(20), 0.52)) is True
    assert holds("documented_range_is_useful", but(exact(20), 0.505)) is False
    assert holds("documented_range_is_useful", but(exact(50), 0.9)) is False, "50 is outside the range"


def test_only_large_epsilons_tell_whether_linear_classic_overspends() -> None:
    assert holds("linear_overspends", only=tuple(map(linear, STATED[:6]))) is None
    assert holds("linear_overspends", only=(linear(300), linear(1000))) is True


def test_within_a_margin_two_arms_are_equal() -> None:
    """The margin is .0199 here: 4.303 (t at .975 for 2 degrees of freedom) times .00462."""
    assert holds("exact_is_no_worse", but(linear(50), 0.269)) is True
    assert holds("exact_is_no_worse", but(linear(50), 0.271)) is False
    assert holds("adaptive_radius_helps", but(capped("fixed", 3), 0.959)) is True


@pytest.mark.parametrize("claim", list(CLAIM))
@pytest.mark.parametrize(
    "only", [("own",), ("none", RING), (exact(20),), (linear(300),), (sized("exact", 3),), (floats(2),)]
)
def test_a_run_without_its_arms_leaves_a_claim_out(claim: str, only: tuple[str, ...]) -> None:
    expected = True if (claim, only) in SUFFICES else None
    assert holds(claim, only=only) is expected


SUFFICES = {
    ("exact_spends_its_budget", (sized("exact", 3),)),
    ("exact_spends_its_budget", (exact(20),)),
    ("error_is_of_stated_order", (floats(2),)),
}


def test_real_nodes_do_not_tell_their_noise() -> None:
    nodes = {arm: (figure, {**facts, "noise_std": None}) for arm, (figure, facts) in given().items()}
    assert holds("linear_wastes", nodes) is None


def test_where_linear_classic_overspends_it_may_be_better() -> None:
    """It has less noise there than its epsilon allows: exact noise is not compared with that."""
    cheats = but(linear(1000), 0.99, noise_std=0.001)
    assert holds("exact_is_no_worse", cheats) is True
    assert holds("linear_wastes", cheats) is True
    verdict = CLAIM["exact_is_no_worse_anywhere"].judge(sweep(cheats))
    assert verdict is not None
    assert verdict.numbers["exact-1000 over linear-1000 in margins"] < -1


def test_swarms_of_one_size_say_nothing_of_sizes() -> None:
    """With --peers all arms have as many."""
    alike = sweep()
    alike = replace(alike, arms=tuple(cell.among(5) for cell in alike.arms))
    assert CLAIM["more_peers_help"].judge(alike) is None


# -- report ------------------------------------------------------------------------------------------------


def test_the_headline_has_what_was_run() -> None:
    assert headline(sweep()) == (
        "Local noise for whole data sets: test accuracy 95.5% without noise, 18.0% at epsilon 20, "
        "66.0% at epsilon 300, 94.0% at epsilon 3000. Float shares err by 4.4e-08 within 1, "
        "4.4e-02 within 1e+06."
    )
    assert (
        headline(sweep(only=("none",)))
        == "Local noise for whole data sets: test accuracy 95.5% without noise."
    )
    assert (
        headline(sweep(only=("shares-float-1e[02]",)))
        == "Float shares err by 4.4e-08 within 1, 4.4e-06 within 100."
    )
    assert headline(sweep(only=(record(5), RING))).startswith("0.75 with dp-sgd-5, the best of 2 arms")


def test_each_chart_has_its_lines_with_the_epsilons_and_sizes_that_were_run() -> None:
    drawn = {chart.key: {trace["name"]: trace for trace in chart.traces} for chart in charts(sweep())}
    assert list(drawn) == ["epsilon", "spent", "radius", "peers", "shares", "curves"]
    assert list(drawn["epsilon"]) == [
        *("aldp, exact", "linear-classic, by its proved epsilon", "linear-classic, by the epsilon it states"),
        *("dp-sgd, for one record", "no noise"),
    ]
    assert drawn["epsilon"]["aldp, exact"]["x"] == pytest.approx([*STATED])
    assert drawn["epsilon"]["aldp, exact"]["y"] == pytest.approx([*CURVE])
    assert drawn["epsilon"]["linear-classic, by its proved epsilon"]["y"] == pytest.approx(
        [figure - 0.02 for figure in CURVE]
    )
    assert drawn["epsilon"]["dp-sgd, for one record"]["y"] == pytest.approx(
        [given()[record(epsilon)][0] for epsilon in RECORD_EPSILONS]
    )
    assert drawn["epsilon"]["linear-classic, by its proved epsilon"]["x"] == pytest.approx(
        list(TRUE.values())
    )
    assert drawn["epsilon"]["linear-classic, by the epsilon it states"]["x"] == list(STATED)
    assert drawn["spent"]["linear-classic"]["y"] == pytest.approx(list(TRUE.values()))
    assert drawn["radius"]["fixed"]["y"] == pytest.approx([0.93, 0.92, 0.72])
    assert [trace["x"] for trace in drawn["peers"].values()] == [list(SWARM_SIZES)] * 2
    shares = drawn["shares"]
    assert shares["as the source states"]["y"] == pytest.approx([1e-7 * 10**power for power in POWERS])
    assert shares["float shares, largest error"]["y"] == pytest.approx([3e-7 * 10**power for power in POWERS])
    alike = sweep()
    alike = replace(alike, arms=tuple(arm.among(5) for arm in alike.arms))
    assert [chart.key for chart in charts(alike)] == ["epsilon", "spent", "radius", "shares", "curves"]


@pytest.mark.parametrize(
    ("only", "keys"),
    [
        (("none",), ["curves"]),
        (("none", sized("none", 3)), ["peers", "curves"]),
        ((capped("fixed", 1), capped("fixed", 3)), ["radius"]),
        ((RING,), []),
        ((floats(2), RING), []),
        ((floats(1), floats(2), RING), ["shares"]),
        ((linear(5),), []),
        ((linear(5), linear(10)), ["epsilon", "spent"]),
        (("own",), []),
    ],
)
def test_a_chart_without_arms_is_left_out(only: tuple[str, ...], keys: list[str]) -> None:
    assert [chart.key for chart in charts(sweep(only=only))] == keys


def test_errors_are_no_accuracies_in_the_tables() -> None:
    arms, errors, protected, outside = tables(sweep())
    assert not any("shares" in row[0] for row in arms.rows)
    assert errors.title == "Errors of shares (not accuracies)"
    assert errors.rows[2] == (floats(2), "float", "100", "4.4e-06", "3.0e-05", "1e-05")
    assert errors.rows[-1] == (SEED, "seed", "-", "1.2e-09", "1.0e-08", "-")
    assert ("none", "the sum", "nobody") in protected.rows
    assert ("aldp, exact", "the radius") in outside.rows
    assert ("ldp", "nothing that leaves a node") in outside.rows
    for table in (arms, errors, protected, outside):
        assert {len(row) for row in table.rows} == {len(table.headings)}
    assert [table.title for table in tables(sweep(only=(RING,)))] == ["Errors of shares (not accuracies)"]


def test_the_report_can_be_drawn() -> None:
    whole = sweep()
    ended = Ended("aldp", "DISCO", headline(whole), "", {"seed": 0}, "again", {}, "now", 1.0)
    html = render(ended, charts(whole), tables(whole), judge(CLAIMS, whole))
    assert "Accuracy over epsilon" in html
    assert "nan" not in json.dumps([chart.traces for chart in charts(whole)], allow_nan=False).lower()


def test_a_run_ends_with_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = "scenario.arms=none,linear-5,shares-float-1e2,shares-ring"
    small = ("model.args.sizes=[64,8,10]", "train.epochs=1", "train.batch_size=64")
    sets = [text for override in (chosen, *small) for text in ("--set", override)]
    line = ["run", "aldp", "--rounds", "2", "--peers", "3", "--set", "scenario.seeds=2", "--jobs", "1", *sets]
    assert main([*line, "--out", str(tmp_path / "out")]) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert set(result["arms"]) == {"none", "linear-5", "shares-float-1e2", "shares-ring"}
    ran = result["arms"]["linear-5"]["seeds"][1]
    assert (ran["seed"], ran["stated"], len(ran["figures"])) == (1, 5.0, 2)
    assert result["arms"]["linear-5"]["factors"] == {**LINEAR, "epsilon": 5, "clipping_radius": 1, "peers": 3}
    assert 0 < result["arms"]["shares-float-1e2"]["figure"] < 1e-4
    assert "Errors of shares (not accuracies)" in capsys.readouterr().out


def test_the_command_line_has_it() -> None:
    assert SCENARIOS["aldp"].name == "aldp"
    assert SCENARIOS["aldp"].load().engines == ("inline", "processes", "ray")
