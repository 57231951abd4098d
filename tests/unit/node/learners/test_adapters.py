"""Adapters: what they make of a framework's numbers, and that a round of training makes them better."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier, SGDRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from node.learners.learner import LearnerRows
from node.learners.pieces import cut, joined
from node.learners.sklearn import SklearnLearner
from node.system.errors import ConfigError, UserError

DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(90, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0)
CLASSES = LearnerRows(X, Y, X, Y, 4)  # this node has no row of the last class
NUMBERS = LearnerRows(X, X[:, 0] - X[:, 1], X, X[:, 0] - X[:, 1], None)


def test_arrays_are_a_vector_and_back_with_whole_numbers_rounded() -> None:
    arrays = [
        np.arange(6, dtype=np.float64).reshape(2, 3),
        np.array(7, np.int64),
        np.zeros((0, 2), np.float32),
    ]
    vector = joined(arrays)
    assert (vector.dtype, vector.tolist()) == (np.float32, [0, 1, 2, 3, 4, 5, 7])
    back = cut(vector - np.float32(0.4), arrays)
    assert [(part.dtype, part.shape) for part in back] == [(part.dtype, part.shape) for part in arrays]
    assert back[1] == 7
    with pytest.raises(UserError, match=r"a vector of shape \(6,\) for 7 numbers"):
        cut(vector[1:], arrays)


@pytest.mark.parametrize(
    ("estimator", "rows"),
    [
        (SGDClassifier(loss="log_loss", random_state=0), CLASSES),
        (Perceptron(random_state=0), CLASSES),
        (MLPClassifier((5,), random_state=0, learning_rate_init=0.1), CLASSES),
        (SGDRegressor(random_state=0), NUMBERS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_estimator_of_sklearn_learns_from_where_the_vector_is(estimator, rows, tmp_path: Path) -> None:
    learner, other = (SklearnLearner(estimator, part, epochs=20) for part in (rows, LearnerRows(
        X[::-1], rows.y[::-1], X, rows.y, rows.classes)))  # fmt: skip
    first = learner.vector()
    assert np.array_equal(first, other.vector()), "whatever the rows are"
    assert not hasattr(estimator, "t_"), "the one given stays as it is"
    trained = learner.train(first, 1)
    (metric,) = learner.evaluate(first)
    assert metric == ("accuracy" if rows.classes else "r2")
    if metric == "accuracy":
        assert learner.metrics(3 * learner.counts(trained)) == learner.evaluate(trained)
    else:
        with pytest.raises(ConfigError, match="R2 follows from no whole numbers"):
            learner.counts(trained)
    assert learner.evaluate(trained)[metric] > max(0.6, learner.evaluate(first)[metric])
    assert np.array_equal(learner.train(first, 2), trained), "it remembers nothing from call to call"
    learner.save(trained, tmp_path)
    with np.load(tmp_path / "coefficients.npz") as saved:
        assert np.array_equal(joined([saved[name] for name in saved.files]), trained)


@pytest.mark.parametrize("estimator", [LogisticRegression(), KNeighborsClassifier()], ids=str)
def test_an_estimator_that_cannot_learn_on_is_refused(estimator) -> None:
    with pytest.raises(ConfigError, match="has no partial_fit, by which it would learn on"):
        SklearnLearner(estimator, CLASSES)


def test_a_pytree_of_jax(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    from node.learners.jax import JaxLearner  # noqa: PLC0415

    first = {"b": jax.numpy.zeros(2), "a": [jax.numpy.ones((2, 3)), jax.numpy.arange(2)]}
    learner = JaxLearner(
        first,
        lambda params, number: {**params, "b": params["b"] + number},
        lambda params: {"b": params["b"][0]},
    )
    assert learner.vector().tolist() == [1] * 6 + [0, 1] + [0, 0]
    trained = learner.train(learner.vector(), 3)
    assert learner.evaluate(trained) == {"b": 3.0}
    learner.save(trained, tmp_path)
    with np.load(tmp_path / "params.npz") as saved:
        assert saved["['b']"].tolist() == [3, 3]


def test_a_client_of_flower(monkeypatch, tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    from node.learners.flower import FlowerLearner, flower_client  # noqa: PLC0415
    from node.learners.learner import LearnerSetting  # noqa: PLC0415
    from node.task.load import read_task  # noqa: PLC0415

    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[4] / "examples"), *sys.path])
    args = {"client": "flower.client_app:client_fn"}
    model = {"learner": "node.learners.flower:flower_client", "args": args}
    task = read_task({"task": {"name": "flower"}, "model": model})
    learner = flower_client(LearnerSetting(task, None, (1, 5), 0, lambda: CLASSES))
    assert (learner.name, learner.rows, learner.vector().shape) == (args["client"], 300, (650,))
    trained = learner.train(learner.vector(), 1)
    metrics = learner.evaluate(trained)
    assert list(metrics) == ["accuracy", "loss"]
    assert metrics["accuracy"] > 0.5
    learner.save(trained, tmp_path)
    with np.load(tmp_path / "parameters.npz") as saved:
        assert saved["arr_0"].shape == (10, 64)
    wrong = read_task({"task": {"name": "flower"}, "model": {**model, "args": {"klient": "a"}}})
    with pytest.raises(ConfigError, match=r"model\.args = \{'klient'"):
        flower_client(LearnerSetting(wrong, None, None, 0, lambda: CLASSES))
    with pytest.raises(ConfigError, match="object is no client of Flower"):
        FlowerLearner(object(), "an object")


def test_a_module_of_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file  # noqa: PLC0415

    from node.learners.lightning import LightningLearner  # noqa: PLC0415

    class Linear(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.log("val_loss", self.training_step(batch, 0))
            self.log("val_acc", (self.layer(batch[0]).argmax(1) == batch[1]).float().mean())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.5)

    rows = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    data = lightning.LightningDataModule.from_datasets(rows, val_dataset=rows, batch_size=30)
    learner = LightningLearner(Linear(), data, epochs=5)
    first = learner.vector()
    trained = learner.train(first, 1)
    before, after = learner.evaluate(first), learner.evaluate(trained)
    assert list(after) == ["accuracy", "loss"]
    assert after["loss"] < before["loss"]
    learner.save(trained, tmp_path)
    assert torch.equal(
        load_file(tmp_path / "module.safetensors")["layer.bias"], torch.from_numpy(trained[12:])
    )


@pytest.mark.parametrize("package", ["jax", "flwr", "lightning"])
def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, package) -> None:
    from node.learners.extras import extra  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ConfigError, match=rf"{package} is needed .* pip install 'murmuration-node\[an-extra\]'"
    ):
        extra(package, "an-extra")
