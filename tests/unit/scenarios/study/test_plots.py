"""Charts by specification, and what a study shows that says nothing about it."""

import pytest

from scenarios.study.plots import Bars, Lines, Rounds, specified, usual_charts, usual_headline, usual_tables
from tests.unit.scenarios.study.made_up import TWO, sweep


def test_a_line_for_each_combination_of_the_other_factors():
    chart = Lines("epsilon").chart(sweep(TWO))
    ldp, sgd, none = chart.traces
    assert (ldp["name"], ldp["x"], ldp["y"]) == ("mechanism ldp", [1, 8], pytest.approx([0.3, 0.4]))
    assert (sgd["name"], sgd["y"]) == ("mechanism sgd", pytest.approx([0.302, 0.6]))
    assert (none["name"], none["x"], none["y"]) == ("none", [1, 8], pytest.approx([0.7, 0.7]))
    assert ldp["line"]["color"] != sgd["line"]["color"]
    assert ldp["error_y"]["array"] == pytest.approx([0.0248] * 2, rel=0.01)  # 4.30 * 0.01 / sqrt 3


def test_an_axis_over_wide_values_is_logarithmic():
    assert "type" not in Lines("epsilon").chart(sweep(TWO)).layout["xaxis"]
    wide = Lines("epsilon").chart(sweep({"ldp 1": 0.3, "ldp 100": 0.4})).layout["xaxis"]
    assert (wide["type"], wide["tickvals"]) == ("log", [1, 100])
    assert "type" not in Lines("epsilon").chart(sweep({"ldp 0": 0.3, "ldp 100": 0.4})).layout["xaxis"]
    assert "type" not in Lines("mechanism").chart(sweep(TWO)).layout["xaxis"]


def test_a_selection_leaves_out_other_lines_and_references():
    chart = Lines("epsilon", {"mechanism": "ldp"}).chart(sweep(TWO))
    assert [trace["name"] for trace in chart.traces] == ["mechanism ldp"]
    both = Lines("epsilon", {"mechanism": ["ldp", "none"]}, fact="lost").chart(sweep(TWO))
    assert [trace["name"] for trace in both.traces] == ["mechanism ldp", "none"]
    assert both.traces[0]["y"] == pytest.approx([0.7, 0.6])
    assert both.layout["yaxis"]["title"]["text"] == "lost"


def test_curves_and_bars():
    curves = Rounds({"epsilon": 8}).chart(sweep(TWO))
    assert [trace["name"] for trace in curves.traces] == ["ldp 8", "sgd 8"]
    assert curves.traces[0]["y"] == pytest.approx([0.0, 0.4])
    (bars,) = Bars().chart(sweep(TWO)).traces
    assert bars["x"] == list(TWO)
    assert len(Rounds().chart(sweep({f"a {n}": 0.1 for n in range(9)})).traces) == 8


def test_charts_without_arms_are_left_out():
    made = specified(Lines("clients"), Rounds({"epsilon": 3}), Bars({"epsilon": 3}), Bars())
    assert [chart.key for chart in made(sweep(TWO))] == ["bars-figure"]


def test_the_usual_charts_are_lines_over_numeric_factors_else_bars():
    assert [chart.key for chart in usual_charts(sweep(TWO))] == ["over-epsilon-figure", "rounds"]
    assert [chart.key for chart in usual_charts(sweep({"ldp": 0.1, "sgd": 0.2}))] == ["bars-figure", "rounds"]


def test_the_usual_table_has_factors_and_margins():
    (table,) = usual_tables(sweep(TWO))
    assert table.headings[:3] == ("arm", "mechanism", "epsilon")
    assert table.rows[0][:5] == ("ldp 1", "ldp", "1", "0.3", "0.025")
    assert table.rows[-1][:3] == ("none", "none", "")


def test_the_usual_headline_names_the_best_and_the_worst():
    assert usual_headline(sweep(TWO)) == (
        "0.7 with none, the best of 5 arms; 0.3 with ldp 1, the worst. Means of 3 seeds."
    )
    assert usual_headline(sweep({"ldp 1": 0.25})) == "0.25 with ldp 1. Means of 3 seeds."
