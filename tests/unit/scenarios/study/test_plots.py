"""Charts by specification, and what a study shows that says nothing about it."""

import json
from dataclasses import replace

import pytest

from scenarios.study.plots import (
    Bars,
    Curve,
    Drawn,
    Level,
    Lines,
    Rounds,
    at_fact,
    specified,
    usual_charts,
    usual_headline,
)
from scenarios.study.tables import usual_tables
from tests.unit.scenarios.study.made_up import TWO, sweep


def test_a_line_for_each_combination_of_the_other_factors_or_of_a_selection():
    chart = Lines("epsilon").chart(sweep(TWO))
    ldp, sgd, none = chart.traces
    assert (ldp["name"], ldp["x"], ldp["y"]) == ("mechanism ldp", [1, 8], pytest.approx([0.3, 0.4]))
    assert (sgd["name"], sgd["y"]) == ("mechanism sgd", pytest.approx([0.302, 0.6]))
    assert (none["name"], none["x"], none["y"]) == ("none", [1, 8], pytest.approx([0.7, 0.7]))
    assert ldp["line"]["color"] != sgd["line"]["color"]
    assert ldp["error_y"]["array"] == pytest.approx([0.0248] * 2, rel=0.01)  # 4.30 * 0.01 / sqrt 3
    chart = Lines("epsilon", {"mechanism": "ldp"}).chart(sweep(TWO))
    assert [trace["name"] for trace in chart.traces] == ["mechanism ldp"]
    both = Lines("epsilon", {"mechanism": ["ldp", "none"]}, fact="lost").chart(sweep(TWO))
    assert [trace["name"] for trace in both.traces] == ["mechanism ldp", "none"]
    assert both.traces[0]["y"] == pytest.approx([0.7, 0.6])
    assert both.layout["yaxis"]["title"]["text"] == "lost"
    assert "type" not in Lines("epsilon").chart(sweep(TWO)).layout["xaxis"]
    wide = Lines("epsilon").chart(sweep({"ldp 1": 0.3, "ldp 100": 0.4})).layout["xaxis"]
    assert (wide["type"], wide["tickvals"]) == ("log", [1, 100])
    assert "type" not in Lines("epsilon").chart(sweep({"ldp 0": 0.3, "ldp 100": 0.4})).layout["xaxis"]
    assert "type" not in Lines("mechanism").chart(sweep(TWO)).layout["xaxis"]


LDP, SGD, NONE = {"mechanism": "ldp"}, {"mechanism": "sgd"}, {"mechanism": "none"}


def test_curves_have_names_places_and_styles_of_their_own():
    chart = Lines(
        "epsilon",
        key="mine",
        title=lambda sweep: f"{len(sweep.seeds)} seeds",
        curves=(
            Curve("local", LDP, x=at_fact("lost")),
            Curve("lost", SGD, "lost", dash="dot", ink=5, style={"line": {"width": 1}}),
            Curve("nowhere", {"mechanism": "rpfl"}),
            Curve("{mechanism}!".format_map, SGD, style=lambda sweep, arms: {"text": list(arms)}),
        ),
        levels=(
            Level("none", NONE),
            Level("half", 0.5, style={"line": {"dash": "dot"}}),
            Level("square", lambda x: x * x, at=(1, 2, 3)),
            Level("rpfl", {"mechanism": "rpfl"}),
            Drawn({"name": "theirs", "x": [1], "y": [2]}),
        ),
        x_title="cost",
        scale="log",
        look={"height": 300, "xaxis": {"range": [0, 1]}},
    ).chart(sweep(TWO))
    local, lost, named, none, half, square, theirs = chart.traces
    assert (chart.key, chart.title) == ("mine", "3 seeds")
    assert (local["x"], local["y"]) == (pytest.approx([0.6, 0.7]), pytest.approx([0.4, 0.3]))
    assert (lost["x"], lost["y"]) == ([1, 8], pytest.approx([0.698, 0.4]))
    assert lost["line"] == {"color": "var(--series-6)", "width": 1, "dash": "dot"}
    assert (named["name"], named["text"]) == ("sgd!", ["sgd 1", "sgd 8"])
    assert (none["x"], none["y"]) == ([pytest.approx(0.6), 8], pytest.approx([0.7, 0.7]))
    assert (half["y"], half["line"]["dash"]) == ([0.5, 0.5], "dot")
    assert (square["x"], square["y"]) == ([1, 2, 3], [1, 4, 9])
    assert theirs["name"] == "theirs"
    assert chart.layout["height"] == 300
    assert chart.layout["xaxis"] == {"title": {"text": "cost"}, "type": "log", "range": [0, 1]}


