import copy
import json

import pytest

from node.task.data_schema import ArraySchema, TableSchema
from node.task.load import read_task
from node.task.parameters import canonical_parameters, describe_difference
from tests.own_data import COLUMNS, IMAGES, TABLE, schema, task, told
from tests.unit.node.cases import cases


def changed(path="", value=None, table=TABLE):
    """Returns the table with another value at a dotted path; None takes the key away."""
    made = place = copy.deepcopy(table)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in way:
        place = place[part]
    place[last] = value
    if value is None:
        del place[last]
    return made


def test_a_schema_of_a_table_and_one_of_images():
    read = schema(TABLE)
    assert isinstance(read, TableSchema)
    assert [part.width for part in read.columns] == [2, 3, 1, 1]
    assert (read.shape, read.target.values) == ((7,), ("ill", "well"))
    images = schema(IMAGES)
    assert isinstance(images, ArraySchema)
    assert (images.kind, images.shape, images.mean, images.std) == ("images", (3, 8, 8), (0.5,), (0.25,))


@cases("""
    path => value => line
    kind => "list" => data.schema.kind = 'list' is refused; allowed: 'table', 'array' or 'images'
    colums => [] => 'data.schema.colums' is not a known key; allowed: kind, target, columns, dialect
    target => 5 => data.schema.target = 5 is refused; allowed: a table with a kind
    target.kind => "text" => data.schema.target.kind = 'text' is refused; allowed: 'classes' or 'number'
    target.name => null => data.schema.target.name is missing; allowed: the name of the target's column
    target.values => ["a"] => data.schema.target.values = ['a'] is refused; allowed: 2 to 10000 different
        texts of at most 200 characters
    target.values => ["a", "a"] => data.schema.target.values = ['a', 'a'] is refused; allowed: 2 to 10000
        different texts of at most 200 characters
    target.mean => 1 => 'data.schema.target.mean' is not a known key; allowed: kind, values, name, spellings
    columns => [] => data.schema.columns is refused; allowed: a list of 1 to 2000 tables
    columns => {} => data.schema.columns is refused; allowed: a list of 1 to 2000 tables
    columns.2.name => "age" => data.schema: the column 'age' occurs twice; name each once
    columns.0.name => "outcome" => data.schema: the column 'outcome' occurs twice; name each once
    columns => ["age"] => data.schema.columns.0 = 'age' is refused; allowed: a table with a kind
    columns.0.kind => "float" => data.schema.columns.0 ('age').kind = 'float' is refused; allowed: 'number' or
        'date' or 'time' or 'boolean' or 'category' or 'text' or 'embedding'
    columns.0.std => 0 => data.schema.columns.0 ('age').std = 0 is refused; allowed: a number above 0 and at
        most 1e+30
    columns.0.mean => null => data.schema.columns.0 ('age').mean is missing; allowed: a number at least -1e+30
        and at most 1e+30
    columns.0.missing => "yes" => data.schema.columns.0 ('age').missing = 'yes' is refused; allowed: true or
        false
    columns.1 => {"name": "note", "kind": "text", "width": 1} => data.schema.columns.1 ('note').width = 1 is
        refused; allowed: a whole number from 8 to 16384
    columns.1 => {"name": "note", "kind": "text", "width": 8, "encoder": "mine"} => data.schema.columns.1
        ('note').encoder = 'mine' is refused; allowed: 'hashed', or the 64 hex digits by which a sentence
        encoder is known
    columns.1.values => [1, 2] => data.schema.columns.1 ('ward').values = [1, 2] is refused; allowed: 1 to
        1000 different texts of at most 200 characters
    columns.0.name => "" => data.schema.columns.0 ('').name = '' is refused; allowed: a column's name, at most
        200 characters
""")
def test_what_is_wrong_with_a_schema_is_named(path, value, line):
    assert told(schema, changed(path, json.loads(value))) == line


@cases("""
    path => value => line
    shape => [2, 8, 8] => data.schema.shape = [2, 8, 8] is refused for images; allowed: [1, height, width] for
        grey or [3, height, width] for colour
    shape => [3, 8.5, 8] => data.schema.shape = [3.0, 8.5, 8.0] is refused; allowed: whole numbers, with at
        most 50000000 values a row
    shape => [3, 100000, 100000] => data.schema.shape = [3.0, 100000.0, 100000.0] is refused; allowed: whole
        numbers, with at most 50000000 values a row
    mean => [0.5, 0.5] => data.schema.mean has 2 numbers; allowed: 1, or 3 as the shape begins
    target => {"kind": "number", "mean": 0, "std": 1} => data.schema.target.kind = 'number' is refused for
        images; allowed: 'classes'
""")
def test_what_is_wrong_with_a_schema_of_images_is_named(path, value, line):
    assert told(schema, changed(path, json.loads(value), IMAGES)) == line
    assert told(schema, "no") == "data.schema = 'no' is refused; allowed: a table, as node.init writes it"


@pytest.mark.parametrize(("name", "value"), [("target", "y"), ("features", ["a"])])
def test_a_schema_alone_says_what_target_and_features_are(name, value):
    table = {"task": {"name": "t"}, "model": {"class": "a:B"}, "data": {"schema": TABLE, name: value}}
    assert told(read_task, table) == (
        f"data.{name} = {tuple(value) if name == 'features' else value!r} is refused beside "
        "data.schema, which says what target and features are; leave it out"
    )


def test_counts_begin_at_0():
    def of(mean, loss="poisson"):
        target = {"kind": "number", "name": "visits", "mean": mean, "std": 4.0}
        data, model = {"schema": {**TABLE, "target": target}}, {"class": "a:B"}
        return {"task": {"name": "t"}, "model": model, "data": data, "train": {"loss": loss}}

    assert read_task(of(0.0)).train.counts
    assert not read_task(of(2.5, "huber")).train.counts
    assert told(read_task, of(2.5)) == (
        "data.schema.target.mean = 2.5 is refused with train.loss = 'poisson': counts begin at 0; allowed: "
        "0, with std as their size, as node.init --target-kind count writes it"
    )


def test_the_schema_is_part_of_what_a_swarm_shares():
    mine = canonical_parameters(task(TABLE), [], 4.0)
    assert json.loads(mine)["data"]["schema"]["columns"][1]["values"] == ["east", "west"]
    for path, value in (
        ("columns.1.values", ["west", "east"]),
        ("columns.0.missing", False),
        ("columns", COLUMNS[::-1]),
        ("target.values", ["well", "ill"]),
    ):
        assert canonical_parameters(task(changed(path, value)), [], 4.0) != mine
    other = canonical_parameters(task(changed("columns.0.mean", 40)), [], 4.0)
    assert describe_difference(mine, other) == "data.schema.columns.0.mean is 50.0 here and 40.0 there"


def test_a_long_schema_is_told_as_its_digest():
    def written(last):
        values = [f"category number {place}" for place in range(999)] + [last]
        return canonical_parameters(task(changed("columns.1.values", values)), [], 4.0)

    told_of = json.loads(written("a"))["data"]["schema"]
    assert set(told_of) == {"kind", "sha256"}
    assert len(written("a")) < 4000
    assert written("a") == written("a") != written("b")
