"""A vertical cell: replays, what it refuses, what its outcome tells, and the follower's side of the wire."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from mechanisms.noise.randomness import SystemWords
from node.system.errors import ConfigError, UserError
from scenarios.__main__ import main
from scenarios.data.criteo import FILES
from scenarios.data.sources import ALL, SOURCES, VERTICAL, load, load_vertical
from scenarios.engines.federation import Shape
from scenarios.engines.vertical_worker import Answers, Wire, left, named
from scenarios.study.cells import cell_name
from scenarios.study.costs import DOWN, EPSILON, MEASURED, TRAFFIC, UP, epsilon_after
from scenarios.vertical.cell import (
    LOSS,
    READ,
    TRUE_LOSS,
    Beside,
    Readings,
    VerticalCell,
    epochs_of,
    follower_of,
    label_facts,
    plan_of,
)
from scenarios.vertical.choices import LABEL_DP, EmbeddingChoice, LabelChoice
from scenarios.vertical.parties import Floats, Request, dealt, diverged
from tests.criteo_rows import ROWS, SMALL, written
from tests.unit.scenarios.rooms import replayed, room

FLIPPED = replace(SMALL, arm="flipped", labels=LabelChoice(LABEL_DP, {"epsilon": 1.0}))
REDRAWN = replace(SMALL, arm="redrawn", labels=LabelChoice(LABEL_DP, {"epsilon": 1.0}, True))
SIGNS = replace(SMALL, arm="signs", outputs=EmbeddingChoice(1.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data"))


def test_two_parties_learn_or_say_that_they_diverged(folder):
    outcome = replayed(SMALL.lasting(12), folder)
    assert len(outcome.figures) == 12
    assert outcome.final > 0.85
    assert outcome.series[LOSS] == outcome.series[TRUE_LOSS]
    assert outcome.series[LOSS][-1] < outcome.series[LOSS][0]
    assert outcome.facts[READ] == 1.0
    assert outcome.facts[f"first {LOSS}"] == outcome.series[LOSS][0]
    assert outcome.facts[f"last {TRUE_LOSS}"] == outcome.series[TRUE_LOSS][-1]
    assert outcome.facts["judged rows"] == ROWS[1] + ROWS[2]
    wild = replace(SMALL, descent=replace(SMALL.descent, l2=float("inf")))
    with pytest.raises(UserError, match=r"training diverged in epoch \d+; lower train\.learning_rate"):
        replayed(wild, folder)


def test_bytes_are_of_two_outputs_a_row_and_of_the_gradients_in_them(folder: Path) -> None:
    outcome = replayed(SMALL.lasting(3), folder)
    up, down = 8 * sum(ROWS), 8 * ROWS[0]
    assert (outcome.facts[UP], outcome.facts[DOWN], outcome.facts[MEASURED]) == (up, down, False)
    assert outcome.series[TRAFFIC] == (up + down,) * 3
    assert EPSILON not in outcome.series
    assert (outcome.facts["epsilon"], outcome.facts["unit"]) == (None, None)


@pytest.mark.parametrize(("cell", "epsilons"), [(FLIPPED, (1, 1, 1)), (REDRAWN, (1, 2, 3))])
def test_epsilon_is_known_after_each_epoch(cell: VerticalCell, epsilons: tuple, folder: Path) -> None:
    outcome = replayed(cell.lasting(3), folder)
    assert outcome.series[EPSILON] == pytest.approx(epsilons)
    assert epsilon_after(outcome, 2) == pytest.approx(epsilons[1])
    assert outcome.facts["epsilon"] == epsilons[-1]
    losses = zip(outcome.series[LOSS], outcome.series[TRUE_LOSS], strict=True)
    assert all(noisy != true for noisy, true in losses), "flips raise the loss on what is trained on"
    assert 0.5 < float(str(outcome.facts[READ])) < 0.97


@pytest.mark.parametrize("cell", [SMALL, FLIPPED, REDRAWN, SIGNS], ids=lambda cell: cell.arm)
def test_a_replay_is_a_replay_and_another_seed_another(cell: VerticalCell, folder: Path) -> None:
    cell = cell.lasting(2)
    one, again, other = (replayed(each, folder) for each in (cell, cell, cell.seeded(1)))
    assert (one.figures, one.facts, one.series) == (again.figures, again.facts, again.series)
    assert one.facts["predictions sha256"] != other.facts["predictions sha256"]


def test_arms_share_initial_weights_and_order_but_not_flips(folder: Path) -> None:
    """A name of its own changes nothing where there is no noise, and the flips where there is."""
    renamed = [replace(cell, arm="other") for cell in (SMALL, FLIPPED)]
    digests = [replayed(cell, folder).facts["predictions sha256"] for cell in (SMALL, FLIPPED, *renamed)]
    assert digests[0] == digests[2]
    assert len(set(digests)) == 3


def test_keys_of_train_change_all_of_training(folder: Path) -> None:
    changed = SMALL.changed({"train": {"batch_size": 50, "learning_rate": 0.5}}).lasting(2)
    assert (changed.rounds, changed.train.batch_size) == (2, 50)
    assert changed.network.descent.learning_rate == 0.5
    assert len([one for one in plan_of(changed, 160, 70).requests() if one.epoch == 1]) == 4 + 2
    digests = {replayed(each.lasting(1), folder).facts["predictions sha256"] for each in (changed, SMALL)}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"model": {"args": {}}}, "--set model.args: this scenario does not have it; allowed: train.rounds"),
        ({"privacy": {}}, "--set privacy.: this scenario does not have it"),
        ({"train": {"momentum": 0.9}}, "'train.momentum' is not a known key; allowed: rounds, batch_size, "),
        ({"train": {"batch_size": 0}}, "train.batch_size = 0 is refused; allowed: a whole number from 1"),
        ({"train": {"learning_rate": "fast"}}, "train.learning_rate = 'fast' is refused"),
    ],
)
def test_other_keys_are_refused(table: Mapping[str, Mapping[str, object]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SMALL.changed(table)


def test_a_cell_is_described_by_all_but_its_name_and_seed() -> None:
    assert SMALL.describe() == SMALL.seeded(3).describe() == replace(SMALL, arm="other").describe()
    descriptions = [str(cell.describe()) for cell in (SMALL, FLIPPED, REDRAWN, SIGNS, SMALL.lasting(4))]
    assert len(set(descriptions)) == 5
    for cell in (SMALL, FLIPPED, REDRAWN, SIGNS):
        assert json.loads(json.dumps(cell.describe())) == cell.describe(), "so that a run can go on"
    assert SMALL.data_sets == ("criteo",)
    assert cell_name(SMALL) == "small, seed 0"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "dev.tsv.gz cannot be read"),
        (gzip.compress(b"1\t2\n", mtime=0), "dev.tsv.gz, line 1: 2 columns; allowed: 40, tab-separated"),
        (b"no gzip", "dev.tsv.gz cannot be read"),
    ],
)
def test_rows_that_can_not_be_used_are_found_before_anything_is_written(content, said, tmp_path, one_line):
    data, out = written(tmp_path / "data"), tmp_path / "out"
    (data / FILES[1]).unlink()
    if content is not None:
        (data / FILES[1]).write_bytes(content)
    line = one_line(main, ["run", "label-dp", "--data-dir", str(data), "--out", str(out)])
    assert line.startswith("scenarios: data set criteo: ")
    assert said in line
    assert "--data-dir" in line
    assert not out.exists()


def test_a_third_party_or_an_unknown_label_mechanism_is_refused_before_a_run(folder, tmp_path, one_line):
    argv = ["run", "label-dp", "--peers", "3", "--data-dir", str(folder), "--out", str(tmp_path / "out")]
    assert "--peers 3: vertical learning here has two parties" in one_line(main, argv)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match=r"'nowhere\.at:All' cannot be imported"):
        replace(SMALL, labels=LabelChoice("nowhere.at:All")).check(room(folder))


def test_rows_of_two_parties_are_listed_with_the_others_and_loaded_as_what_they_are(folder, tmp_path, capsys):
    assert set(ALL) == {*SOURCES, *VERTICAL}
    assert main(["data", "--data-dir", str(folder)]) == 0
    listed = next(line for line in capsys.readouterr().out.splitlines() if "criteo" in line)
    assert "kB" in listed
    assert main(["data", "criteo", "--data-dir", str(folder)]) == 0
    assert all(str(folder / name) in capsys.readouterr().out.replace("\n", "") for name in FILES[:1])
    with pytest.raises(ConfigError) as refused:
        load_vertical("criteo", tmp_path)
    said = str(refused.value)
    assert "data set criteo: " in said
    assert f"{tmp_path}/criteo/" in said
    assert "scenarios data criteo" in said
    assert "\n" not in said
    assert len(load_vertical("criteo", folder).train.labels) == ROWS[0]
    with pytest.raises(ConfigError, match="data set 'criteo' is unknown; allowed: digits, "):
        load("criteo", folder, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="data set 'digits' is unknown; allowed: criteo"):
        load_vertical("digits", folder)


def test_the_follower_reads_labels_from_signs_and_votes_over_epochs() -> None:
    """Most of a batch is taken for 0, whichever sign that has; what a row was most often is its guess."""
    labels = np.array([0, 0, 0, 1, 1, 0])
    readings = Readings(6)
    up, rows = np.where(labels == 1, -0.3, 0.7), np.arange(6)
    for turned in (1, -1, 1):  # the top's weight may change its sign
        gradients = np.stack([np.zeros(6), turned * up], axis=1).astype(np.float32)
        readings.see(Request(1, 1, True, rows), gradients)
    assert readings.accuracy(labels) == 1.0
    wrong = np.stack([np.zeros(2), np.array([-0.1, 0.2])], axis=1).astype(np.float32)
    readings.see(Request(2, 1, True, np.array([0, 1])), wrong)
    assert readings.accuracy(labels) == 1.0, "one vote of four"


def test_what_is_told_of_predictions() -> None:
    huge = label_facts(np.array([0, 1]), np.array([-1e6, 1e6], np.float32))
    assert huge["log loss"] == pytest.approx(0, abs=1e-9)
    labels, logits = np.array([0, 0, 0, 1]), np.array([-2.0, -1.0, 0.5, 0.4], np.float32)
    facts = label_facts(labels, logits)
    assert facts["accuracy"] == 0.75
    assert facts["balanced accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert facts["majority rate"] == 0.75
    p = 1 / (1 + np.exp(-logits.astype(float)))
    expected = -np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p))
    assert facts["log loss"] == pytest.approx(expected, abs=1e-6)


def test_the_leader_asks_for_the_requests_of_the_plan_in_order(folder: Path) -> None:
    rows = room(folder).vertical("criteo")
    leaders, followers = dealt(rows)
    seen: list[Request] = []
    given: list[int] = []

    class Seeing(Beside):
        def exchange(self, request: Request, gradients: Floats) -> Floats:
            seen.append(request)
            given.append(len(gradients))
            return super().exchange(request, gradients)

    cell = SMALL.lasting(2)
    link = Seeing(follower_of(cell, followers, SystemWords()))
    plan = plan_of(cell, len(leaders.labels), len(leaders.evaluated_labels))
    outcome = epochs_of(cell, plan, leaders, link, SystemWords(), room(folder))
    expected = replayed(cell, folder)
    assert (outcome.figures, outcome.facts) == (expected.figures, expected.facts)
    assert [one.rows.tolist() for one in seen] == [one.rows.tolist() for one in plan.requests()]
    assert given == 2 * [0, 64, 64, 32, 0], "gradients go out once, with the next request"


def answers_of(cell: VerticalCell, folder: Path) -> Answers:
    leaders, followers = dealt(room(folder).vertical("criteo"))
    plan = plan_of(cell, len(leaders.labels), len(leaders.evaluated_labels))
    return Answers(plan, follower_of(cell, followers, SystemWords()))


def test_there_is_no_round_after_the_last(folder):
    node = answers_of(SMALL.lasting(1), folder)
    for number in range(1, 6):
        node.answer(0, number, np.zeros(node.shape(), np.float32))
    with pytest.raises(UserError, match="the leader is in round 6"):
        node.answer(0, 6, np.zeros(node.shape(), np.float32))


@dataclass
class Near:
    """A server whose only node answers at once, as `answer` does."""

    answer: Callable[[int, int, Floats], Floats] | None
    rounds: list[int] = field(default_factory=list)

    def gather(self, number: int, given: Floats, chosen: Sequence[int], shape: Shape) -> dict[int, Floats]:
        self.rounds.append(number)
        if self.answer is None:
            return {}
        outputs = self.answer(0, number, given)
        assert outputs.shape == shape
        return {0: outputs}


def test_rounds_of_a_federation_are_the_requests_of_the_plan(folder: Path) -> None:
    """A node's answers are what a follower beside the leader gives; both sides know all shapes."""
    cell, node = SMALL.lasting(2), answers_of(SMALL.lasting(2), folder)

    def answer(client: int, number: int, gradients: Floats) -> Floats:
        assert gradients.shape == node.shape()
        return node.answer(client, number, gradients)

    leaders, _ = dealt(room(folder).vertical("criteo"))
    plan = plan_of(cell, len(leaders.labels), len(leaders.evaluated_labels))
    wire = Wire(Near(answer))
    found = epochs_of(cell, plan, leaders, wire, SystemWords(), room(folder))
    expected = replayed(cell, folder)
    assert (found.figures, found.facts, found.series) == (expected.figures, expected.facts, expected.series)
    assert wire.server.rounds == list(range(1, 11))
    assert wire.waiting is None


def test_a_follower_that_does_not_answer_has_left_in_that_step_whoever_notices():
    wire = Wire(Near(None))
    with pytest.raises(UserError, match=r"^the follower left in step 3 of epoch 2; ") as caught:
        wire.exchange(Request(2, 3, True, np.arange(4)), np.zeros((4, 2), np.float32))
    assert caught.value.status == 1
    assert "judging batch 1 of epoch 5" in str(left(Request(5, 1, False, np.arange(4))))
    with pytest.raises(UserError, match=r"^the follower left in step 3 of epoch 2; "), named(wire):
        raise UserError("every client node is gone")
    with pytest.raises(UserError, match=r"^training diverged in epoch 1"), named(Wire(Near(None))):
        raise diverged(1)


@pytest.mark.parametrize("number", [1, 3, 10**9])
def test_a_round_that_is_not_the_next_is_refused(number: int, folder: Path) -> None:
    node = answers_of(SMALL, folder)
    node.answer(0, 1, np.zeros(node.shape(), np.float32))
    with pytest.raises(UserError, match=f"leader is in round {number}, the follower in 2: one began anew"):
        node.answer(0, number, np.zeros(node.shape(), np.float32))