def test_single_points_and_bars_are_no_chart_unless_asked_for():
    assert Lines("epsilon", curves=(Curve("a", LDP, x="nothing"),)).chart(sweep(TWO)).traces == ()
    assert Lines("epsilon", curves=(Curve("a", LDP, "nothing"),)).chart(sweep(TWO)).traces == ()
    point = Curve("a", {**LDP, "epsilon": 8})
    assert Lines("epsilon", curves=(point,)).chart(sweep(TWO)).traces == ()
    both = Lines("epsilon", curves=(point, Curve("b", SGD))).chart(sweep(TWO))
    assert [trace["x"] for trace in both.traces] == [[8], [1, 8]]
    one = Curve("one", {"mechanism": "ldp", "epsilon": 8})
    assert Bars(curves=(one,)).chart(sweep(TWO)).traces == ()
    assert len(Bars(curves=(one, Curve("none", NONE))).chart(sweep(TWO)).traces) == 2
    one = sweep({"ldp 1": 0.3})
    assert Lines("epsilon", curves=(Curve("ldp"),)).chart(one).traces == ()
    assert len(Lines("epsilon", curves=(Curve("ldp"),), least=1).chart(one).traces) == 1
    chart = Lines("", curves=(Curve("all", x="lost"),)).chart(sweep(TWO))
    assert chart.traces[0]["x"] == pytest.approx([0.3, 0.4, 0.6, 0.698, 0.7])


def test_curves_by_round_are_the_first_arm_of_a_name_or_every_arm():
    chart = Rounds(
        key="mine",
        curves=(Curve("one", {"epsilon": 8}, ink=3), Curve("e {epsilon:g}".format_map, SGD, dash="dot")),
        levels=(Level("half", 0.5),),
        x_title="epoch",
    ).chart(sweep(TWO))
    assert [trace["name"] for trace in chart.traces] == ["one", "e 1", "e 8", "half"]
    assert chart.traces[0]["y"] == pytest.approx([0.0, 0.4])
    assert chart.traces[0]["line"] == {"color": "var(--series-4)", "width": 2.5}
    assert chart.traces[1]["line"]["dash"] == "dot"
    assert (chart.traces[3]["x"], chart.layout["xaxis"]["title"]["text"]) == ([1, 2], "epoch")


def test_bars_side_by_side_have_labels_of_factors_and_one_colour_a_name():
    chart = Bars(
        curves=(Curve("ldp", LDP), Curve("lost", SGD, "lost"), Curve("nobody", {"mechanism": "rpfl"})),
        levels=(Level("no noise", NONE),),
        label="ε {epsilon:g}".format_map,
        base=0.1,
    ).chart(sweep(TWO))
    ldp, lost, level = chart.traces
    assert (ldp["x"], ldp["y"], ldp["base"]) == (["ε 1", "ε 8"], pytest.approx([0.2, 0.3]), 0.1)
    assert (lost["y"], lost["marker"]["color"]) == (pytest.approx([0.598, 0.3]), "var(--series-2)")
    assert level["x"] == ["ε 1", "ε 8"]
    assert chart.layout["barmode"] == "group"
    chart = Bars(
        curves=(Curve("{mechanism}".format_map, {"epsilon": (1, 8)}),), label="{epsilon:g}".format_map
    )
    ldp, sgd = chart.chart(sweep(TWO)).traces
    assert (ldp["name"], sgd["name"], sgd["x"]) == ("ldp", "sgd", ["1", "8"])
    assert ldp["marker"] != sgd["marker"]


def test_what_is_not_known_is_not_drawn():
    """NaN is no JSON: a report with it could not be read."""
    whole = sweep(TWO)
    outcomes = {
        arm: tuple(replace(one, facts={}) for one in those) if arm in ("none", "sgd 8") else those
        for arm, those in whole.outcomes.items()
    }
    partly = replace(whole, outcomes=outcomes)
    over = Lines(
        "epsilon", fact="lost", curves=(Curve("a", LDP), Curve("b", SGD)), levels=(Level("c", NONE),)
    )
    for plot in (over, Lines("epsilon", fact="lost"), Bars(fact="lost")):
        traces = plot.chart(partly).traces
        json.dumps(traces, allow_nan=False)
        assert sum(len(trace["x"]) for trace in traces) == 3


