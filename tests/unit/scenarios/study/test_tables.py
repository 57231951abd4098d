"""Tables by specification: rows of arms, and grids of selections."""

from scenarios.study import tables
from tests.unit.scenarios.study.made_up import TWO, sweep

LDP, SGD, NONE = {"mechanism": "ldp"}, {"mechanism": "sgd"}, {"mechanism": "none"}


def test_a_row_for_each_arm_of_a_selection():
    columns = {
        "epsilon": tables.factor("epsilon", "-"),
        "accuracy": tables.share(),
        "lost": tables.mean("lost", ".1f", 100),
        "of one": tables.mean("nothing"),
        "error": tables.error(),
        "first": tables.number("nothing", "lost"),
        "none": tables.number("nothing"),
        "words": tables.words("nothing", "nobody"),
    }
    table = tables.ArmTable("Mine", columns, {"mechanism": ["ldp", "none"]}).table(sweep(TWO))
    assert table.headings == ("arm", *columns)
    assert table.rows[0] == ("ldp 1", "1", "30.0% ± 0.6", "70.0", "", "0.006", "0.7", "none", "nobody")
    assert table.rows[2][:3] == ("none", "-", "70.0% ± 0.6")


def test_rows_with_names_have_the_first_arm_of_each_selection():
    rows = tables.ArmTable(
        lambda sweep: f"{len(sweep.seeds)} seeds",
        {"e": tables.factor("epsilon")},
        names={"local": LDP, "rpfl": {"mechanism": "rpfl"}, "records": SGD},
        only=lambda sweep, arm: sweep.mean(arm) > 0.3001,
        heading="kind",
    ).table(sweep(TWO))
    assert (rows.title, rows.headings, rows.rows) == ("3 seeds", ("kind", "e"), (("records", "1"),))


def test_a_grid_leaves_out_rows_and_columns_and_a_study_tables_without_arms():
    by_epsilon = {f"epsilon {epsilon}": {"epsilon": epsilon} for epsilon in (1, 3, 8)}
    grid = tables.Grid(
        "Mine", "mechanism", {"local": LDP, "rpfl": {"mechanism": "rpfl"}}, by_epsilon, tables.mean()
    )
    table = grid.table(sweep({**TWO, "ldp 8": 0.45}))
    assert table.headings == ("mechanism", "epsilon 1", "epsilon 8")
    assert table.rows == (("local", "0.300", "0.450"),)
    cells = {"lost": tables.mean("lost"), "kept": tables.mean()}
    both = tables.Grid("", "", {"local": LDP}, {"lost": {"epsilon": 1}, "kept": {"epsilon": 1}}, cells)
    assert both.table(sweep(TWO)).rows == (("local", "0.700", "0.300"),)
    kinds = {"local": LDP, "rpfl": {"mechanism": "rpfl"}}
    made = tables.tabled(
        tables.arms_rows({"mechanism": "rpfl"}), tables.arms_rows(LDP, "Local"), tables.protection_rows(kinds)
    )
    arms, protected = made(sweep(TWO))
    assert (arms.title, arms.rows[0]) == ("Local", ("ldp 1", "30.0%", "0.6%", "none", "none", "none", "1.0"))
    assert protected.rows == (("local", "", "nobody"),)
