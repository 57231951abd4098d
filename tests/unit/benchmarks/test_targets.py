"""The made-up rows of the benchmark of targets have what it is about, and its verdicts count."""

from pathlib import Path

import numpy as np

from benchmarks.targets.benchmark import _verdict_row
from benchmarks.targets.counts import visits
from benchmarks.targets.lab import odd_rows
from benchmarks.targets.rare import rare_class
from benchmarks.targets.texts import docstrings
from benchmarks.walk.hospitals import HEADER, SITES, make_rows
from node.init.counts import is_count


def test_visits_are_a_skewed_count_and_yes_is_rare() -> None:
    assert is_count("visits", visits(Path()).y.astype(np.float64))
    assert 0.02 < np.mean(rare_class(Path()).y == "yes") < 0.04


def test_a_laboratory_writes_limits_and_spells_wards_in_three_ways() -> None:
    rows = make_rows(SITES[0], 300, 0)
    found = odd_rows(rows, 0)
    crp, ward = HEADER.index("CRP"), HEADER.index("Station")
    limited = [cells[crp] for cells in found.cells if cells[crp].startswith("<")]
    assert set(limited) == {"<2,5"}
    assert 10 < len(limited) < 150
    assert len({cells[ward] for cells in found.cells}) == 12
    for own, was in zip(found.cells, rows.cells, strict=True):
        assert own[ward].casefold() == was[ward].casefold()
        assert own[crp] in (was[crp], "<2,5")


def test_texts_are_short_and_do_not_say_of_which_package_they_are() -> None:
    texts = docstrings("h11")
    assert len(texts) == len(set(texts)) > 3
    assert not any("h11" in text.lower() or len(text) > 300 for text in texts)


def test_a_verdict_is_of_the_mean_difference() -> None:
    scores = [{"auc": 0.80, "auc pooled": 0.805}, {"auc": 0.80, "auc pooled": 0.82}]
    for close, holds in ((0.013, True), (0.012, False)):
        row = _verdict_row("lab", scores, lambda one: one["auc"] - one["auc pooled"], close)
        assert row.record is not None
        assert (row.record["holds"], "✓" in row.text) == (holds, holds)
        assert row.record["means"] == {"auc": 0.80, "auc pooled": 0.8125}