def test_curves_and_bars():
    curves = Rounds({"epsilon": 8}).chart(sweep(TWO))
    assert [trace["name"] for trace in curves.traces] == ["ldp 8", "sgd 8"]
    assert curves.traces[0]["y"] == pytest.approx([0.0, 0.4])
    (bars,) = Bars().chart(sweep(TWO)).traces
    assert bars["x"] == list(TWO)
    assert len(Rounds().chart(sweep({f"a {n}": 0.1 for n in range(9)})).traces) == 8


def test_charts_without_arms_are_left_out_and_the_usual_are_lines_over_numeric_factors_else_bars():
    made = specified(Lines("clients"), Rounds({"epsilon": 3}), Bars({"epsilon": 3}), Bars())
    assert [chart.key for chart in made(sweep(TWO))] == ["bars-figure"]
    assert [chart.key for chart in usual_charts(sweep(TWO))] == ["over-epsilon-figure", "rounds"]
    assert [chart.key for chart in usual_charts(sweep({"ldp": 0.1, "sgd": 0.2}))] == ["bars-figure", "rounds"]


def named(figures, metric, seeds=3):
    """Returns made-up results whose figures are of a metric, with fewer seeds."""
    whole = sweep(figures)
    outcomes = {
        arm: tuple(replace(one, facts={**one.facts, "metric": metric}) for one in found[:seeds])
        for arm, found in whole.outcomes.items()
    }
    return replace(whole, seeds=whole.seeds[:seeds], outcomes=outcomes)


def test_the_figures_have_the_name_of_their_metric():
    made = named(TWO, "accuracy")
    lines, by_round = usual_charts(made)
    assert lines.title == "Test accuracy after the last round over epsilon"
    assert lines.layout["yaxis"]["title"]["text"] == "test accuracy after the last round"
    assert by_round.title == "Test accuracy by round"
    assert by_round.layout["yaxis"] == {"title": {"text": "test accuracy"}, "tickformat": "~%"}
    assert usual_tables(made)[0].headings[3] == "test accuracy"
    assert usual_headline(made).startswith("Test accuracy 0.7 with none")
    assert named(TWO, "r2").figure == "test R2"
    assert named(TWO, "something").figure == sweep(TWO).figure == "figure"


@pytest.mark.parametrize("plot", [Bars(), Lines("epsilon")], ids=["bars", "lines"])
def test_error_bars_end_where_the_metric_does(plot):
    found = {"ldp 1": 0.005, "ldp 8": 0.995}
    bars = plot.chart(named(found, "accuracy")).traces[0]["error_y"]
    assert bars["symmetric"] is False
    assert bars["array"] == pytest.approx([0.0248, 0.005], rel=0.01)
    assert bars["arrayminus"] == pytest.approx([0.005, 0.0248], rel=0.01)
    free = plot.chart(named(found, "r2")).traces[0]["error_y"]
    assert free["array"] == pytest.approx([0.0248] * 2, rel=0.01)
    assert "arrayminus" not in free


def test_two_seeds_are_said_to_be_few():
    few = " Two seeds are few: such an interval reaches 13 standard errors to each side."
    for plot in (Bars(), Lines("epsilon")):
        assert plot.chart(named(TWO, "accuracy", 2)).caption.endswith(few)
        assert few not in plot.chart(named(TWO, "accuracy")).caption
    assert Bars(caption="No bars.").chart(named(TWO, "accuracy", 2)).caption == "No bars."
    assert usual_headline(named(TWO, "accuracy", 2)).endswith("Means of 2 seeds, which are few.")


def test_the_usual_table_has_margins_and_the_headline_the_best_and_the_worst():
    (table,) = usual_tables(sweep(TWO))
    assert table.headings[:3] == ("arm", "mechanism", "epsilon")
    assert table.rows[0][:5] == ("ldp 1", "ldp", "1", "0.3", "0.025")
    assert table.rows[-1][:3] == ("none", "none", "")
    assert usual_headline(sweep(TWO)) == (
        "0.7 with none, the best of 5 arms; 0.3 with ldp 1, the worst. Means of 3 seeds."
    )
    assert usual_headline(sweep({"ldp 1": 0.25})) == "0.25 with ldp 1. Means of 3 seeds."
