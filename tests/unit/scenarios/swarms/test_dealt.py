"""Cells with rows of a published data set: how they are dealt, what may be changed, features, real nodes."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from node.errors import ConfigError
from node.models.scattering import Scattering
from node.training.build import make
from node.training.trainer import Evaluation
from scenarios.data.images import MNIST_FILES
from scenarios.engines.room import LocalRoom
from scenarios.study.cells import Outcome
from scenarios.swarms.dealt import (
    ACCURACY,
    AUC,
    FACTOR,
    FAILED,
    GRADIENT_S,
    HONEST,
    STEP_BYTES,
    STEP_S,
    WORDS,
    Dealt,
    PeersCell,
    ServerCell,
    dealt_to,
    features_folder,
    honest_facts,
    lowest_measured,
    measured,
    node_facts,
    parts_of,
    with_features,
    with_honest,
)
from scenarios.swarms.history import PhaseCost, Round
from scenarios.swarms.nodes import PeerRun
from scenarios.swarms.results import SwarmResults

Table = Mapping[str, Mapping[str, Any]]

MODEL = {"class": "node.models:MLP", "args": {"sizes": [64, 8, 10]}}
SHARED: Table = {
    "task": {"name": "digits"},
    "model": MODEL,
    "train": {"expected_rows": 1438, "steps": 6, "report_every": 3},
    "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 3, "honest": 2},
    "aggregation": {"min_participants": 5},
}
LOCAL: Table = {
    "task": {"name": "digits"},
    "model": MODEL,
    "train": {"rounds": 2, "epochs": 1, "batch_size": 64},
    "privacy": {"mechanism": "dp-sgd", "epsilon": 3},
}


def peers(table: Table = SHARED, measure: str = ACCURACY) -> PeersCell:
    return PeersCell("arm", table, "digits", measure, peers=5)


def server(table: Table = SHARED) -> ServerCell:
    return ServerCell("arm", table, "digits", ACCURACY)


def room(folder: Path = Path("nowhere")) -> LocalRoom:
    return LocalRoom(folder, 1, lambda number, figure: None)


def run(cell: Dealt) -> Outcome:
    cell.check(room())
    return cell.replay(room())


# -- rows --------------------------------------------------------------------------------------------------


def test_every_row_is_dealt_once_in_equal_parts_by_the_seed() -> None:
    dataset = room().dataset("digits", 0)
    parts = parts_of(dataset, 5, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(1438))
    assert {len(part) for part in parts} == {287, 288}
    assert [part.tolist() for part in parts] == [part.tolist() for part in parts_of(dataset, 5, 0)]
    assert parts[0].tolist() != parts_of(dataset, 5, 1)[0].tolist()
    assert parts_of(dataset, 1, 0)[0].tolist() == list(range(1438))


def test_a_node_is_handed_its_part_and_the_common_test_rows() -> None:
    cell, dataset = peers(), room().dataset("digits", 0)
    dealt = dealt_to(cell, dataset)
    for rows, part in zip(dealt, parts_of(dataset, 5, 0), strict=True):
        np.testing.assert_array_equal(rows.train_x, dataset.train_x[part])
        np.testing.assert_array_equal(rows.train_y, dataset.train_y[part])
        np.testing.assert_array_equal(rows.test_x, dataset.test_x)


# -- what may be changed -----------------------------------------------------------------------------------


def test_keys_go_to_the_arms_that_have_them() -> None:
    table = {"train": {"steps": 4, "epochs": 3, "learning_rate": 0.5}}
    shared, local = peers().changed(table), peers(LOCAL).changed(table)
    assert (shared.task.train.steps, shared.task.train.learning_rate) == (4, 0.5)
    assert (local.task.train.epochs, local.task.train.learning_rate) == (3, 0.5)
    assert local.task.train.steps is None
    assert server().changed(table).task.train == shared.task.train


def test_rounds_are_of_as_many_steps_and_the_budget_is_for_them() -> None:
    longer = peers().lasting(5)
    assert (longer.rounds, longer.task.train.steps, longer.task.train.report_every) == (5, 15, 3)
    assert peers(LOCAL).lasting(5).rounds == 5


def test_a_group_has_all_peers() -> None:
    nine = peers().among(9)
    assert (nine.peers, nine.parties, nine.task.aggregation.min_participants) == (9, 9, 9)
    assert peers(LOCAL).among(9).peers == 9
    assert server().among(9) == server()
    with pytest.raises(ConfigError, match=r"--peers 99: allowed are 3 .* to 64|min_participants"):
        peers(LOCAL).among(99)
    alone = {**SHARED, "privacy": {**SHARED["privacy"], "honest": 4}}
    with pytest.raises(ConfigError, match=r"privacy\.honest = 4"):
        peers(alone).among(4)


def test_seeds_and_descriptions() -> None:
    other = peers().seeded(7)
    assert (other.seed, other.task.task.seed, other.arm, other.data_sets) == (7, 7, "arm", ("digits",))
    assert other.describe() == peers().describe()
    assert server().describe() != peers().describe()
    assert peers().lasting(5).describe() != peers().describe()
    json.dumps(peers().describe())
    assert pickle.loads(pickle.dumps(other)) == other


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (replace(peers(), rows="mnist"), "scenarios data mnist"),
        (replace(peers(), rows="fashion-mnist"), "fashion_mnist/, or name a folder"),
        (peers({**SHARED, "model": {**MODEL, "args": {"sizes": [3, 10]}}}), "does not take rows of 64"),
        (replace(peers(LOCAL), peers=2000), "1438 training rows for 2000 peers"),
        (peers({**LOCAL, "privacy": {"mechanism": "tests.own_mechanisms:Raising"}}), "out of order"),
    ],
)
def test_what_cannot_run_is_one_line_before_anything_is_started(cell: PeersCell, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        cell.check(room())
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"task": {"seed": 3}}, "--seed sets the first"),
        ({"train": {"optimizer": "adamw"}}, "same bits"),
        ({"colour": {"red": 1}}, "colour"),
    ],
)
def test_what_cannot_be_changed_is_one_line(table: Table, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        peers().changed(table)
    assert said in str(refused.value)


# -- replays -----------------------------------------------------------------------------------------------


def test_shared_noise_is_replayed_with_its_facts() -> None:
    said: list[tuple[int, float]] = []
    outcome = peers().replay(
        LocalRoom(Path("nowhere"), 1, lambda number, figure: said.append((number, figure)))
    )
    assert said == list(enumerate(outcome.figures, start=1))
    assert outcome.facts["model sha256"] == run(peers()).facts["model sha256"]
    assert outcome.facts["model sha256"] != run(peers().seeded(1)).facts["model sha256"]
    facts = outcome.facts
    assert (facts["stated"], facts[HONEST], facts[FACTOR], facts[WORDS]) == (3.0, 2, 5 / 3, 610)
    spent, alone = facts["epsilon"], facts[with_honest(0)]
    assert isinstance(spent, float)
    assert isinstance(alone, float)
    assert 2 < spent < 3 < alone
    assert facts[with_honest(2)] == spent
    assert isinstance(facts[GRADIENT_S], float)


def test_a_server_has_the_noise_of_one_and_trusts_nobody_else() -> None:
    facts = run(server()).facts
    assert (facts["stated"], facts[HONEST], facts[FACTOR]) == (3.0, None, 1.0)
    assert facts[with_honest(0)] is None
    assert "a server that sees all rows" in str(facts["protects"])


def test_a_server_without_privacy_trains_on_all_rows() -> None:
    table = {**LOCAL, "privacy": {"mechanism": "none"}, "train": {"rounds": 3, "epochs": 2}}
    outcome = run(server(table))
    assert outcome.final > 0.8
    assert outcome.facts["epsilon"] is None
    assert "nothing" in str(outcome.facts["protects"])


def test_each_for_itself_is_replayed_by_the_usual_swarm() -> None:
    facts = run(peers(LOCAL)).facts
    assert facts["stated"] == 3.0
    assert FACTOR not in facts
    assert not [name for name in facts if name.startswith("epsilon with")]


def test_figures_may_be_areas_under_the_curve() -> None:
    outcome = run(peers(measure=AUC).changed({"privacy": {"epsilon": 1000}}).lasting(8))
    accuracy = run(peers().changed({"privacy": {"epsilon": 1000}}).lasting(8))
    assert outcome.final > 0.9 > accuracy.final - 0.1
    assert outcome.final > accuracy.final
    undefined = Evaluation(0.5, 1.0, {"auc": None})
    assert (measured(undefined, AUC), measured(undefined, ACCURACY)) == (0.0, 0.5)


def test_a_ledger_without_shared_noise_has_no_honest_members() -> None:
    assert honest_facts(None) == {}
    assert honest_facts({"epsilon_spent": 1.0}) == {}
    found = honest_facts({"epsilon_by_honest": {"2": 3.0, "0": float("inf")}})
    assert found == {with_honest(2): 3.0, with_honest(0): None}


# -- features ----------------------------------------------------------------------------------------------


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder with a tiny MNIST."""
    rng = np.random.default_rng(3)
    for place, rows in ((0, 40), (2, 12)):
        for name, values in (
            (MNIST_FILES[place], rng.integers(0, 256, (rows, 28, 28))),
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
        "args": {"shape": [1, 28, 28], "outputs": 10},
        "body": "body",
    },
    "train": {"expected_rows": 40, "steps": 2, "report_every": 1},
    "privacy": {"mechanism": "distributed-dp-sgd", "epsilon": 3, "honest": 1},
}


