"""The Adult file, cut into three for three owners: one proposes a task, all fit it."""

import gzip
import os
from pathlib import Path

import pytest

from node.check import __main__ as check
from node.data.dataset import load_dataset
from node.init import __main__ as init
from node.task.load import load_task

FOLDER = os.environ.get("MURMURATION_DATA")
HEADER = (
    "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, race, sex, "
    "capital-gain, capital-loss, hours-per-week, native-country, income"
)

pytestmark = pytest.mark.skipif(not FOLDER, reason="needs MURMURATION_DATA")


@pytest.fixture
def owners(tmp_path, monkeypatch):
    """Three files of their own, as the publisher writes rows: `, ` between cells, `?` for nothing."""
    monkeypatch.chdir(tmp_path)
    with gzip.open(Path(FOLDER) / "adult" / "adult.data.gz", "rt") as file:
        rows = [line for line in file.read().splitlines() if line.strip()]
    paths = [tmp_path / f"owner{number}.csv" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_text("\n".join([HEADER, *rows[number::3]]) + "\n")
    return paths


@pytest.mark.sampled
def test_a_task_made_by_one_owner_fits_all_three(owners, capsys):
    assert init.main(["--data", str(owners[0]), "--target", "income", "--name", "adult"]) == 0
    for owner in owners:
        assert check.main(["task.toml", "--data", str(owner)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nothing found that would fail" in lines
    assert any(line.startswith("ok       noise: a step's noise is 0.") for line in lines)
    task = load_task("task.toml", [])
    columns = {column.name: column for column in task.data.schema.columns}
    assert len(columns) == 14
    assert columns["education"].values[:2] == ("10th", "11th")
    assert columns["age"].kind == "number"
    assert task.data.schema.target.values == ("<=50K", ">50K")
    datasets = [load_dataset(task, owner, None) for owner in owners]
    assert len({dataset.train_x.shape[1:] for dataset in datasets}) == 1
    assert [len(dataset.train_y) + len(dataset.test_y) for dataset in datasets] == [10854, 10854, 10853]
    assert {dataset.classes for dataset in datasets} == {2}
    for dataset in datasets:
        assert float(dataset.train_x[:, 0].mean().abs()) < 0.05
