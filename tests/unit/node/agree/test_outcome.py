"""From totals to a task: against numpy over all rows; what noise hides; the rest of the budget."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from node.agree.outcome import Totals, agreed, totals
from node.agree.survey import survey
from node.agree.task_file import agreed_text
from node.agree.width import with_classes
from node.system.errors import UserError
from node.task.load import read_task
from node.task.scaling import Range, by_range, by_rows, rounded_scale
from protocol.wire.messages import Base
from tests.own_data import schema
from tests.unit.node.agree.test_survey import CLASSES, COLUMNS, HEADER, NUMBER, TABLE, UNIT, row_text

BASE = Base(1, bytes(range(32)), 3, bytes(32))


def draft(table=TABLE, **sections):
    columns = schema(table).shape[0]
    model = {"class": "node.models:MLP", "args": {"sizes": [columns, 4, 2]}}
    return read_task({"task": {"name": "t"}, "model": model, "data": {"schema": table}, **sections})


def peers_rows(rng, count):
    wards = rng.choice(["east", "west", "north", "x"], count, p=[0.6, 0.3, 0.02, 0.08])
    ages = np.where(rng.random(count) < 0.1, -1, rng.integers(18, 90, count))
    return [
        row_text(None if age < 0 else int(age), str(ward), True, int(day))
        for age, ward, day in zip(ages, wards, rng.integers(1, 11, count), strict=True)
    ]


def summed(folder, rows, table=TABLE):
    path = folder / "rows.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return survey(path, schema(table), UNIT, 10_000) * UNIT


def of_column(*places):
    """Returns a table of so many of the columns."""
    return {**TABLE, "columns": COLUMNS[slice(*places)]}


def named(task):
    return {column.name: column for column in task.data.schema.columns}


def test_what_all_peers_rows_have_in_common_is_what_numpy_says_of_them_together(tmp_path):
    rng = np.random.default_rng(5)
    rows = [peers_rows(rng, count) for count in (300, 50, 120)]
    found = totals(np.sum([summed(tmp_path, part) for part in rows], axis=0), 3, 0.0, UNIT)
    assert found.sums[0] == 470
    task = agreed(draft(), found).task
    ages = [float(age) for part in rows for row in part if (age := row.split(",")[0])]
    days = [int(row.split(",")[3][-2:]) - 1 for part in rows for row in part]
    columns = named(task)
    assert (columns["age"].mean, columns["age"].std) == rounded_scale(np.mean(ages), np.std(ages))
    assert (columns["seen"].mean, columns["seen"].std) == rounded_scale(np.mean(days), np.std(days))
    assert columns["age"].missing
    assert not columns["seen"].missing
    assert not columns["smoker"].missing
    assert columns["ward"].values == ("east", "west"), "nine of the north are fewer than ten"
    assert task.model.args["sizes"] == [task.data.schema.shape[0], 4, 2]
    assert columns["ward"].width + columns["age"].width == 3 + 2


def test_how_cells_are_written_stays_as_the_task_says(tmp_path):
    """Sums over German cells are those over plain ones, and the agreed schema still reads German cells."""
    rows = ["25,east,yes,1970-01-06,ill", ",west,no,1970-01-03,well"]
    german = ["25,east,ja,06.01.1970,ill", "k.A.,west,nein,03.01.1970,well"]
    dialect = {"decimal": "comma", "dates": "day-first", "missing": ["k.A."]}
    columns = [{**COLUMNS[0], "decimal": "point"}, *COLUMNS[1:]]
    written = {**TABLE, "columns": columns, "dialect": dialect}
    sums = summed(tmp_path, german, written)
    assert sums.tolist() == summed(tmp_path, rows).tolist()
    found = totals(sums, 1, 0.0, UNIT)
    agreed_schema = agreed(draft(written), found).task.data.schema
    assert agreed_schema.dialect == schema(written).dialect
    assert agreed_schema.columns[0].decimal == "point"


def totals_of(values, doubt=0.01, classes=None):
    """The totals of these values, and after them the rows of each class: by default half of all each."""
    return Totals(np.array([*values, *(classes or [values[0] / 2] * 2)], np.float64), doubt, 3)


def test_noise_and_rounding_add_up_to_the_doubt():
    noised, exact = (totals(np.array([1200.0]), 4, std, 2.0**-10) for std in (30.0, 0.0))
    assert noised.doubt == pytest.approx(60.0, rel=1e-6), "noise of four peers, which are independent"
    assert exact.doubt == 10 * 2.0**-10


def test_a_column_that_the_noise_hides_keeps_its_range():
    task = draft(of_column(1))
    found = agreed(task, totals_of([1000, 100, 50, 30], 30.0))
    assert "from its range alone: too few rows for the precision of the sums" in found.entries[1].remark
    for totals_ in (totals_of([1000, 100, 50, 30], 30.0), totals_of([1, 0, 0, 0])):
        age = named(agreed(task, totals_).task)["age"]
        assert (age.mean, age.std) == Range(0.0, 100.0).scale


def test_sums_that_the_noise_drowns_change_no_scale_no_list_and_no_loss():
    """So a task with an agreement learns no worse than one without, but for the share of epsilon."""
    task = draft(of_column(2), train={"loss": "auto"})
    sums = [1616, 300, 50, 30, 40, 20, 10][: 1 + 3 + len(COLUMNS[1]["values"])]
    found = agreed(task, totals_of(sums, 1300.0, classes=[1600, 16]))
    assert found.task.data.schema == task.data.schema
    assert (found.task.train.loss, found.task.model) == ("auto", task.model)
    assert found.entries[0].remark == (
        "about 1,616, give or take 1,300, of 3 peers: too few for this noise, all stays as it was"
    )
    heard = agreed(task, totals_of(sums, 13.0, classes=[1600, 16]))
    assert heard.task.data.schema != task.data.schema
    assert heard.task.train.loss != "auto"


def test_a_spread_that_is_not_seen_is_not_taken_for_nothing():
    """Squares less than the square of the mean, as noise may have it, is no spread at all."""
    table = of_column(1)
    found = agreed(draft(table), totals_of([1000, 1000, 500, 240], 4.0))
    age = named(found.task)["age"]
    assert (age.mean, age.std) == rounded_scale(75.0, 50 * (4.0 / 1000) ** 0.5)
    words = "its spread is too small for the precision of the sums: narrow the range"
    assert words in found.entries[1].remark
    beyond = named(agreed(draft(table), totals_of([1000, 1000, 1400, 1900], 4.0)).task)["age"]
    assert (beyond.mean, beyond.std) == rounded_scale(100.0, 50 * 0.9**0.5), "noise leads out of the range"


def test_categories_that_drown_in_the_noise_are_other_and_none_left_keeps_the_list():
    table = of_column(1, 2)
    few = agreed(draft(table), totals_of([1000, 900, 40, 60], 50.0))
    assert named(few.task)["ward"].values == ("east", "north")
    assert few.entries[1].remark == "1 value with fewer than 50 rows count as other"
    none = agreed(draft(table), totals_of([1000, 9, 9, 9]))
    assert named(none.task)["ward"].values == ("east", "west", "north")
    assert none.entries[1].remark == "kept: none is seen 10 times"


@pytest.mark.parametrize(
    ("there", "doubt", "missing"),
    [(990, 0.01, True), (1000, 0.01, False), (960, 10.0, False), (940, 10.0, True)],
)
def test_a_column_has_missing_values_where_the_sums_say_so(there, doubt, missing):
    table = of_column(2, 3)
    found = agreed(draft(table), totals_of([1000, there], doubt)).task
    assert named(found)["smoker"].missing is missing
    marked = {**TABLE, "columns": [{**COLUMNS[2], "missing": True}]}
    assert named(agreed(draft(marked), totals_of([1000, there], doubt)).task)["smoker"].missing


SUMS_OF_ALL = [1000, 1000, 10, 300, 900, 5, 5, 1000, 1000, 10, 300]


def test_a_model_of_ones_own_keeps_its_width_and_a_linear_one_is_made_as_wide_as_it_must():
    def of(name, **args):
        model = {"class": name, "args": args}
        return read_task({"task": {"name": "t"}, "model": model, "data": {"schema": TABLE}})

    task = of("torch.nn:Linear", in_features=7, out_features=2)
    found = agreed(task, totals_of(SUMS_OF_ALL))
    assert found.task.data.schema.shape == task.data.schema.shape
    assert found.task.model == task.model
    assert found.entries[2].remark == "kept: the model has a width of its own"
    assert named(found.task)["age"].std != named(task)["age"].std
    narrowed = agreed(of("node.models:Linear", inputs=7, outputs=2), totals_of(SUMS_OF_ALL)).task
    assert narrowed.model.args == {"inputs": 5, "outputs": 2}
    assert narrowed.data.schema.shape == (5,)


def test_targets_and_arrays():
    table = {**TABLE, "target": NUMBER, "columns": COLUMNS[2:3]}
    found = agreed(draft(table), totals_of([100, 100, 50, 30, 100]))
    target = found.task.data.schema.target
    assert (target.mean, target.std) == rounded_scale(2.0, 4 * 0.05**0.5)
    scales = {"mean": [0.0] * 2, "std": [1.0] * 2, "low": [0.0, -1.0], "high": [2.0, 1.0]}
    array = {"kind": "array", "target": CLASSES, "shape": [2, 3], **scales}
    model = {"class": "node.models:Linear", "args": {"inputs": 6, "outputs": 2}}
    task = read_task({"task": {"name": "t"}, "model": model, "data": {"schema": array}})
    scaled = agreed(task, totals_of([100, 50, 30, 0, 4]))
    assert (scaled.task.data.schema.mean, scaled.task.data.schema.std) == ((1.5, 0.0), (0.22, 0.2))
    assert [entry.kind for entry in scaled.entries] == ["all rows", "2 scales"]


def chosen_loss(found):
    return found.task.train.loss, dict(found.task.train.loss_args)


def test_a_loss_for_a_rare_class_follows_from_the_counts_of_all():
    """No class is rarer than the noise shows, and noise alone makes none."""
    task = draft(of_column(2, 3))
    found = agreed(task, totals_of([1000, 1000], 5.0, [50, 950]))
    assert chosen_loss(found) == ("balanced-softmax", {"prior": [0.05, 0.95]})
    assert found.entries[-1].kind == "loss balanced-softmax"
    assert found.entries[-1].remark.startswith("'well' has 95% of the rows")
    for classes in ([300, 700], [200, 800]):
        assert chosen_loss(agreed(task, totals_of([1000, 1000], 5.0, classes))) == ("auto", {})
    hidden = agreed(task, totals_of([1000, 1000], 50.0, [-20, 950]))
    assert chosen_loss(hidden)[1] == {"prior": [0.05, 0.95]}, "as many as one standard error"
    assert chosen_loss(agreed(task, totals_of([100, 100], 50.0, [2, 98]))) == ("auto", {})
    chosen = draft(of_column(2, 3), train={"loss": "cross-entropy"})
    assert chosen_loss(agreed(chosen, totals_of([1000, 1000], 5.0, [50, 950]))) == ("cross-entropy", {})


def test_a_loss_for_heavy_tails_follows_from_range_and_spread():
    wide = {**NUMBER, "low": -100.0, "high": 100.0}
    task = draft({**of_column(2, 3), "target": wide})
    narrow, even = (totals_of([1000, 1000, 0, squares, 1000]) for squares in (10, 300))
    assert chosen_loss(agreed(task, narrow)) == ("huber", {}), "the range is 10 spreads wide"
    assert chosen_loss(agreed(task, even)) == ("auto", {})


def test_the_scale_of_counts_begins_at_0():
    """And stays what it was where the noise drowns the sums."""
    target = {**NUMBER, "mean": 0.0, "std": 58.0, "low": 0.0, "high": 100.0}
    task = draft({**of_column(2, 3), "target": target}, train={"loss": "poisson"})
    found = agreed(task, totals_of([1000, 1000, -900, 850, 1000])).task
    mean, std = rounded_scale(50 - 45, 50 * (0.85 - 0.81) ** 0.5)
    counts, size = found.data.schema.target, float(f"{np.hypot(mean, std):.2g}")
    assert (counts.mean, counts.std, found.train.loss) == (0.0, size, "poisson")
    drowned = agreed(task, totals_of([1000, 1000, -900, 850, 1000], 500.0)).task
    assert drowned.data.schema.target == task.data.schema.target


PRIVATE = {"privacy": {"mechanism": "dp-sgd", "epsilon": 4.0, "delta": 1e-5}, "agreement": {"share": 0.25}}


def test_what_it_cost_is_taken_off_the_budget():
    spent = agreed(draft(**PRIVATE), totals_of([1000] * 11)).task
    assert (spent.privacy.epsilon, spent.privacy.delta) == (3.0, pytest.approx(7.5e-6))
    free = agreed(draft(agreement={"share": 0.25}), totals_of([1000] * 11)).task
    assert free.privacy == draft().privacy


SHARED = {
    "privacy": {**PRIVATE["privacy"], "mechanism": "distributed-dp-sgd", "clipping_radius": 1.0},
    "train": {"expected_rows": 9000, "steps": 70, "report_every": 10, "learning_rate": 0.1},
    "agreement": {"share": 0.25},
}


@pytest.mark.parametrize("sections", [{}, PRIVATE, SHARED])
@pytest.mark.parametrize("table", [TABLE, {**TABLE, "target": NUMBER}])
def test_the_file_says_all_of_the_task(tmp_path, sections, table):
    task = draft(table, **sections)
    found = agreed(task, totals_of([1000] * (11 + 3 * ("low" in table["target"]))))
    text = agreed_text(task, found, BASE, tmp_path / "agreed.toml")
    assert read_task(tomllib.loads(text)) == found.task
    assert "agreed on by 3 peers" in text
    assert "agreement" not in tomllib.loads(text)
    assert ("# Each peer's sums had noise for one row: epsilon 1, delta 2.5e-06." in text) == bool(sections)
    assert ("# The sums have no noise: they are exact, over all peers." in text) == (not sections)
    assert max(map(len, text.splitlines()[:9])) <= 100


def test_paths_are_told_from_where_the_file_will_be(tmp_path):
    task = draft()
    here = replace(task, data=replace(task.data, source=str(tmp_path / "a" / "rows.csv")))
    found = agreed(here, totals_of([1000] * 11))
    table = tomllib.loads(agreed_text(here, found, BASE, tmp_path / "b" / "agreed.toml"))
    assert table["data"]["source"] == str(tmp_path / "a" / "rows.csv")
    near = replace(found, task=replace(found.task, data=replace(found.task.data, source="a/rows.csv")))
    beside = tmp_path.cwd() / "b" / "agreed.toml"
    assert tomllib.loads(agreed_text(here, near, BASE, beside))["data"]["source"] == "../a/rows.csv"


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [((17, 90), 10, 90), ((0, 1), 0, 1), ((-3.2, 4.1), -4, 5), ((12_285, 1_484_705), 0, 2_000_000)],
)
def test_a_range_is_rounded_outward_to_one_digit_of_its_length(values, low, high):
    scale = by_range(np.array(values))
    assert (scale.low, scale.high) == (low, high)
    assert (scale.mean, scale.std) == Range(low, high).scale


def test_far_ranges_stay_within_one_whatever_the_rounding():
    """Between 1e16 and 1e16 + 2 there is no middle in doubles."""
    assert np.abs(Range(1e16, 1e16 + 2).scaled(np.array([1e16, 1e16 + 2, np.inf]))).max() <= 1
    own = by_rows(np.array([1.0, 2.0, 3.0]))
    assert (own.low, own.high) == (None, None), "scales of one's own rows tell no range"


def test_the_rows_of_classes_are_found_beside_lists_that_become_shorter():
    """The counts stand where the schema before the agreement puts them."""
    found = agreed(draft(), totals_of(SUMS_OF_ALL, 5.0, [30, 970]))
    assert named(found.task)["ward"].values == ("east",)
    assert chosen_loss(found) == ("balanced-softmax", {"prior": [0.03, 0.97]})


LEAVING = {"agreement": {"records": 1000, "leave_out_missing": True}}
SUMS = [900, 900, 10, 300, 500, 300, 60, 900, 600, 10, 300, 450, 450]


def test_a_column_that_a_peer_lacks_is_left_out_and_the_model_gets_narrower():
    found = agreed(draft(**LEAVING), Totals(np.array([*SUMS, 0.0, 2012.0, -40.0, 990.0]), 50.0, 3))
    assert list(named(found.task)) == ["age", "smoker"]
    assert found.task.model.args["sizes"] == [found.task.data.schema.shape[0], 4, 2]
    left_out = {entry.column: entry.remark for entry in found.entries if entry.kind == "left out"}
    assert left_out == {"ward": "2 of 3 peers lack it", "seen": "1 of 3 peers lack it"}
    assert not found.task.agreement.leave_out_missing, "it is over"
    assert chosen_loss(found) == ("auto", {}), "counts of classes stay where they were"
    whole = Totals(np.array([*SUMS, 3.0, -3.0, 0.0, 0.0]), 5.0, 3)
    assert agreed(draft(**LEAVING), whole).task == agreed(draft(), Totals(whole.sums[:-4], 5.0, 3)).task
    with pytest.raises(UserError, match="each column of the task is lacking at some peer"):
        agreed(draft(**LEAVING), Totals(np.array([*SUMS, 1000.0, 1000.0, 2000.0, 1000.0]), 5.0, 3))


def test_declared_classes_are_kept_whatever_their_rows_and_the_report_says_how_many():
    task = with_classes(draft(agreement={"classes": ["moved", "lost"]}))
    found = agreed(task, Totals(np.array([*SUMS[:-2], 400, 450, 80, 3]), 5.0, 3))
    assert found.task.data.schema.target.values == ("ill", "well", "moved", "lost")
    assert found.task.model.args["sizes"][-1] == 4
    told = {entry.column: entry.remark for entry in found.entries if entry.kind == "class"}
    assert told == {"moved": "added; about 80 rows", "lost": "added; no rows are seen"}
    assert found.task.agreement.classes == ()


def test_a_vector_has_no_scale_to_agree_on(tmp_path):
    table = {**TABLE, "columns": [*COLUMNS, {"name": "ward2", "kind": "text", "width": 8}]}
    rows = peers_rows(np.random.default_rng(5), 60)
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([f"{HEADER},ward2", *(f"{row},some text" for row in rows)]) + "\n")
    sums = survey(path, schema(table), UNIT, 10_000) * UNIT
    assert np.array_equal(sums, summed(tmp_path, rows))
    task = agreed(draft(table), totals(sums, 1, 0.0, UNIT)).task
    assert task.data.schema.columns[-1] == schema(table).columns[-1]
