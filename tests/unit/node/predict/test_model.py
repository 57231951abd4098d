"""A model's file is enough to restore the model, to predict with it, and to measure it."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.metrics import mean_poisson_deviance

from node.data.dataset import load_dataset
from node.predict import __main__ as predict
from node.predict.model import open_model
from node.runtime.record.artifacts import Folder
from node.system.errors import ConfigError
from node.task.load import load_task, read_task
from node.training.build import build_model
from node.training.figures.metrics import probabilities
from node.training.gradient_steps import PlainSteps
from node.training.model_file import Card, task_table
from node.training.trainer import Trainer
from protocol.wire.messages import Base
from tests.openings import after_opening

BASE = Base(3, bytes(range(32)), 4, bytes(32))
EPSILON = {"epsilon_spent": 1.5, "epsilon_budget": 8.0, "epsilon_remaining": 6.5, "delta": 1e-5}
LEDGER = {**EPSILON, "unit": "one record", "neighbours": "add or remove", "outside": ""}
HEADER = ("dose", "age", "weight")
NAMED = ('data.features=["dose", "age", "weight"]', "data.target=ill")


def rows(classes: int | None, seed: int = 0, count: int = 60) -> list[list[float]]:
    """Makes rows (count, 4), the target last."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3)).round(3)
    score = x.sum(1)
    y = score.round(3) + 0.0005 if classes is None else np.digitize(score, np.linspace(-1, 1, classes - 1))
    return [[*row, label] for row, label in zip(x.tolist(), y.tolist(), strict=True)]


def write(path, header, *lines):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *lines])
    return path


class Run:
    """A node's folder after a round, made from its parts; tests run the command on it."""

    def __init__(self, folder, capsys, classes, *overrides, counts=False):
        self.folder, self.capsys = folder, capsys
        outputs = 1 if classes is None else classes
        model = ("model.class=node.models:Linear", f"model.args={{inputs=3, outputs={outputs}}}")
        self.task = load_task("digits", [*model, "train.learning_rate=0.05", *overrides])
        self.task = replace(self.task, data=replace(self.task.data, source=None))
        self.data = write(folder / "train.csv", (*HEADER, "ill"), *rows(30 if counts else classes))
        self.dataset = load_dataset(self.task, self.data, None)
        self.trainer = Trainer(
            build_model(self.task, self.dataset), self.task.train, self.dataset, 0, PlainSteps
        )
        self.vector = self.trainer.vector()
        card = Card(task_table(self.task), self.dataset.classes, (3,), self.trainer.own_names)
        Folder(folder, card).models(self.trainer.tensors, BASE, (self.vector, self.vector), LEDGER)

    def test_rows(self):
        pairs = zip(self.dataset.test_x.tolist(), self.dataset.test_y.tolist(), strict=True)
        return write(self.folder / "test.csv", (*HEADER, "ill"), *([*x, y] for x, y in pairs))

    def predict(self, data, *more):
        """Runs the command; returns (exit status, standard output, standard error, the written rows)."""
        out = self.folder / "predictions.csv"
        argv = ["--model", str(self.folder), "--data", str(data), "--out", str(out), *more]
        status = predict.main(argv)
        said = self.capsys.readouterr()
        written = list(csv.reader(out.read_text().splitlines())) if out.exists() else []
        return status, after_opening(said.out), said.err, written

    def refused(self, data, *more):
        status, out, err, _ = self.predict(data, *more)
        assert (status, out, err.count("\n")) == (2, "", 1)
        return err.strip()


@pytest.fixture
def run(tmp_path, capsys):
    return lambda classes, *overrides, **more: Run(tmp_path, capsys, classes, *overrides, **more)


