"""Features of a frozen body for a whole data set: those of the model, computed once and kept."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from node.models.scattering import Scattering
from node.system.errors import ConfigError
from node.training.build import make
from scenarios.data.images import MNIST_FILES
from scenarios.swarms.dealt import ACCURACY, PeersCell
from scenarios.swarms.features import features_folder, with_features
from tests.dealt_cells import MODEL, SHARED, Table, peers, room

PIXELS = (8, 8)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tiny MNIST, of tiny images."""
    monkeypatch.setattr("scenarios.data.images.PIXELS", PIXELS)
    rng = np.random.default_rng(3)
    for place, rows in ((0, 40), (2, 12)):
        for name, values in (
            (MNIST_FILES[place], rng.integers(0, 256, (rows, *PIXELS))),
            (MNIST_FILES[place + 1], np.arange(rows) % 10),
        ):
            header = bytes((0, 0, 8, values.ndim)) + b"".join(
                size.to_bytes(4, "big") for size in values.shape
            )
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))
    return tmp_path


SCATTERING: Table = {
    "task": {"name": "mnist"},
    "model": {
        "class": "node.models:Scattering",
        "args": {"shape": [1, *PIXELS], "outputs": 10},
        "body": "body",
    },
    "train": {"expected_rows": 40, "steps": 2, "report_every": 1},
    "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 3, "honest": 1},
}


def test_features_and_their_head_are_the_model_and_are_computed_once(images, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cell = PeersCell("arm", SCATTERING, "mnist", ACCURACY, peers=3)
    dataset = room(images).dataset("mnist", 0)
    task, features = with_features(cell.task, dataset)
    whole = make(cell.task.model, 0)
    assert isinstance(whole, Scattering)
    head = make(task.model, 0)
    with torch.no_grad():
        expected = whole(torch.from_numpy(dataset.test_x))
        found = head(torch.from_numpy(features.test_x.copy()))
    torch.testing.assert_close(found, expected)
    assert features.train_x.shape == (40, 81 * 2 * 2)
    assert task.privacy == cell.task.privacy
    assert task.train.learning_rate == cell.task.train.learning_rate, "that of a frozen body"
    written = {file: file.stat().st_mtime_ns for file in features_folder().glob("*.f32")}
    assert len(written) == 2
    assert features_folder().is_relative_to(tmp_path / "cache")
    with_features(cell.task, dataset)
    assert {file: file.stat().st_mtime_ns for file in features_folder().glob("*.f32")} == written
    cell.check(room(images))
    assert len(cell.replay(room(images)).figures) == 2


def test_a_model_without_body_keeps_its_rows_and_only_scattering_has_one():
    dataset = room().dataset("digits", 0)
    task, same = with_features(peers().task, dataset)
    assert same is dataset
    assert task == peers().task
    table = {**SHARED, "model": {**MODEL, "body": "layers.0"}}
    with pytest.raises(ConfigError, match="allowed: Scattering"):
        with_features(peers(table).task, room().dataset("digits", 0))


def test_features_that_cannot_be_kept_are_one_line(images, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cell = PeersCell("arm", SCATTERING, "mnist", ACCURACY, peers=3)
    with pytest.raises(Exception, match="the features cannot be kept") as refused:
        with_features(cell.task, room(images).dataset("mnist", 0))
    assert "\n" not in str(refused.value)