def test_features_and_their_head_are_the_model_and_are_computed_once(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert features.train_x.shape == (40, 3969)
    assert task.privacy == cell.task.privacy
    assert task.train.learning_rate == cell.task.train.learning_rate, "that of a frozen body"
    written = {file: file.stat().st_mtime_ns for file in features_folder().iterdir()}
    assert len(written) == 2
    assert features_folder().is_relative_to(tmp_path / "cache")
    with_features(cell.task, dataset)
    assert {file: file.stat().st_mtime_ns for file in features_folder().iterdir()} == written
    cell.check(room(images))
    assert len(cell.replay(room(images)).figures) == 2


def test_a_model_without_body_keeps_its_rows() -> None:
    dataset = room().dataset("digits", 0)
    task, same = with_features(peers().task, dataset)
    assert same is dataset
    assert task == peers().task


def test_only_scattering_has_a_body_here() -> None:
    table = {**SHARED, "model": {**MODEL, "body": "layers.0"}}
    with pytest.raises(ConfigError, match="allowed: Scattering"):
        with_features(peers(table).task, room().dataset("digits", 0))


def test_features_that_cannot_be_kept_are_one_line(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cell = PeersCell("arm", SCATTERING, "mnist", ACCURACY, peers=3)
    with pytest.raises(Exception, match="the features cannot be kept") as refused:
        with_features(cell.task, room(images).dataset("mnist", 0))
    assert "\n" not in str(refused.value)


# -- real nodes --------------------------------------------------------------------------------------------


def a_round(number: int, accuracy: float, auc: float | None = 0.8, **more: Any) -> Round:
    phases = {"train": PhaseCost(0.3, 0, 0), "sums": PhaseCost(0.6, 9000, 0)}
    values: dict[str, Any] = {"outcome": "aggregated", "steps": 3, "bytes_sent": 9000, **more}
    return Round(
        round=number,
        reason=None,
        accuracy=accuracy,
        epsilon=1.0,
        bytes_received=0,
        base_digest="ab",
        phases=phases,
        metrics={"auc": auc},
        **values,
    )


def test_figures_of_real_nodes_are_the_lowest_of_what_is_measured(results: SwarmResults) -> None:
    summary = results.peers[0].summary
    one = PeerRun(0, (a_round(1, 0.5, 0.7), a_round(2, 0.6, None)), summary)
    other = PeerRun(1, (a_round(1, 0.4, 0.9),), summary)
    assert lowest_measured((one, other), peers()) == (0.4, 0.6)
    assert lowest_measured((one, other), peers(measure=AUC)) == (0.7, 0.7)
    assert lowest_measured((PeerRun(0, (), summary),), peers()) == (0.0, 0.0)


def test_the_cost_of_steps_is_a_median_without_the_first_round(results: SwarmResults) -> None:
    summary = results.peers[0].summary
    rounds = (a_round(1, 0.5, bytes_sent=90_000), a_round(2, 0.6, steps_failed=2), a_round(3, 0.6, steps=0))
    facts = node_facts(peers(), (PeerRun(0, rounds, summary),))
    assert facts == {
        HONEST: 2,
        FACTOR: 5 / 3,
        STEP_S: pytest.approx(0.3),
        STEP_BYTES: 3000,
        FAILED: 2,
    }
    few = node_facts(peers(), (PeerRun(0, rounds[:1], summary),))
    assert (few[STEP_S], few[STEP_BYTES]) == (None, None)
    assert node_facts(peers(LOCAL), (PeerRun(0, rounds, summary),)) == {}
