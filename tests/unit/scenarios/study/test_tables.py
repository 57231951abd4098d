"""Tables by specification: rows of arms, and grids of selections."""

from scenarios.study.tables import (
    Grid,
    Rows,
    arms_rows,
    error,
    factor,
    mean,
    number,
    protection_rows,
    share,
    tabled,
    words,
)
from tests.unit.scenarios.study.made_up import TWO, sweep

LDP, SGD, NONE = {"mechanism": "ldp"}, {"mechanism": "sgd"}, {"mechanism": "none"}


def test_a_row_for_each_arm_of_a_selection():
    columns = {
        "epsilon": factor("epsilon", "-"),
        "accuracy": share(),
        "lost": mean("lost", ".1f", 100),
        "of one": mean("nothing"),
        "error": error(),
        "first": number("nothing", "lost"),
        "none": number("nothing"),
        "words": words("nothing", "nobody"),
    }
    table = Rows("Mine", columns, {"mechanism": ["ldp", "none"]}).table(sweep(TWO))
    assert table.headings == ("arm", *columns)
    assert table.rows[0] == ("ldp 1", "1", "30.0% ± 0.6", "70.0", "", "0.006", "0.7", "none", "nobody")
    assert table.rows[2][:3] == ("none", "-", "70.0% ± 0.6")


def test_rows_with_names_have_the_first_arm_of_each_selection():
    rows = Rows(
        lambda sweep: f"{len(sweep.seeds)} seeds",
        {"e": factor("epsilon")},
        names={"local": LDP, "rpfl": {"mechanism": "rpfl"}, "records": SGD},
        only=lambda sweep, arm: sweep.mean(arm) > 0.3001,
        heading="kind",
    ).table(sweep(TWO))
    assert (rows.title, rows.headings, rows.rows) == ("3 seeds", ("kind", "e"), (("records", "1"),))


def test_a_grid_leaves_out_rows_and_columns_without_arms():
    by_epsilon = {f"epsilon {epsilon}": {"epsilon": epsilon} for epsilon in (1, 3, 8)}
    grid = Grid("Mine", "mechanism", {"local": LDP, "rpfl": {"mechanism": "rpfl"}}, by_epsilon, mean())
    table = grid.table(sweep({**TWO, "ldp 8": 0.45}))
    assert table.headings == ("mechanism", "epsilon 1", "epsilon 8")
    assert table.rows == (("local", "0.300", "0.450"),)
    cells = {"lost": mean("lost"), "kept": mean()}
    both = Grid("", "", {"local": LDP}, {"lost": {"epsilon": 1}, "kept": {"epsilon": 1}}, cells)
    assert both.table(sweep(TWO)).rows == (("local", "0.700", "0.300"),)


def test_tables_without_rows_are_left_out():
    kinds = {"local": LDP, "rpfl": {"mechanism": "rpfl"}}
    made = tabled(arms_rows({"mechanism": "rpfl"}), arms_rows(LDP, "Local"), protection_rows(kinds))
    arms, protected = made(sweep(TWO))
    assert (arms.title, arms.rows[0]) == (
        "Local",
        ("ldp 1", "30.0%", "0.6%", "none", "none", "none", "1.0"),
    )
    assert protected.rows == (("local", "", "nobody"),)
