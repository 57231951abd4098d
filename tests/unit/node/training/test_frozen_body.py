"""A body that is not trained: features computed once and kept on disk; what leaves is the whole model."""

import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.noise.randomness import SeededWords
from node.data.dataset import Dataset
from node.system.errors import UserError
from node.task.sections import TrainSection
from node.training.frozen_body import FrozenBody
from node.training.gradient_steps import steps_by
from node.training.trainer import Trainer, read_vector
from tests.own_data import told
from tests.unit.node.cases import cases


class Counted(nn.Module):
    """A body that counts the rows it has seen."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.seen = 0

    def forward(self, rows):
        self.seen += len(rows)
        return torch.relu(self.layer(rows)) * self.factor


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = Counted()
        self.head = nn.Linear(6, 3)

    def forward(self, rows):
        return self.head(self.body(rows))


def data(rows=40, test=10):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows + test, 4, generator=generator)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return Dataset(x[:rows], y[:rows], x[rows:], y[rows:], "test", 3, "rows")


def model(seed=0):
    torch.manual_seed(seed)
    return Model()


BLOCK = 32
SECTION = TrainSection(rounds=2, epochs=1, batch_size=8, learning_rate=0.1, parameters="head.*")


def trainer(body="body", gradient=None, whole=None, section=SECTION, rows=None):
    whole = model() if whole is None else whole
    steps = steps_by(gradient, SeededWords(np.random.default_rng(0)))
    return Trainer(whole, section, rows or data(), 0, steps, body=body)


def test_no_rows_have_no_features_and_no_file(tmp_path):
    featured = trainer(rows=data(test=0))
    featured.keep_features(tmp_path / "features")
    assert featured.outputs(featured.vector())[0].shape == (0, 3)
    assert len([*(tmp_path / "features").iterdir()]) == 1


@pytest.mark.parametrize("gradient", [None, GradientRule(1.0, 1.0, 0.2)])
def test_training_on_features_is_training_of_the_whole_model(gradient, tmp_path):
    plain, featured = trainer(None, gradient), trainer("body", gradient)
    featured.keep_features(tmp_path / "features")
    vectors = []
    for subject in (plain, featured):
        vector = subject.vector()
        for number in (1, 2):
            vector = subject.train(vector, number, threading.Event()).vector
        vectors.append(vector)
        assert subject.evaluate(vector).accuracy == plain.evaluate(vectors[0]).accuracy
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-6)
    assert featured.own_loss(vectors[1]) == pytest.approx(plain.own_loss(vectors[0]), rel=1e-5)


def test_the_body_sees_each_row_once_and_never_again_after_a_restart(tmp_path):
    whole = model()
    subject = trainer(whole=whole)
    subject.keep_features(tmp_path / "features")
    before = whole.body.seen
    vector = subject.vector()
    for number in (1, 2, 3):
        vector = subject.train(vector, number, threading.Event()).vector
        subject.evaluate(vector)
    assert whole.body.seen - before == (2 + 1 + 1 + 1) * BLOCK  # both parts, and rows of each for its digest
    again = model()
    restarted = trainer(whole=again)
    restarted.keep_features(tmp_path / "features")
    before = again.body.seen
    assert restarted.evaluate(vector) == subject.evaluate(vector)
    assert again.body.seen - before == 2 * BLOCK
    files = sorted((tmp_path / "features").iterdir())
    assert (tmp_path / "features").stat().st_mode & 0o777 == 0o700
    assert sum(file.stat().st_size for file in files) == 50 * 6 * 4


def test_a_file_that_was_cut_off_is_written_again_and_those_of_other_rows_are_removed(tmp_path):
    subject = trainer()
    folder = tmp_path / "features"
    subject.keep_features(folder)
    vector = subject.vector()
    expected = subject.evaluate(vector), subject.own_loss(vector)
    files = sorted(folder.iterdir())
    files[0].write_bytes(files[0].read_bytes()[:-4])
    (folder / "0123.f32").write_bytes(b"1234")
    again = trainer()
    again.keep_features(folder)
    assert (again.evaluate(vector), again.own_loss(vector)) == expected
    assert sorted(folder.iterdir()) == files


def test_other_rows_weights_and_code_have_features_of_their_own(tmp_path):
    rows = torch.randn(9, 4)
    first, second = model(0).requires_grad_(False), model(1).requires_grad_(False)
    for whole in (first, second):
        body = FrozenBody(whole, "body", rows)
        for given in (rows, rows + 1, rows):
            body.features(given, tmp_path)
        assert torch.allclose(body.features(rows, tmp_path), torch.relu(whole.body.layer(rows)))
    assert len(list(tmp_path.iterdir())) == 4
    before = body.features(rows, tmp_path).clone()
    second.body.factor = 2.0  # no tensor
    assert torch.equal(body.features(rows, tmp_path), 2 * before)


def test_what_leaves_the_trainer_is_the_whole_model():
    subject, expected, rows = trainer(), model(), torch.randn(5, 4)
    vector = subject.vector()
    assert torch.equal(subject.module(vector)(rows), expected(rows))
    assert set(subject.tensors(vector)) == set(expected.state_dict())
    assert read_vector(expected, "head.*").shape == vector.shape


@cases("""
    name => section => said
    legs => head.* => model.body = 'legs' is no part of the model; it has: 'body, body.layer, head'
    body => * => model.body = 'body' would be trained ('layer.weight'); let train.parameters match
    head => body.* => model.body = 'head' does not fit: the model must apply it to its rows
