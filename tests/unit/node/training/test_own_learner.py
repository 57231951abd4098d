"""What a learner of another framework returns and raises, and what members must have alike."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from node.cli.error_handling import guarded, print_error
from node.system.errors import ConfigError, UserError
from node.training.own_learner import OwnLearner
from node.training.trainer import Diverged, Interrupted
from tests.own_learners import Means

NEVER = threading.Event()
X = np.ones((4, 3), np.float32)


def learner(**parts) -> Means:
    """Returns a learner with some parts replaced."""
    made = Means(X)
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def train(subject: OwnLearner):
    return subject.train(subject.vector(), 1, NEVER).vector


@pytest.mark.parametrize(
    ("parts", "call", "line"),
    [
        ({"train": lambda *_: np.nan * X[0]}, train, "training gave values that are not finite in round 1"),
        ({"train": lambda *_: np.zeros(3)}, train, r"train gives float64 \(3,\); allowed: .* float32 \(3,\)"),
        ({"train": lambda *_: np.zeros(4, np.float32)}, train, r"train gives float32 \(4,\); allowed"),
        ({"train": lambda *_: [0.0]}, train, "train gives list; allowed"),
        ({"train": lambda *_: 1 / 0}, train, r"train\(\) failed: ZeroDivisionError: division by zero"),
        ({"evaluate": lambda _: 0.5}, lambda one: one.evaluate(X[0]), r"evaluate\(\) returned 0.5; allowed"),
        ({"evaluate": lambda _: {"a\n": 1}}, lambda one: one.evaluate(X[0]), "returned a metric 'a"),
        ({"evaluate": lambda _: {"a": "b"}}, lambda one: one.evaluate(X[0]), "a = 'b' is no number"),
        ({"rows": None}, lambda one: one.rows, "has rows = None; allowed: a whole number from 1"),
        ({"counts": lambda _: [0.5]}, OwnLearner.tally, r"counts\(\) returned \[0.5\]; allowed: whole"),
        ({"counts": lambda _: [2**48]}, OwnLearner.tally, "whole numbers .* from 0 to 281474976710655"),
        ({"counts": lambda _: "ab"}, OwnLearner.tally, r"counts\(\) returned 'ab'; allowed"),
        ({"counts": lambda _: 1 / 0}, OwnLearner.tally, r"counts\(\) failed: ZeroDivisionError"),
        (
            {"metrics": lambda _: {"a\n": 1}},
            lambda one: one.tally().measured(np.ones(2)),
            r"metrics\(\) returned a metric",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_with_the_learners_name(parts, call, line) -> None:
    subject = OwnLearner(learner(**parts))
    with pytest.raises(UserError, match=line) as caught:
        call(subject)
    assert "learner 'means'" in str(caught.value)
    assert isinstance(caught.value, Diverged) == ("not finite" in line)


@pytest.mark.parametrize("debug", [False, True])
def test_where_it_fails_is_shown_only_with_debug(capsys, debug) -> None:
    subject = OwnLearner(learner(train=lambda *_: 1 / 0))
    assert guarded(lambda: train(subject), debug, print_error) == 1
    shown = capsys.readouterr().err
    assert shown.endswith("error: learner 'means': train() failed: ZeroDivisionError: division by zero\n")
    assert (shown.count("\n") == 1, "train=lambda *_: 1 / 0" in shown) == (not debug, debug)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"train": None}, "Means is no learner: it has no train"),
        ({"name": "a\nb"}, r"a learner's name = 'a\\nb' is refused"),
        (
            {"vector": lambda: np.full(3, np.inf, np.float32)},
            "its first vector has values that are not finite",
        ),
        (
            {"vector": lambda: np.zeros(3)},
            r"vector gives float64 \(3,\); allowed: an array of float32 \(d,\)",
        ),
    ],
)
def test_what_is_no_learner_is_refused_at_the_start(parts, line) -> None:
    with pytest.raises(ConfigError, match=line):
        OwnLearner(learner(**parts))


def test_it_trains_a_copy_and_a_stop_ends_it() -> None:
    subject, working = OwnLearner(Means(X)), np.zeros(3, np.float32)
    trained = subject.train(working, 1, NEVER)
    assert (trained.vector.tolist(), trained.loss, working.tolist()) == ([0.5] * 3, None, [0.0] * 3)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        subject.train(working, 1, stop)


def test_the_first_metric_is_the_headline_and_what_is_not_finite_is_not_defined() -> None:
    found = OwnLearner(Means(X)).evaluate(np.zeros(3, np.float32))
    assert (found.headline.metric, found.headline.value) == ("distance", 1.0)
    assert (found.accuracy, found.loss) == (0.5, None)
    assert found.metrics == {"distance": 1.0, "accuracy": 0.5}
    assert OwnLearner(learner(evaluate=lambda _: {})).evaluate(X[0]).metrics == {}


def test_what_it_counts_is_added_up_and_what_it_says_of_a_sum_is_the_metric() -> None:
    members = [OwnLearner(Means(x)) for x in (X, 3 * X[:2])]
    tallies = [one.tally() for one in members]
    assert members[0].digests["counts"] == "2"
    zero = np.zeros(3, np.float32)
    counts = [tally.counted(*one.outputs(zero)) for tally, one in zip(tallies, members, strict=True)]
    found = tallies[0].measured(sum(counts))
    assert (found.rows, found.headline.metric, found.headline.value) == (6, "distance", (4 * 1 + 2 * 9) / 6)
    assert tallies[0].measured(np.zeros(2)) is None
    longer = learner(counts=lambda vector: np.ones(2 + int(vector[0])))
    subject = OwnLearner(longer)
    subject.tally()
    with pytest.raises(UserError, match=r"counts\(\) returned 3 numbers, before 2"):
        subject.outputs(X[0])


def test_members_agree_on_name_length_and_first_numbers() -> None:
    named, begun, wide = learner(name="other"), learner(vector=lambda: X[0]), Means(np.ones((4, 5)))
    one, same, named, begun, wide = map(OwnLearner, (Means(X), Means(2 * X), named, begun, wide))
    alike = [(each.digests, each.shapes) for each in (one, same, named, begun, wide)]
    assert alike[0] == alike[1]
    assert all(each != alike[0] for each in alike[2:])
    assert OwnLearner(Means(X), X[0]).digests == begun.digests


def test_what_it_writes_takes_the_place_of_what_was_there(tmp_path) -> None:
    subject, folder = OwnLearner(Means(X)), tmp_path / "learner"
    (tmp_path / ".learner.1").mkdir()
    for value in (1, 2):
        subject.save(np.full(3, value, np.float32), folder)
    assert np.load(folder / "mean.npy").tolist() == [2.0] * 3
    broken = OwnLearner(learner(save=lambda *_: 1 / 0))
    with pytest.raises(UserError, match=r"save\(\) failed"):
        broken.save(X[0], folder)
    assert {path.name for path in tmp_path.iterdir()} == {"learner"}
    assert np.load(folder / "mean.npy").tolist() == [2.0] * 3
