"""A task line by line: what is marked, what may be replaced, and what follows from it."""

import tomllib

import pytest

from node.desk.task_lines import Value, lines_of, replaced
from node.init.task_file import MARK
from node.system.errors import ConfigError
from node.task.load import read_task

TASK = f"""\
# BEFORE YOU SHARE IT: lines with the mark
#   {MARK}
[task]
name = "ward"

[model]
class = "node.models:Linear"
args = {{ inputs = 4, outputs = 2 }}    # 12 parameters

[train]
rounds = 3
expected_rows = 1000    {MARK}: rows, to one digit

[privacy]
mechanism = "none"
# A step's noise is 0.31 times what one row can move it.    {MARK}: rows

[data.schema]
kind = "table"
target = {{ name = "outcome", kind = "classes", values = ["alive", "died"] }}    {MARK}
columns = [    {MARK}: all names below, and what is marked
  {{ name = "age", kind = "number", mean = 60.0, std = 17.0 }},    {MARK}: mean, std
  {{ name = "icd", kind = "category", values = ["A41", "I21"] }},    {MARK}: values
]
""".replace(f"expected_rows = 1000    {MARK}: rows, to one digit\n", "")


def line(text: str, part: str):
    (found,) = [one for one in lines_of(text) if part in one.text and one.marked]
    return found


def change(text: str, part: str, **values: str) -> str:
    found = line(text, part)
    return replaced(text, found.number, found.text, values)


def test_marked_lines_say_what_they_tell():
    marked = [one for one in lines_of(TASK) if one.marked]
    assert [one.says for one in marked] == [
        "A step's noise is 0.31 times what one row can move it.",
        "outcome: values alive, died",
        "columns: all names below, and what is marked",
        "age: mean 60.0, std 17.0",
        "icd: values A41, I21",
    ]
    assert [one.removable for one in marked] == [True, False, False, False, False]
    assert marked[3].values == (Value("mean", "60.0", False), Value("std", "17.0", False))
    assert marked[4].values == (Value("values", "A41\nI21", True),)
    assert [one.text for one in lines_of(TASK)] == TASK.splitlines()
    assert line(f"expected_rows = 1000    {MARK}: rows", "rows").says == "expected_rows: expected_rows 1000"


def test_a_replaced_line_has_its_new_values_and_no_mark():
    changed = change(TASK, '"age"', mean="50", std="20.5")
    assert '  { name = "age", kind = "number", mean = 50.0, std = 20.5 },\n' in changed
    assert changed.count(MARK) == TASK.count(MARK) - 1
    schema = read_task(tomllib.loads(changed)).data.schema
    assert (schema.columns[0].mean, schema.columns[0].std) == (50.0, 20.5)


def test_the_model_follows_another_number_of_values():
    changed = change(TASK, '"icd"', values="A41\n I21 \n\nJ18")
    assert 'values = ["A41", "I21", "J18"]' in changed
    task = read_task(tomllib.loads(changed))
    assert task.model.args == {"inputs": task.data.schema.shape[0], "outputs": 2}
    assert change(TASK, '"icd"', values="A41\nI22").count("inputs = 4, outputs = 2 }    # 12") == 1
    more = read_task(tomllib.loads(change(TASK, '"outcome"', values="alive\ndied\nmoved")))
    assert more.model.args["outputs"] == 3
    layered = TASK.replace(":Linear", ":MLP").replace("inputs = 4, outputs = 2", "sizes = [4, 32, 2]")
    width = read_task(tomllib.loads(changed)).data.schema.shape[0]
    followed = read_task(tomllib.loads(change(layered, '"icd"', values="A41\nI21\nJ18")))
    assert followed.model.args == {"sizes": [width, 32, 2]}


def test_a_model_without_arguments_follows_by_itself():
    additive = TASK.replace(":Linear", ":Additive")
    for line_ in ("args = { inputs = 4, outputs = 2 }    # 12 parameters\n", "rounds = 3\n"):
        additive = additive.replace(line_, "")
    task = read_task(tomllib.loads(change(additive, '"icd"', values="A41\nI21\nJ18")))
    assert task.model.args["columns"] == [["number", 1], ["category", 4]]


def test_another_model_does_not_follow():
    own = TASK.replace("node.models:Linear", "mine:Own")
    with pytest.raises(ConfigError, match="which the model mine:Own does not follow"):
        change(own, '"icd"', values="A41\nI21\nJ18")


def test_a_comment_is_removed_and_nothing_else_is():
    found = line(TASK, "step's noise")
    assert replaced(TASK, found.number, found.text, None).count(MARK) == TASK.count(MARK) - 1
    for part in ('"age"', "columns = ["):
        found = line(TASK, part)
        with pytest.raises(ConfigError, match="is needed"):
            replaced(TASK, found.number, found.text, None)


@pytest.mark.parametrize(
    ("part", "values", "told"),
    [
        ('"age"', {"mean": "old"}, "mean 'old' is refused; allowed: a number"),
        ('"age"', {"std": "-1"}, "std"),
        ('"age"', {"name": "sex"}, "'name' is no value of this line"),
        ('"age"', {"low": "1"}, "'low' is no value of this line"),
        ('"outcome"', {"values": "alive"}, "values"),
        ('"icd"', {"values": ""}, "values"),
        ("columns = [", {"columns": ""}, "has no value to replace"),
    ],
)
def test_what_would_be_no_task_is_refused(part, values, told):
    with pytest.raises(ConfigError) as error:
        change(TASK, part, **values)
    assert told in str(error.value)


def test_text_stays_text():
    changed = change(TASK, '"icd"', values='A"\\41\n# no comment')
    assert read_task(tomllib.loads(changed)).data.schema.columns[1].values == ('A"\\41', "# no comment")


@pytest.mark.parametrize("number", [0, 1, 99])
def test_a_file_that_has_changed_is_not_touched(number):
    with pytest.raises(ConfigError, match="has changed since it was shown"):
        replaced(TASK, number, "rounds = 3", None)


def test_a_file_that_is_no_toml_is_told():
    with pytest.raises(ConfigError, match="no TOML"):
        change(TASK.replace("rounds = 3", "rounds ="), '"age"', mean="50")
