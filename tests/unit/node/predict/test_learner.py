"""A learner's model predicts by the program that has it."""

import json

import numpy as np
import pytest

from node.predict import __main__ as predict
from node.training.model_file import write_model
from tests.own_learners import Means


@pytest.mark.parametrize(
    ("learner", "more", "line"),
    [
        ("tests.own_learners:means", (), None),
        ("tests.own_learners:means", ("--explain",), "--explain is refused with model.learner = "),
        ("tests.own_learners:means", ("--weights", "w"), "--weights is refused with model.learner = "),
        ("tests.own_data:told", (), "tests.own_data has no function predict(model, data, out)"),
        (
            "tests.own_learners:means",
            ("--data", "gone.npy"),
            "own_learners:predict failed: FileNotFoundE",
        ),
    ],
)
def test_a_learner_predicts_by_its_own_program(tmp_path, capsys, monkeypatch, learner, more, line):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.safetensors", {}, {"task": {"model": {"learner": learner}}})
    (tmp_path / "learner").mkdir()
    Means(np.ones((2, 3))).save(np.full(3, 2.0), tmp_path / "learner")
    np.save("rows.npy", np.full((4, 3), 5.0))
    status = predict.main(["--model", ".", "--data", "rows.npy", "--out", "far.npy", "--json", *more])
    said = capsys.readouterr()
    if line is None:
        assert (status, said.err) == (0, "")
        assert json.loads(said.out) == {"event": "predicted", "out": "far.npy", "told": "distances"}
        assert np.load("far.npy").tolist() == [[3.0] * 3] * 4
    else:
        assert status == 2
        assert line in said.err
        assert said.err.count("\n") == 1