@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_and_metrics_of_classes_are_those_of_the_run(run, classes):
    node = run(classes)
    found = node.trainer.evaluate(node.vector)
    status, out, err, written = node.predict(node.test_rows(), "--json")
    assert (status, err) == (0, "")
    said = json.loads(out)
    assert said["metrics"] == pytest.approx({**found.metrics, "accuracy": found.accuracy, "loss": found.loss})
    headline = {"metric": "accuracy", "value": found.accuracy, "baseline": found.headline.baseline}
    assert {name: said[name] for name in headline} == pytest.approx(headline)
    assert said["model"] == {
        "base_digest": BASE.digest.hex(), "generation": 3, "participants": 4, "privacy": LEDGER
    }  # fmt: skip
    assert written[0] == ["row", "prediction", *(f"p({label})" for label in range(classes))]
    assert len(written) == said["rows"] + 1 == len(node.dataset.test_y) + 1
    chances = np.array([line[2:] for line in written[1:]], float)
    assert chances.sum(1) == pytest.approx(np.ones(len(chances)), abs=1e-5)
    chosen = [int(line[1]) for line in written[1:]]
    assert chosen == chances.argmax(1).tolist()
    assert np.mean(np.array(chosen) == node.dataset.test_y.numpy()) == pytest.approx(found.accuracy)


def test_probabilities_of_a_balanced_model_are_corrected_and_its_choice_stays(run):
    """As the task's shares of the classes say; the model's file has the correction."""
    node = run(2, "train.loss=balanced-softmax", "train.loss_args={prior=[0.9, 0.1]}")
    status, out, _, written = node.predict(node.test_rows())
    assert status == 0
    outputs, _ = node.trainer.outputs(node.vector)
    second = (outputs[:, 1] - outputs[:, 0]).double().numpy()
    assert [int(line[1]) for line in written[1:]] == (second > 0).astype(int).tolist()
    corrected = 1 / (1 + 9 * np.exp(-second))
    assert np.array([line[3] for line in written[1:]], float) == pytest.approx(corrected, rel=1e-4)
    says = "corrected for the weights of the classes (train.loss_args.prior); the prediction is the class"
    assert f"probabilities: {says} that the weighted model chooses" in out
    with safe_open(node.folder / "model.safetensors", "np") as file:
        kept = json.loads(file.metadata()["murmuration"])["calibration"]
    assert kept["shift"] == pytest.approx(np.log([0.9, 0.1]))
    assert kept["says"].startswith(says)
    said = json.loads(node.predict(node.test_rows(), "--json")[1])
    assert said["probabilities"] == kept["says"]


def test_probabilities_of_a_loss_that_weighs_in_an_unknown_way_are_not_calibrated(run):
    node = run(2, "train.loss=torch.nn:MultiMarginLoss")
    said = json.loads(node.predict(node.test_rows(), "--json")[1])
    assert said["probabilities"].startswith("not calibrated: nothing says how much train.loss = 'torch.nn:")
    own = probabilities(node.trainer.outputs(node.vector)[0])
    written = node.predict(node.test_rows())[3]
    assert np.array([line[2:] for line in written[1:]], float) == pytest.approx(own, rel=1e-4)


def test_a_prediction_of_a_count_is_its_mean_and_a_target_below_0_is_refused(run, tmp_path):
    """Without a schema, too: whole numbers are no classes then."""
    node = run(None, "train.loss=poisson", counts=True)
    assert node.dataset.classes is None
    status, out, _, written = node.predict(node.test_rows())
    assert status == 0
    means = np.exp(node.trainer.module(node.vector)(node.dataset.test_x).numpy()[:, 0])
    assert np.array([line[1] for line in written[1:]], float) == pytest.approx(means, rel=1e-5)
    for outputs, _ in (node.trainer.outputs(node.vector), node.trainer.outputs_by_row(node.vector)):
        assert outputs.numpy().reshape(-1) == pytest.approx(means, rel=1e-5), "what members count"
    found = node.trainer.evaluate(node.vector).metrics
    y = node.dataset.test_y.numpy()
    assert found["deviance"] == pytest.approx(mean_poisson_deviance(y, means), rel=1e-5)
    assert f"Poisson deviance {found['deviance']:.4g}" in out
    assert "probabilities" not in out
    bad = write(tmp_path / "bad.csv", (*HEADER, "ill"), [1, 2, 3, 4], [1, 2, 3, -2])
    assert "train.loss = 'poisson' is refused: the target has -2; allowed" in node.refused(bad)


