"""What node.init says of targets and columns that ask for another treatment: counts, survival, free text."""

import numpy as np
import pytest

from node.data.free_text import lost_texts
from node.init.asked import NOTHING_ASKED
from node.init.counts import is_count
from node.init.dialect import find_dialect
from node.init.look import look
from node.init.survival import survival_remark
from node.task.scaling import by_range, by_rows
from tests import own_data
from tests.own_data import frame
from tests.unit.node.cases import cases

RNG = np.random.default_rng(4)
SKEWED = RNG.poisson(RNG.gamma(0.8, 6.0, 400)).astype(float)
"""Visits: whole numbers from 0 on with a long tail."""


def test_skewed_whole_numbers_are_a_count_and_most_other_numbers_are_not():
    assert is_count("visits", SKEWED)
    assert is_count("number of admissions", SKEWED)
    others = {
        "halves": SKEWED / 2,
        "negative": SKEWED - 1,
        "mirrored": SKEWED.max() - SKEWED,
        "far from 0": SKEWED + 100,
        "even ones": SKEWED * 2,
        "large": SKEWED * 1000,
        "symmetric": RNG.binomial(40, 0.5, 400).astype(float),
        "years": 2026 - SKEWED,
        "few values": np.minimum(SKEWED, 4),
        "each once": np.arange(400.0),
        "none": np.zeros(0),
    }
    assert [name for name, values in others.items() if is_count("n", values)] == []


def test_a_name_says_that_it_is_no_count():
    names = "age,Alter,year,birth_year,ICD code,zip,PLZ,rating,score,income,patientId"
    assert [name for name in names.split(",") if is_count(name, SKEWED)] == []


def looked(tmp_path, target, kind="auto", scaling=by_rows):
    path = tmp_path / "rows.csv"
    lines = (f"{row * row % 7},{value:g}" for row, value in enumerate(target))
    path.write_text("a,visits\n" + "\n".join(lines) + "\n")
    return look(path, None, kind, (), scaling)


def test_a_count_begins_at_0_and_has_the_size_of_its_root_mean_square(tmp_path):
    found = looked(tmp_path, SKEWED)
    assert found.counts
    assert (found.schema.target.mean, found.schema.target.low) == (0.0, None)
    assert found.schema.target.std == pytest.approx(np.sqrt((SKEWED**2).mean()), rel=0.05)
    (entry,) = (entry for entry in found.report.entries if entry.column == "visits")
    assert entry.kind == "target, a count"
    assert entry.remark.endswith("loss poisson; else --target-kind number")
    ranged = looked(tmp_path, SKEWED, scaling=by_range).schema.target
    assert (ranged.mean, ranged.low) == (0.0, 0.0)
    plain = looked(tmp_path, SKEWED, "number")
    assert not plain.counts
    assert plain.schema.target.mean == pytest.approx(SKEWED.mean(), abs=0.1)


def test_few_values_are_classes_unless_somebody_says_count(tmp_path):
    few = SKEWED[SKEWED < 16]
    found = looked(tmp_path, few)
    (entry,) = (entry for entry in found.report.entries if entry.column == "visits")
    assert (found.counts, entry.kind) == (False, "target, 16 classes")
    assert entry.remark.endswith("; if it counts something: --target-kind count")
    assert "--target-kind" not in looked(tmp_path, np.arange(400) % 10).report.entries[0].remark
    assert looked(tmp_path, few, "count").counts
    line = own_data.told(looked, tmp_path, [3, 2.5, 1] * 20, "count")
    assert line.startswith(
        "the target 'visits' has 2.5, which is no count; allowed with --target-kind count: whole"
    )


def test_an_array_of_counts(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, x=RNG.normal(size=(400, 2)), y=SKEWED, z=SKEWED - 1)
    found = look(path, None, "auto", (), by_rows)
    assert (found.counts, found.schema.target.mean) == (True, 0.0)
    assert not look(path, None, "number", (), by_rows).counts
    assert "does not count" in own_data.told(look, path, "z", "count", (), by_rows)


def columns(tmp_path, header, *cells):
    """Returns the frame of forty rows; each cell is a function of the row's number."""
    rows = (";".join(str(cell(row)) for cell in cells) for row in range(40))
    return frame(tmp_path, f"{header}\n" + "\n".join(rows) + "\n")


@cases("""
    header => told
    dead;days => yes
    status;time => yes
    Event;survival_months => yes
    relapse;follow-up => yes
    verstorben;Überlebenszeit => yes
    zensiert;Beobachtungsdauer => yes
    Rezidiv;Monate => yes
    os_status;os => yes
    smoking_status;days =>
    dead;age_years =>
    dead;Alter in Jahren =>
    dead;weight =>
    smoker;days =>
""")
def test_an_event_and_a_duration_are_told_by_their_names(tmp_path, header, told):
    found = columns(tmp_path, header, lambda row: row % 2, lambda row: row * 3)
    remarks = survival_remark(found, find_dialect(found, NOTHING_ASKED))
    assert bool(remarks) == bool(told)
    if remarks:
        event, duration = header.split(";")
        (line,) = remarks
        assert line.startswith(f"'{event}' and '{duration}' look like survival data")
        assert (
            f"--statistics proposes curves and a Cox model: '{event}' as classes loses when it happened"
            in line
        )


@pytest.mark.parametrize(
    "cells",
    [
        (lambda row: row % 3, lambda row: row * 3),
        (lambda row: row % 2, lambda row: row * 3 - 9),
        (lambda row: row % 2, lambda row: row % 3),
        (lambda row: row % 2, lambda row: f"{row % 24:02d}:15"),
        (lambda row: row % 2, lambda row: f"week {row}"),
    ],
)
def test_other_values_under_such_names_are_no_survival_data(tmp_path, cells):
    found = columns(tmp_path, "dead;time", *cells)
    assert survival_remark(found, find_dialect(found, NOTHING_ASKED)) == ()


def test_free_text_that_is_not_read_is_said_and_codes_are_not(tmp_path):
    found = columns(
        tmp_path,
        "note;code;ward;report;letter",
        lambda row: f"seen on day {row}, was well",
        lambda row: f"case-2026-{row:012d}-north-ward",
        lambda row: "a ward for those who are ill",
        lambda row: f"report {row} of the chest, no finding" if row < 30 else "",
        lambda row: f"dear colleague, on day {row} there was nothing",
    )
    (line,) = lost_texts(found, ("letter", "code"))
    assert line.startswith(
        "free text is left out: 'note', 'report'; what it says is lost: write what matters into"
    )
    assert lost_texts(found, ("note", "report", "letter")) == ()
    (many,) = lost_texts(columns(tmp_path, "a;b;c;d", *[lambda row: f"seen on day {row}, was well"] * 4), ())
    assert "'a', 'b', 'c' and 1 more; what" in many


def test_the_report_of_a_look_has_both(tmp_path):
    path = tmp_path / "rows.csv"
    rows = (f"{row % 2},{row * row % 31},seen on day {row} and was well" for row in range(1, 41))
    path.write_text("dead,days,note\n" + "\n".join(rows) + "\n")
    survival, text = look(path, "dead", "auto", (), by_rows).report.remarks
    assert "survival" in survival
    assert "'note'" in text
    assert look(path, "dead", "auto", ("note",), by_rows).report.remarks == (survival,)
