"""A node is killed before each step of a start, and starts again from what is on its disk.

`tests/fixtures` has folders of earlier versions; make_folder.py describes them. Lost and damaged files:
tests/unit/node/storage/test_lost_files.py.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cases import soaks
from tests.e2e.processes import ROOT, Nursery
from tests.e2e.swarm import settings
from tests.fixtures.make_folder import SETTINGS
from tests.run_folders import copy_of, epsilon, fact, the_key

OLDER = {version: ROOT / "tests" / "fixtures" / f"folder_v{version}" / "0" for version in (1, 2, 4)}


def trials(nursery: Nursery, home: Path, source: Path | None) -> list[tuple[Path, str]]:
    """Returns each trial's folder, and where its first start was killed; a second start followed."""
    home.mkdir()
    where = ("--peers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--shard", "0/3", "--out", "{}/out")
    what = settings(*SETTINGS, "train.threads=1")
    process = nursery.module("tests.e2e.dying_start", str(home), str(source or ""), *where, *what)
    assert process.status() == 0, process.told()
    process.out.join()
    told = [json.loads(line) for line in process.out.all()]
    for trial in told:
        assert trial["second"] == 77, trial
    assert [trial["first"] for trial in told] == [-signal.SIGKILL] * (len(told) - 1) + [77]
    assert len(told) > 20
    found = [(Path(trial["trial"]) / "out", trial["at"]) for trial in told]
    for out, step in found:
        assert [path.name for path in out.rglob(".*")] == [], f"half-written after {step}"
    return found


@pytest.mark.sampled
@pytest.mark.slow  # some 50 kills, each with two starts
def test_a_first_start_killed_before_any_of_its_steps_starts_again(nursery, tmp_path):
    told = trials(nursery, tmp_path / "trials", None)
    steps = " ".join(step for _, step in told)
    for what in ("mkdir", "fsync", "os.link", "os.rename", "create table fact", "sqlite commit", "vectors"):
        assert what in steps
    for out, step in told:
        assert fact(out, "key") == the_key(out), step
        assert fact(out, "base_file") is not None


@pytest.mark.sampled
@pytest.mark.parametrize(
    "version",
    [1, *soaks(version for version in OLDER if version != 1)],
)
def test_a_take_over_killed_before_any_of_its_steps_is_taken_over_by_the_next_start(
    nursery, tmp_path, version
):
    """All are taken over in one and the same step; the oldest lacks most."""
    copy_of(OLDER[version], tmp_path / "seed" / "out")
    before = epsilon(copy_of(OLDER[version], tmp_path / "looked-at"))
    assert before > 4
    told = trials(nursery, tmp_path / "trials", tmp_path / "seed")
    assert "pragma user_version = 5" in " ".join(step for _, step in told)
    for out, step in told:
        assert fact(out, "key") == the_key(OLDER[version]), step
        assert epsilon(out) == pytest.approx(before, abs=1e-9), step
        assert len((out / "node.key.spent").read_text().splitlines()) == 2