def test_predictions_of_numbers(run):
    node = run(None)
    found = node.trainer.evaluate(node.vector)
    status, out, _, written = node.predict(node.test_rows())
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == f"model: base {BASE.digest.hex()[:16]} of generation 3, the mean of 4 updates"
    assert lines[1].startswith("privacy spent: epsilon 1.5 of 8 at delta 1e-05 (6.5 remain), for one record")
    assert lines[2] == f"predictions: {len(node.dataset.test_y)} rows in {node.folder / 'predictions.csv'}"
    both = f"R2 {found.metrics['r2']:.3f}{{}}, MAE {found.metrics['mae']:.4g}"
    assert lines[3] == "result: " + both.format(" (the mean 0.000)") + "; worse than always saying the mean"
    assert lines[4] == "metrics: " + both.format("") + f", loss {found.loss:.4f}"
    assert written[0] == ["row", "prediction"]
    errors = np.array([line[1] for line in written[1:]], float) - node.dataset.test_y.numpy()
    assert np.abs(errors).mean() == pytest.approx(found.metrics["mae"], rel=1e-5)


@pytest.mark.parametrize("overrides", [(), NAMED, ("data.target=ill",)])
def test_rows_without_a_target_are_predicted_alike(run, overrides, tmp_path):
    node = run(2, *overrides)
    with_target = node.predict(node.test_rows())[3]
    bare = write(tmp_path / "bare.csv", HEADER, *node.dataset.test_x.tolist())
    status, out, _, written = node.predict(bare)
    assert (status, written) == (0, with_target)
    assert out.splitlines()[-1] == "metrics: none, as the data has no target"


def test_arrays(run, tmp_path):
    node = run(2)
    x, y = node.dataset.test_x.numpy(), node.dataset.test_y.numpy()
    for more, is_measured in (({}, False), ({"y": y}, True)):
        np.savez(tmp_path / "rows.npz", x=x, **more)
        status, out, _, written = node.predict(tmp_path / "rows.npz")
        assert (status, len(written)) == (0, len(x) + 1)
        assert ("metrics: none" in out) is not is_measured


