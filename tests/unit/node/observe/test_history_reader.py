"""history.jsonl as it grows: whole lines, each once, and never more than a bounded number."""

import json
from pathlib import Path

import pytest

from node.observe import history_reader
from node.observe.history_reader import Rounds
from node.storage.records import SwarmFigure


def line(number: int, **more: object) -> str:
    known = {"round": number, "outcome": "aggregated", "reason": None, "accuracy": 0.5, "missing": []}
    return json.dumps({**known, **more}) + "\n"


def beside(record) -> tuple[object, object]:
    shown = record.on_page()
    return shown["beside"], shown["beside_metric"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def numbers(found) -> list[int]:
    return [one.round for one in found]


def test_what_was_appended_is_read_once(path):
    seen = Rounds(path)
    assert (seen.grown, seen.read(), seen.latest) == (False, (), ())
    path.write_text(line(1) + line(2))
    assert seen.grown
    assert numbers(seen.read()) == [1, 2]
    assert not seen.grown
    failed = {"reason": "shares-timeout", "outcome": "fallback", "missing": ["ab"]}
    with path.open("a") as file:
        file.write(line(3, **failed, rolled_back=[1, 2], without=["a:1"]))
    assert numbers(seen.read()) == [1, 2, 3]
    last = seen.latest[-1]
    assert (last.reason, last.outcome, last.missing) == ("shares-timeout", "fallback", ("ab",))
    assert (last.rolled_back, last.without) == ((1.0, 2.0), ("a:1",))
    assert (last.accuracy, last.loss, last.participants) == (0.5, None, 0)


def test_headlines_the_metric_of_all_steps_and_both_epsilons_are_read(path):
    metrics = {"auc": 0.7, "balanced-accuracy": 0.5, "accuracy": 0.98}
    swarm = {"metric": "auc", "value": 0.75, "baseline": 0.5, "only_class": None, "mine": 0.7}
    counted = {"rows": 540, "peers": 3, "generation": 4}
    path.write_text(
        line(1)
        + line(2, metric="auc", value=0.7, baseline=0.5, only_class="no", metrics=metrics)
        + line(3, metric="r2", value=None, metrics={**metrics, "mae": 3.5}, swarm={**swarm, **counted})
        + line(4, metric=7, metrics=[1], swarm={"rows": 3}, flaws="none")
        + line(5, metric="r2", metrics={"mae": 3.5, "deviance": 1.5}, flaws=["worse than guessing"])
    )
    old, skewed, numbers, damaged, counts = Rounds(path).read()
    assert (old.metric, old.value, old.accuracy, old.swarm) == ("accuracy", 0.5, 0.5, None)
    assert (skewed.metric, skewed.value, skewed.baseline) == ("auc", 0.7, 0.5)
    assert beside(skewed) == (0.5, "balanced-accuracy")
    assert skewed.only_class == "no"
    assert (numbers.metric, numbers.value, *beside(numbers)) == ("r2", None, 3.5, "mae")
    assert beside(counts) == (1.5, "deviance")
    assert (old.flaws, damaged.flaws, counts.flaws) == ((), (), ("worse than guessing",))
    assert numbers.swarm == SwarmFigure(**swarm, **counted)
    assert (damaged.metric, *beside(damaged), damaged.swarm) == ("accuracy", None, None, None)
    path.write_text(line(1) + line(2, steps=10, steps_failed=1, epsilon=1, epsilon_alone=6.5))
    first, second = Rounds(path).read()
    assert (first.steps, first.steps_failed, first.epsilon_alone) == (0, 0, None)
    assert (second.steps, second.steps_failed, second.epsilon, second.epsilon_alone) == (10, 1, 1.0, 6.5)


def test_a_line_that_is_still_being_written_waits_and_one_that_a_crash_cut_off_is_left_out(path):
    seen = Rounds(path)
    path.write_text(line(1) + line(2)[:-5])
    assert numbers(seen.read()) == [1]
    path.write_text(line(1) + line(2))
    assert numbers(seen.read()) == [1, 2]
    path.write_text(line(1) + '{"round": 2, "out\n' + '["no object"]\n{"round": null}\n' + line(3))
    assert numbers(Rounds(path).read()) == [1, 3]


def test_of_a_long_history_the_end_is_kept(path, monkeypatch):
    monkeypatch.setattr(history_reader, "MAX_ROUNDS", 3)
    seen = Rounds(path)
    path.write_text("".join(line(number) for number in range(1, 9)))
    assert numbers(seen.read()) == [6, 7, 8]
    with path.open("a") as file:
        file.write(line(9))
    assert numbers(seen.read()) == [7, 8, 9]


def test_a_long_history_is_not_read_from_its_beginning(path, monkeypatch):
    monkeypatch.setattr(history_reader, "MAX_ROUNDS", 3)
    monkeypatch.setattr(history_reader, "_LINE_BYTES", len(line(1)))
    path.write_text("x" * 100_000 + "\n" + "".join(line(number) for number in range(1, 9)))
    assert numbers(Rounds(path).read()) == [7, 8]  # reading began in the midst of 6, or at its first byte
