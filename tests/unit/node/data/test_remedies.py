"""The lines about a missing column or an unknown class name every remedy, and who has to act."""

from node.data.remedies import other_class, without_columns


def test_a_missing_column_can_be_renamed_added_or_left_out_by_all():
    assert without_columns(["age"], ["id", "ward"]) == (
        " has no column 'age', which the task's schema asks for; it has 'id, ward'; rename a column, or add "
        "it (empty cells are missing values), or learn without it: all run node.agree with "
        "--leave-out-missing, or node.init with --leave-out 'age' makes a new file for all"
    )


def test_several_missing_columns_are_named_at_once():
    told = without_columns(["age", "sex"], ["id"])
    assert told.startswith(" has no columns 'age, sex', which the task's schema asks for; it has 'id'; ")
    assert "or add them (" in told
    assert "with --leave-out for each makes" in told


def test_the_line_stays_short_however_much_is_missing():
    assert len(without_columns([f"c{number}" for number in range(999)], ["id"] * 999)) < 400


def test_an_unknown_class_can_be_mended_left_out_or_learned_by_all():
    assert other_class(("ill", "well")) == (
        "is no class of the task; allowed: 'ill, well'; mend it, or leave its rows out, or learn it: all run "
        "node.agree with --also-class and its name, or whoever wrote the task adds it to "
        "data.schema.target.values, gives the model one more output in model.args, and sends all the file"
    )
