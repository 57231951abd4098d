"""A task in sentences, and a file that is none in one line."""

import pytest

from node.desk.task_lines import MOST_BYTES
from node.desk.views import task_text, task_view
from node.system.errors import ConfigError

HEAD = '[task]\nname = "ward"\n[model]\nclass = "node.models:Linear"\nargs = { inputs = 3, outputs = 2 }\n'
TABLE = """
[data.schema]
kind = "table"
target = { name = "outcome", kind = "classes", values = ["a", "b", "c", "d", "e", "f", "g"] }
columns = [ { name = "age", kind = "number", mean = 60.0, std = 17.0 } ]
"""
IMAGES = """
[data.schema]
kind = "images"
target = { kind = "classes", values = ["ill", "well"] }
shape = [1, 8, 8]
mean = [0.5]
std = [0.25]
"""
SHARED = '[train]\nexpected_rows = 3000\n[privacy]\nmechanism = "distributed-dp-sgd"\nepsilon = 3.0\n'


def sentences(text: str) -> dict[str, str]:
    return {one["term"]: one["text"] for one in task_view("w.toml", text)["sentences"]}


def test_what_is_learned_and_from_what():
    told = sentences(HEAD + TABLE)
    assert told["Learns"] == "outcome (a, b, c, d, e and 2 more) from 1 column"
    assert told["Model"] == "a linear model"
    assert told["Rounds"].startswith("20: ")
    assert sentences(HEAD + IMAGES)["Learns"] == "the class (ill, well) from images, 1 x 8 x 8"
    assert sentences(HEAD)["Learns"] == "what the task's own data say"
    own = sentences(HEAD.replace("node.models:Linear", "mine:Net"))
    assert own["Model"] == "mine:Net"


def test_what_exact_sums_open_stands_in_place_of_rounds():
    told = sentences('[task]\nname = "ward"\n[model]\nclass = "node.models:Additive"\n' + TABLE)
    assert told["Opened"].startswith("each member's computer sees exact totals of every pair of columns, ")
    assert told["Members"] == "the same in all sums; the run ends with a member that is gone for good"
    assert "Rounds" not in told
    assert told["Privacy"].startswith("none: sums hide each member's numbers")


@pytest.mark.parametrize(
    ("privacy", "told"),
    [
        ("", "none: sums hide single updates"),
        (
            '[privacy]\nmechanism = "dp-sgd"\nepsilon = 2.5\n',
            "epsilon 2.5 bounds what anybody can tell about",
        ),
        ('[privacy]\nmechanism = "dp-sgd"\n', "any one row of yours over all rounds, whatever the others do"),
        ('[privacy]\nmechanism = "ldp"\n', "any one member over all rounds"),
        (f"{SHARED}honest = 1\n", "as long as at least 1 other member adds noise and tells nobody"),
        (f"{SHARED}honest = 2\n", "as long as at least 2 other members add noise and tell nobody"),
    ],
    ids=["none", "epsilon", "row", "member", "one", "two"],
)
def test_what_protects_the_rows(privacy, told):
    assert told in sentences(HEAD + privacy)["Privacy"]


def test_what_is_no_task_is_one_line(tmp_path):
    for text, told in (("[task", "is no TOML"), ("[task]\n", "task.name"), (HEAD + "[other]\n", "other")):
        with pytest.raises(ConfigError) as error:
            task_view("w.toml", text)
        assert told in str(error.value)
    for name, content in (("big.toml", b"#" * (MOST_BYTES + 1)), ("odd.toml", b"\xff")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=rf"task '{name[:3]}\.toml'"):
            task_text(tmp_path / name)
    with pytest.raises(ConfigError, match="cannot be read"):
        task_text(tmp_path / "gone.toml")


def test_a_task_for_statistics_alone_says_what_it_computes():
    told = sentences('task = { name = "w" }\n[statistics]\n')
    assert list(told) == ["Computes", "Rows", "Privacy"]
    assert told["Computes"] == "table one"
    assert "sees exact totals" in told["Privacy"]
    survival = '{ time = "days", event = "died", by = "arm", grid = 7, cox = ["age", "sex"] }'
    model = '{ formula = "died ~ age", family = "binomial" }'
    asked = f'by = "arm"\ntables = [["sex", "died"]]\nmodels = [{model}]\nsurvival = [{survival}]\n'
    told = sentences(f'task = {{ name = "w" }}\n[statistics]\n{asked}')
    assert list(told.values())[:4] == [
        "table one by arm",
        "sex and died",
        "died ~ age (binomial)",
        "died after days by arm, in steps of 7, with a Cox model of age, sex",
    ]
