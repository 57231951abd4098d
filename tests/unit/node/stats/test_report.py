"""The report: complete in itself, without what must not be printed; the same table as CSV; all as JSON."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from node.jobs.statistics.columns import Category
from node.stats.charts import Axis
from node.stats.plan import plan
from node.stats.report import as_json, html, methods
from node.stats.results import results
from node.stats.tables import as_csv, p_text, table_one_text
from tests.statistics_rows import COLUMNS, members, read_statistics, run, table

RARE = Category("rare", ("none", "some", "<b>&"))
ASKED = {
    "by": "arm",
    "tables": [["sex", "rare"]],
    "models": [
        {"formula": "died ~ age * sex + bmi", "family": "binomial"},
        {"formula": "visits ~ rare + sex", "family": "poisson"},
        {"formula": "bmi ~ age + days + age:days + site2", "family": "gaussian"},
    ],
    "survival": [{"time": "days", "event": "died", "by": "arm", "grid": 7, "cox": ["age", "sex"]}],
}


@pytest.fixture(scope="module")
def found():
    rows = {name: values.copy() for name, values in table().items()}  # the table is everybody's
    rows["rare"] = np.zeros(480)
    rows["rare"][[3, 200]], rows["rare"][50:90] = 1, 2
    rows["site2"] = 2 * rows["age"] + 1
    rows["bmi"][:3] = np.nan
    columns = {**COLUMNS, "rare": RARE, "site2": type(COLUMNS["age"])("site2", 1.0, 241.0)}
    planned = plan(read_statistics(ASKED), columns)
    tables = members({**rows})
    for name in ("rare", "site2"):
        for place, one in enumerate(tables):
            one[name] = rows[name][rows["site"] == place]
    base, _ = run(planned.parts, tables)
    return results(planned, base, 3)


class Parts(HTMLParser):
    """Collects the names of elements, and the texts of cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.cells = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        assert not {"src", "href", "onload"} & {name for name, _ in attributes}

    def handle_data(self, data):
        self.cells.append(data)


def test_the_report_loads_nothing_and_has_every_part(found):
    text = html(found, "made by a test")
    parts = Parts(text)
    assert not {"script", "link", "img", "iframe"} & set(parts.seen)
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    assert parts.seen.count("svg") == 5 + 2 + 2  # histograms, forests, curves with their Cox model
    for words in ("480 rows of 3 members", "Table 1 by arm", "Pearson", "At risk, by days", "made by a test"):
        assert words in text
    assert "<b>&" not in text
    assert not re.search(r"\b(nan|None|inf)\b", text.split("</style>")[1])


def test_a_model_without_a_fit_says_why(found):
    reasons = [model.reason for model in found.models]
    assert reasons[0] is reasons[1] is None
    assert reasons[2].startswith("left out: a column is a combination")
    assert reasons[2] in html(found, "")


def test_few_rows_are_not_printed_nor_told_by_the_others(found):
    rows = list(csv.reader(io.StringIO(as_csv(table_one_text(found.table_one)).decode())))
    assert rows[0] == ["", "level", "missing", "Overall", "A", "B", "C", "p-value", "SMD"]
    assert rows[1][3:7] == ["480", "206", "161", "113"]
    some = next(row for row in rows if row[1] == "some")
    assert some[3] == "< 5"
    assert {"< 5", "hidden", "0 (0.0)"} >= set(some[4:7])
    cross = found.tables[0]
    assert sum(isinstance(count, int) for count in cross.counts[0][:3]) <= 2
    assert "< 5" in cross.counts[0] or "< 5" in cross.counts[1]


def test_json_holds_all_of_it(found):
    kept = json.loads(as_json(found))
    assert kept["models"][0]["fit"]["estimates"][1]["label"] == "age"
    assert kept["table_one"]["rows"] == [480, 206, 161, 113]
    assert "< 5" in json.dumps(kept)
    curve = kept["survival"][0]["curves"][0][1]
    assert min(curve["at_risk"]) >= 5
    assert len({len(curve[name]) for name in curve}) == 1


def test_the_methods_name_what_was_done(found):
    text = methods(found)
    for words in ("3 sites", "Welch", "logistic regression, Poisson regression", "log-rank", "Breslow"):
        assert words in text
    assert "linear" not in text


@pytest.mark.parametrize(("p", "text"), [(0.0421, "0.042"), (0.0004, "<0.001"), (1.0, "1.000")])
def test_p_values(p, text):
    assert p_text(p) == text


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis(0, 100, 0, 1), [0, 20, 40, 60, 80, 100]),
        (Axis(-0.35, 0.4, 0, 1), [-0.2, 0, 0.2, 0.4]),
        (Axis(0.1, 12, 0, 1, is_log=True), [0.1, 0.2, 0.5, 1, 2, 5, 10]),
        (Axis(0.7, 1.6, 0, 1, is_log=True), [0.7, 0.8, 0.9, 1, 1.2, 1.5]),
    ],
)
def test_ticks_are_round(axis, ticks):
    assert axis.ticks() == pytest.approx(ticks)