""")
def test_what_is_no_body_is_refused(name, section, said):
    assert said in told(lambda: trainer(name, section=replace(SECTION, parameters=section)))


def of_body(*layers):
    """A model whose body has these layers, and 4 numbers a row."""
    return nn.Sequential(OrderedDict(body=nn.Sequential(*layers).requires_grad_(False), head=nn.Linear(4, 3)))


class Centred(nn.Module):
    """Subtracts the mean of its batch: the same two rows are together with the body and without it."""

    def forward(self, rows):
        return rows - 3 * rows.mean(0)


class Dropped(nn.Module):
    def forward(self, rows):
        return functional.dropout(rows, 0.5)


@pytest.mark.parametrize(
    ("layers", "line"),
    [
        ((nn.Linear(4, 4), Centred()), "layer '1' (Centred) mixes rows: what it makes of a row depends on"),
        ((nn.BatchNorm1d(4, track_running_stats=False),), "layer '0' (BatchNorm1d) mixes rows: "),
        ((nn.Linear(4, 4), Dropped()), "layer '1' (Dropped) draws from torch's generator, for each place"),
    ],
)
@pytest.mark.parametrize("gradient", [None, GradientRule(1.0, 1.0, 0.2)])
def test_a_body_that_mixes_rows_is_refused_and_the_line_names_the_layer(layers, line, gradient):
    """Before, one row moved the sum of 150 clipped gradients by 10 times the clip."""
    said = told(lambda: trainer(whole=of_body(*layers), gradient=gradient))
    assert said.startswith(f"model.body = 'body': {line}")
    assert "; allowed: " in said


def test_a_body_that_is_the_mixing_layer_itself_is_named_by_its_kind():
    assert "model.body = 'body.1': Centred mixes rows" in told(
        lambda: trainer("body.1", whole=of_body(nn.Identity(), Centred()))
    )


def test_a_part_of_a_body_is_a_body_too_and_nothing_else_reads_the_rows():
    class Both(Model):
        def forward(self, rows):
            return self.head(self.body(rows)) + rows[:, :1]

    subject, plain = trainer("body.layer"), trainer(None)
    vector = subject.vector()
    assert subject.evaluate(vector) == plain.evaluate(vector)
    assert "does not fit" in told(lambda: trainer(whole=Both()))


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    subject = trainer()
    subject.keep_features(tmp_path / "file" / "features")
    with pytest.raises(UserError, match="the features cannot be kept"):
        subject.evaluate(subject.vector())