def test_what_is_wrong_is_one_line(run, tmp_path, one_line):
    node = run(2)
    header = (*HEADER, "ill")

    def refused_table(header, *lines):
        return node.refused(write(tmp_path / "a.csv", header, *lines))

    assert "has label 2; allowed: 0 to 1" in refused_table(header, [1, 2, 3, 0], [1, 2, 3, 2])
    shape = "has rows of shape (2,); allowed: (3,), as the model was trained on"
    assert shape in refused_table(header[:2], [1, 2], [1, 2])
    assert "'x' is not a number" in refused_table(header, [1, 2, 3, "x"], [1, 2, 3, 1])
    assert "cannot be read: No such file" in node.refused(tmp_path / "none.csv")
    (tmp_path / "d.npz").write_bytes(b"PK nothing")
    assert "is not an npz file" in node.refused(tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", x=np.full((2, 3), np.nan))
    assert "x[0, 0] = nan is not a finite number" in node.refused(tmp_path / "e.npz")
    told = node.refused(node.test_rows(), "--out", str(tmp_path / "no" / "where.csv"))
    assert told.startswith("error: --out ")
    assert told.endswith("cannot be written: No such file or directory")
    (tmp_path / "model.safetensors").unlink()
    told = node.refused(node.data)
    assert told.startswith("error: --model '")
    assert told.endswith("cannot be read: No such file or directory")
    assert "the following arguments are required: --data" in one_line(predict.main, ["--model", "x"])


@pytest.mark.parametrize(
    ("metadata", "tensors", "told"),
    [
        (
            None,
            {"a": 1},
            "does not say what task it is of; allowed: model.safetensors or private",
        ),
        ({"murmuration": "{"}, {"a": 1}, "cannot be read: Expecting property name"),
        ({"murmuration": '{"task": {"task": {}}}'}, {"a": 1}, "task.name is missing"),
        ("no row", {}, "does not say what its rows and classes are"),
        ("good", {"layers.0.weight": (2, 3)}, "lacks 'layers.0.bias', which node.models:Linear has; the"),
        ("good", {"layers.0.weight": (3, 3)}, "has 'layers.0.weight' in shape (3, 3), the model in (2, 3)"),
    ],
)
def test_a_file_that_is_no_model(run, tmp_path, metadata, tensors, told):
    node = run(2)
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        good = json.loads(file.metadata()["murmuration"])
    if isinstance(metadata, str):
        about = good if metadata == "good" else {**good, "row": None}
        metadata = {"murmuration": json.dumps(about)}
    zeros = {name: np.zeros(shape, np.float32) for name, shape in tensors.items()}
    save_file(zeros, tmp_path / "model.safetensors", metadata)
    assert told in node.refused(node.data)


@pytest.mark.parametrize(
    "overrides",
    [
        ("privacy.mechanism=distributed-dp-sgd", "train.steps=70"),
        (
            *("privacy.mechanism=dp-sgd", "train.local=layers.0.bias", "train.parameters=layers.*.weight"),
            *("train.optimizer=tests.own_training:Signs", "train.optimizer_args={shrink=0.5}"),
            *('train.metrics=["auc"]', "model.weights=/home/me/body.safetensors"),
        ),
    ],
)
def test_a_task_comes_back_from_its_table(overrides):
    task = load_task("digits", overrides)
    text = json.dumps(task_table(task))
    paths = {"model": replace(task.model, weights=None), "data": replace(task.data, source=None)}
    assert read_task(json.loads(text)) == replace(task, **paths)
    assert "body.safetensors" not in text, "where it lies is nobody's business"


def test_own_buffers_are_in_the_file_and_named(tmp_path):
    task = load_task("digits", ["model.class=tests.own_models:Normed", "model.args={}"])
    dataset = load_dataset(task, None, (0, 20))
    trainer = Trainer(build_model(task, dataset), task.train, dataset, 0, PlainSteps)
    card = Card(task_table(task), 10, (64,), trainer.own_names)
    vector = trainer.vector()
    Folder(tmp_path, card).models(trainer.tensors, BASE, (vector, vector), None)
    saved = open_model(tmp_path)
    names = ("num_batches_tracked", "running_mean", "running_var")
    assert saved.about["own"] == [f"layers.1.{name}" for name in names]
    trainer.evaluate(vector)
    assert saved.model.layers[1].running_mean.tolist() == trainer._model.layers[1].running_mean.tolist()
    assert not saved.model.training


def test_large_tensors_that_are_not_trained_are_left_out_and_made_again(tmp_path):
    weights = tmp_path / "body.safetensors"
    save_file({"layers.0.weight": np.full((18_000, 64), 0.01, np.float32)}, weights)
    task = load_task("digits", ["model.args={sizes=[64, 18000, 10]}", "train.parameters=layers.2.*"])
    task = replace(task, model=replace(task.model, weights=str(weights)))
    dataset = load_dataset(task, None, (0, 20))
    trainer = Trainer(build_model(task, dataset), task.train, dataset, 0, PlainSteps)
    card = Card(task_table(task), 10, (64,), (), trainer.left_out)
    vector = trainer.vector()
    Folder(tmp_path, card).models(trainer.tensors, BASE, (vector, vector), None)
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        assert set(file.keys()) == {"layers.0.bias", "layers.2.weight", "layers.2.bias"}
    saved = open_model(tmp_path, weights)
    assert torch.equal(saved.model(dataset.test_x), trainer.outputs(vector)[0])
    with pytest.raises(ConfigError, match="leaves out what was not trained"):
        open_model(tmp_path)
