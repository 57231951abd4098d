"""Whole nodes compute statistics of the trial: all have the same base, whose figures are other programs'."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from node.app.run import Prepared
from node.options import NodeOptions
from node.stats.run import TRIES, prepare_statistics
from node.system.system import System
from node.task.load import load_task
from tests.box.test_privacy import to_one_model
from tests.statistics_rows import FOLDER, oracles, trial


def write_sites(folder: Path) -> None:
    """Writes the task, and the rows of each site as 0.csv, 1.csv and 2.csv."""
    (folder / "trial.toml").write_text(trial())
    with (FOLDER / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    for site in ("0", "1", "2"):
        with (folder / f"{site}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row for row in rows if row["site"] == site)


def test_members_who_met_by_invitation_find_what_statsmodels_finds_in_all_rows(make_box, tmp_path):
    write_sites(tmp_path)
    asked = load_task(str(tmp_path / "trial.toml"), ["statistics.per_site=true"])
    works = []

    def prepare(options: NodeOptions, system: System) -> Prepared:
        assert options.shard is not None
        task = replace(asked, aggregation=options.task.aggregation, train=options.task.train)
        own = replace(options, task=task, data=tmp_path / f"{options.shard[0]}.csv", shard=None)
        prepared, work = prepare_statistics(own, system)
        works.append(work)
        return prepared

    box = make_box(3, TRIES, "aggregation.min_participants=3", usual=(), prepare=prepare)
    box.with_relays()
    box.start_all()
    to_one_model(box)
    bases = {node.agreed[1].tobytes(): node.agreed[1] for node in box.nodes}
    assert len(bases) == 1
    (base,) = bases.values()
    assert works[0].job.is_over(base)
    found = works[0].shown_by(base, 3)
    assert found.table_one.rows == (480, 206, 161, 113)
    assert [site.name for site in found.sites] == [node.key.public.hex()[:8] for node in box.nodes]
    cox = {one.label: one.value for one in found.survival[0].cox.fit.estimates}
    assert cox == pytest.approx(oracles()["survival"]["cox"]["estimates"], rel=1e-6)
    assert found.models[0].fit.value == pytest.approx(oracles()["models"]["binomial"]["deviance"], rel=1e-9)
