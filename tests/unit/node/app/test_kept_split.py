"""A run that began under the split of before keeps it, and says so."""

from pathlib import Path

import numpy as np
import pytest

from node.app.kept_split import kept_split
from node.app.run import prepare
from node.data.dataset import load_dataset
from node.data.sides import Split
from node.options import parse_arguments
from tests.fixtures.make_folder import SETTINGS
from tests.run_folders import copy_of, the_key

FIXTURE = Path(__file__).parents[3] / "fixtures" / "folder_v4" / "0"
RUN = tuple(f"--set={one}" for one in SETTINGS)


@pytest.fixture
def began(tmp_path):
    """The options of a run with a file of one's own that began under version 4."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", x=rng.random((200, 64)), y=np.arange(200) % 10)
    folder = copy_of(FIXTURE, tmp_path / "out")
    return ["--peers=127.0.0.1:1", f"--data={tmp_path / 'rows.npz'}", f"--out={folder}", *RUN]


def test_a_run_of_before_goes_on_as_it_began(began):
    prepared = prepare(parse_arguments(began))
    assert "160 to train on, 40 held back" in prepared.about.data, "exactly a fifth, by label"
    assert prepared.about.notes["split"].startswith("split of before: the bound for a row does not cover it;")
    plain = prepare(parse_arguments([*began, "--set=privacy.mechanism=none"]))
    assert plain.about.notes["split"].startswith("split of before, as this folder began; another --out")
    assert plain.about.data == prepared.about.data


def test_a_new_folder_and_parts_of_common_data_have_nothing_to_say(began, tmp_path):
    options = parse_arguments([*began, f"--out={tmp_path / 'new'}"])
    assert "split" not in prepare(options).about.notes
    before = load_dataset(options.task, options.data, None, Split.BEFORE)
    assert len(before.test_y) == 40
    shared = [one for one in began if not one.startswith("--data")]
    assert kept_split(parse_arguments([*shared, "--shard=0/3"])) is Split.ROW


def test_the_folder_is_found_by_the_key(began, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = [one for one in began if not one.startswith("--out")]
    (tmp_path / "runs").mkdir()
    folder = (tmp_path / "out").rename(tmp_path / "runs" / f"digits-{the_key(tmp_path / 'out').hex()[:8]}")
    assert kept_split(parse_arguments([*found, f"--key={folder / 'node.key'}"])) is Split.BEFORE
    assert kept_split(parse_arguments(found)) is Split.ROW
