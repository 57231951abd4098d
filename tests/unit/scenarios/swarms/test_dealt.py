"""Cells with rows of a published data set: how they are dealt, what may be changed, what is replayed."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from node.system.errors import ConfigError
from node.training.figures.headline import Headline
from node.training.trainer import Evaluation
from scenarios.study.cells import Outcome
from scenarios.swarms import dealt
from tests.dealt_cells import LOCAL, MODEL, SHARED, Table, peers, room, server
from tests.unit.scenarios.refusals import refused


def run(cell: dealt.Dealt) -> Outcome:
    cell.check(room())
    return cell.replay(room())


def test_every_row_is_dealt_once_in_equal_parts_and_scaled_alike():
    dataset = room().dataset("digits", 0)
    parts = dealt.parts_of(dataset, 5, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(1438))
    assert {len(part) for part in parts} == {287, 288}
    assert [part.tolist() for part in parts] == [part.tolist() for part in dealt.parts_of(dataset, 5, 0)]
    assert parts[0].tolist() != dealt.parts_of(dataset, 5, 1)[0].tolist()
    assert dealt.parts_of(dataset, 1, 0)[0].tolist() == list(range(1438))
    whole = room().dataset("digits", 0)
    found = replace(peers(), scale=(0.5, 0.25)).dataset(room())
    np.testing.assert_allclose(found.train_x, (whole.train_x - 0.5) / 0.25, rtol=1e-6)
    np.testing.assert_allclose(found.test_x, (whole.test_x - 0.5) / 0.25, rtol=1e-6)
    assert found.train_x.dtype == np.float32
    np.testing.assert_array_equal(peers().dataset(room()).train_x, whole.train_x)
    assert replace(peers(), scale=(0.5, 0.25)).describe() != peers().describe()


def test_keys_go_to_the_arms_that_have_them_and_seeds_into_no_description():
    table = {"train": {"steps": 4, "epochs": 3, "learning_rate": 0.5}}
    shared, local = peers().changed(table), peers(LOCAL).changed(table)
    assert (shared.task.train.steps, shared.task.train.learning_rate) == (4, 0.5)
    assert (local.task.train.epochs, local.task.train.learning_rate) == (3, 0.5)
    assert local.task.train.steps is None
    assert server().changed(table).task.train == shared.task.train
    other = peers().seeded(7)
    assert (other.seed, other.task.task.seed, other.arm, other.data_sets) == (7, 7, "arm", ("digits",))
    assert other.describe() == peers().describe()
    assert server().describe() != peers().describe()
    assert peers().lasting(5).describe() != peers().describe()
    json.dumps(peers().describe())
    assert pickle.loads(pickle.dumps(other)) == other


def test_rounds_are_of_as_many_steps_and_a_group_has_all_peers():
    longer = peers().lasting(5)
    assert (longer.rounds, longer.task.train.steps, longer.task.train.report_every) == (5, 15, 3)
    assert peers(LOCAL).lasting(5).rounds == 5
    nine = peers().among(9)
    assert (nine.peers, nine.parties, nine.task.aggregation.min_participants) == (9, 9, 9)
    assert peers(LOCAL).among(9).peers == 9
    assert server().among(9) == server()
    with pytest.raises(ConfigError, match=r"--peers 99: allowed are 3 .* to 64|min_participants"):
        peers(LOCAL).among(99)
    alone = {**SHARED, "privacy": {**SHARED["privacy"], "honest": 4}}
    with pytest.raises(ConfigError, match=r"privacy\.honest = 4"):
        peers(alone).among(4)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (replace(peers(), rows="mnist"), "scenarios data mnist"),
        (replace(peers(), rows="fashion-mnist"), "scenarios data fashion-mnist --data-dir nowhere`"),
        (peers({**SHARED, "model": {**MODEL, "args": {"sizes": [3, 10]}}}), "does not take rows of 64"),
        (replace(peers(LOCAL), peers=2000), "1438 training rows for 2000 peers"),
        (peers({**LOCAL, "privacy": {"mechanism": "tests.own_mechanisms:Raising"}}), "out of order"),
    ],
)
def test_what_cannot_run_is_one_line_before_anything_is_started(cell: dealt.PeersCell, said: str) -> None:
    with refused(said):
        cell.check(room())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"task": {"seed": 3}}, "--seed sets the first"),
        ({"train": {"optimizer": "adamw"}}, "same bits"),
        ({"colour": {"red": 1}}, "colour"),
    ],
)
def test_what_cannot_be_changed_is_one_line(table: Table, said: str) -> None:
    with refused(said):
        peers().changed(table)


def test_shared_noise_is_replayed_with_its_facts() -> None:
    said: list[tuple[int, float]] = []
    outcome = peers().replay(replace(room(), say=lambda number, figure: said.append((number, figure))))
    assert said == list(enumerate(outcome.figures, start=1))
    assert outcome.facts["model sha256"] == run(peers()).facts["model sha256"]
    assert outcome.facts["model sha256"] != run(peers().seeded(1)).facts["model sha256"]
    facts = outcome.facts
    assert (facts["stated"], facts[dealt.HONEST], facts[dealt.FACTOR], facts[dealt.WORDS]) == (
        3.0,
        2,
        5 / 3,
        610,
    )
    spent, alone = facts["epsilon"], facts[dealt.with_honest(0)]
    assert 2 < spent < 3 < alone
    assert facts[dealt.with_honest(2)] == spent
    assert isinstance(facts[dealt.GRADIENT_S], float)


def test_a_server_has_the_noise_of_one_or_none_and_each_for_itself_no_shared_noise():
    facts = run(server()).facts
    assert (facts["stated"], facts[dealt.HONEST], facts[dealt.FACTOR]) == (3.0, None, 1.0)
    assert facts[dealt.with_honest(0)] is None
    assert "a server that sees all rows" in str(facts["protects"])
    table = {**LOCAL, "privacy": {"mechanism": "none"}, "train": {"rounds": 3, "epochs": 2}}
    outcome = run(server(table))
    assert outcome.final > 0.8
    assert outcome.facts["epsilon"] is None
    assert "nothing" in str(outcome.facts["protects"])
    facts = run(peers(LOCAL)).facts
    assert facts["stated"] == 3.0
    assert dealt.FACTOR not in facts
    assert not [name for name in facts if name.startswith("epsilon with")]
    assert dealt.honest_facts(None) == {}
    assert dealt.honest_facts({"epsilon_spent": 1.0}) == {}
    found = dealt.honest_facts({"epsilon_by_honest": {"2": 3.0, "0": None}})  # as a summary says infinity
    assert found == {dealt.with_honest(2): 3.0, dealt.with_honest(0): None}


def test_figures_may_be_areas_under_the_curve() -> None:
    easy = {"privacy": {"epsilon": 1000}, "train": {"learning_rate": 0.3}}
    outcome = run(peers(measure=dealt.AUC).changed(easy).lasting(8))
    accuracy = run(peers().changed(easy).lasting(8))
    assert outcome.final > 0.9 > accuracy.final - 0.1
    assert outcome.final > accuracy.final
    undefined = Evaluation(0.5, 1.0, {"auc": None}, Headline("auc", None, 0.5))
    assert (dealt.measured(undefined, dealt.AUC), dealt.measured(undefined, dealt.ACCURACY)) == (0.0, 0.5)
