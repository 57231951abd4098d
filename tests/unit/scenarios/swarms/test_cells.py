"""Swarms as cells: trained and charged as nodes are, and the same for the same seed."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from mechanisms.accounting.gaussian import classic_noise_multiplier
from mechanisms.accounting.ledger import Gaussian, Ledger, privacy_spent
from node.data.dataset import load_dataset
from node.runtime.privacy.budget import facts, make_mechanism
from node.system.errors import UserError
from node.task.load import load_task
from node.training.trainer import shapes
from scenarios.swarms.cells import SwarmCell, accuracy_of, each_round, lowest_figures, privacy_facts
from scenarios.swarms.progress import PeerProgress
from scenarios.swarms.replay import OneByOne, Swarm, Together, datasets_of, seeded_words
from tests.unit.scenarios.conftest import ROUNDS as SWARM_ROUNDS
from tests.unit.scenarios.conftest import ledger
from tests.unit.scenarios.refusals import refused
from tests.unit.scenarios.rooms import replayed as run
from tests.unit.scenarios.rooms import room

PEERS, ROUNDS, TENSORS = 3, 2, 4
RAW = ("privacy.window_source=raw", "privacy.public_radius=true")
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", f"train.rounds={ROUNDS}")
SALT = 7
CLASSIC = "privacy.calibration=linear-classic"


def cell(*overrides: str, arm: str = "arm", peers: int = PEERS) -> SwarmCell:
    return SwarmCell(arm, load_task("digits", [*SMALL, *overrides]), peers)


def private(mechanism: str, *overrides: str, arm: str = "arm") -> SwarmCell:
    return cell(f"privacy.mechanism={mechanism}", *overrides, arm=arm)


def swarm_of(one: SwarmCell) -> Swarm:
    return Swarm(one.task, datasets_of(one.task, one.peers), SALT)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("train.epochs=2", "train.batch_size=16", "train.weight_decay=0.1"),
        ("train.momentum=0.0", "train.grad_clip=0.1", "task.seed=3"),
    ],
)
def test_peers_trained_together_end_as_their_own_trainers_do(overrides: tuple[str, ...]) -> None:
    one = cell(*overrides)
    swarm = swarm_of(one)
    assert isinstance(swarm.training, Together)
    datasets = [load_dataset(one.task, None, (peer, PEERS)) for peer in range(PEERS)]
    alone = OneByOne(one.task, datasets, swarm.members)
    for number, peers in ((1, [0, 1, 2]), (2, [2, 0])):
        expected = alone.vectors(swarm.base, number, peers)
        trained = swarm.training.vectors(swarm.base, number, peers)
        np.testing.assert_allclose(trained, expected, atol=2e-6)
        assert np.abs(expected[0] - swarm.base).max() > 1e-3


@pytest.mark.parametrize(
    "overrides",
    [
        ("train.optimizer=adam", "train.learning_rate=0.01"),
        ("train.parameters='layers.2.*'",),
        ("privacy.mechanism=dp-sgd",),
        ("model.class=tests.own_models:Normed", "model.args={}"),
    ],
)
def test_what_is_not_plain_is_trained_peer_by_peer(overrides: tuple[str, ...]) -> None:
    task = load_task("digits", ["train.rounds=1", "train.epochs=1", *overrides])
    swarm = Swarm(task, datasets_of(task, PEERS), SALT)
    assert isinstance(swarm.training, OneByOne)
    assert 0 <= swarm.round(1) <= 1
    assert len(swarm.offers) == PEERS


def test_a_task_of_numbers_has_r_squared_and_diverging_is_one_line(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    rows = [f"{a},{b},{2 * a - b + 0.5}" for a, b in x]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    source = (f"data.source='{tmp_path / 'rows.csv'}'", "data.target=y")
    model = ("model.class=node.models:Linear", "model.args={inputs=2,outputs=1}", "train.rounds=5")
    task = load_task("digits", [*source, *model, "train.learning_rate=0.05"])
    assert run(SwarmCell("numbers", task, PEERS)).final > 0.99
    with pytest.raises(UserError, match=r"diverged in round 1; lower train\.learning_rate = 1000") as said:
        run(cell("train.learning_rate=1000", "train.weight_decay=1000", "train.epochs=5"))
    assert "\n" not in str(said.value)


def test_weights_by_samples_are_those_of_the_nodes() -> None:
    """Peers have different numbers of rows: the mean is the nodes' weighted one, not the plain one."""
    cap = 1000
    one = cell("aggregation.weighting=samples", f"aggregation.sample_cap={cap}")
    swarm, plain = swarm_of(one), swarm_of(cell())
    rows = [len(load_dataset(one.task, None, (peer, PEERS)).train_y) for peer in range(PEERS)]
    weights = np.minimum(np.array(rows) / cap, 1)
    start = swarm.base
    own = swarm.training.vectors(start, 1, range(PEERS))
    exact = start + weights @ (np.array(own) - start) / weights.sum()
    swarm.round(1)
    plain.round(1)
    assert len({*weights}) == PEERS
    np.testing.assert_allclose(swarm.base, exact, atol=1e-6)
    mean = start + np.mean(np.array(own) - start, axis=0)
    np.testing.assert_allclose(plain.base, mean, atol=1e-6)
    assert np.abs(mean - exact).max() > 1e-3


@pytest.mark.parametrize("mechanism", ["dp-sgd", "aldp"])
def test_every_peer_is_charged_as_its_ledger_would_be(mechanism: str) -> None:
    one = private(mechanism)
    swarm = swarm_of(one)
    for number in (1, 2, 3):
        swarm.round(number)
    for peer, member in enumerate(swarm.members):
        shard = load_dataset(one.task, None, (peer, PEERS))
        own = make_mechanism(one.task, shapes(swarm._evaluator._model, "*"), len(shard.train_y))
        charged = Ledger.of((*own.per_training, *own.per_offer) * ROUNDS)
        assert member.ledger == facts(own, charged), "the budget is for two rounds: the third costs nothing"
        assert not member.can_train


def test_an_adaptive_radius_is_remembered_and_peers_stop_at_the_end_of_their_own_budgets():
    swarm = swarm_of(private("aldp", *RAW, "privacy.clipping_radius=100"))
    for number in (1, 2):
        swarm.round(number)
        assert [len(member.memory[0]) for member in swarm.members] == [number] * PEERS
    radii = [offer.radius for offer in swarm.offers]
    assert len(set(radii)) == PEERS
    assert swarm.mean_of("radius") == pytest.approx(np.mean(radii))
    swarm = swarm_of(private("aldp", "privacy.window_source=aggregate"))
    swarm.members[0]._ledger = Ledger.of(swarm.members[0].mechanism.per_offer * ROUNDS)
    swarm.round(1)
    assert len(swarm.offers) == PEERS - 1
    assert [len(member.memory[0]) for member in swarm.members] == [1, 1, 1]


def test_what_an_aggregate_teaches_is_remembered() -> None:
    """With a window over one aggregate the radius of round 2 follows what round 1 gave."""
    wide = ("privacy.clipping_radius=100", "privacy.epsilon=100000", "privacy.window=1")
    raw, aggregate = (swarm_of(private("aldp", *source, *wide)) for source in (RAW, ()))
    for swarm in (raw, aggregate):
        swarm.round(1)
    assert np.array_equal(raw.base, aggregate.base)
    for swarm in (raw, aggregate):
        swarm.round(2)
    assert not np.array_equal(raw.base, aggregate.base)
    assert {offer.radius for offer in aggregate.offers} != {100.0}


def test_no_two_peers_and_no_two_arms_have_the_same_noise() -> None:
    task = private("ldp", "privacy.epsilon=0.1").task
    offers = []
    for salt in (1, 2):
        swarm = Swarm(task, datasets_of(task, PEERS), salt)
        swarm.round(1)
        offers += [offer.vector for offer in swarm.offers]
    correlation = np.corrcoef(offers) - np.eye(2 * PEERS)
    assert np.abs(correlation).max() < 0.2
    words = [np.empty(4, np.uint32) for _ in range(3)]
    for out, (seed, peer) in zip(words, ((0, 0), (1, 0), (0, 1)), strict=True):
        own = replace(task, task=replace(task.task, seed=seed))
        seeded_words(own, SALT, peer).fill(out)
    assert len({out.tobytes() for out in words}) == 3


def test_the_same_cell_gives_the_same_whatever_ran_before_and_however_many_threads() -> None:
    torch.set_num_threads(2)
    one = private("aldp")
    first = run(one)
    run(one.seeded(1))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    again = run(one)
    assert (first.figures, first.facts) == (again.figures, again.facts)
    assert run(replace(one, arm="other")).facts["model sha256"] != first.facts["model sha256"]
    assert run(one.seeded(1)).facts["model sha256"] != first.facts["model sha256"]


def test_a_cell_says_each_round_and_what_it_does_not_promise() -> None:
    said: list[tuple[int, float]] = []
    outcome = cell().replay(room(say=lambda number, figure: said.append((number, figure))))
    assert said == [(1, outcome.figures[0]), (2, outcome.figures[1])]
    assert outcome.seconds > 0
    names = ("epsilon", "stated", "delta", "unit", "radius", "noise_std")
    assert [outcome.facts[name] for name in names] == [None] * 6
    assert "no noise" in str(outcome.facts["protects"])
    assert outcome.facts["metric"] == "accuracy"


def test_facts_are_those_of_the_ledger_and_of_the_last_offers() -> None:
    classic = ("privacy.calibration=linear-classic", "privacy.public_radius=true")
    facts = run(private("aldp", *classic, "privacy.clipping_radius=0.5")).facts
    assert facts["stated"] == 8.0
    epsilon, noise_std = facts["epsilon"], facts["noise_std"]
    assert epsilon > 8.0, "the classic formula is false at 4 a round, and four tensors have it each"
    assert (facts["delta"], facts["radius"]) == (1e-5, 0.5)
    multiplier = classic_noise_multiplier(8.0 / ROUNDS, 1e-5 / ROUNDS, replay=True)
    assert noise_std == pytest.approx(2 * 0.5 * multiplier)
    assert epsilon == privacy_spent(Ledger.of([Gaussian(multiplier)] * TENSORS * ROUNDS), 1e-5).epsilon
    assert "one node's whole data set" in str(facts["unit"])
    assert "the clipping radii" in str(facts["outside"])


def test_a_mechanism_of_ones_own_is_an_arm_and_an_infinite_epsilon_is_none():
    facts = run(private("tests.own_mechanisms:Counting", "privacy.epsilon=20")).facts
    assert facts["protects"] == "a half of your update stays at home"
    assert facts["epsilon"] == privacy_spent(Ledger.of([Gaussian(1.0)] * ROUNDS), 1e-5).epsilon
    found = privacy_facts({**ledger("aldp", float("inf"))}, "")
    assert (found["epsilon"], found["stated"]) == (None, 8.0)
    json.dumps(found, allow_nan=False)


def test_descriptions_are_equal_exactly_for_the_same_arm_and_any_key_can_be_changed():
    one = private("aldp")
    described = json.loads(json.dumps(one.describe(), allow_nan=False))
    assert described == json.loads(json.dumps(one.seeded(5).describe()))
    assert "seed" not in described["task"]
    others = [one.among(4), one.lasting(3), one.changed({"privacy": {"epsilon": 9}})]
    assert all(json.loads(json.dumps(other.describe())) != described for other in others)
    assert pickle.loads(pickle.dumps(one)) == one
    one = private("aldp", "aggregation.group_timeout_s=9", "data.test_fraction=0.3", "train.grad_clip=3")
    other = one.changed({"privacy": {"epsilon": 2.5}, "model": {"class": "node.models:Linear"}})
    assert (other.task.privacy.epsilon, other.task.privacy.mechanism) == (2.5, "aldp")
    assert other.task.model.cls == "node.models:Linear"
    assert (other.task.aggregation, other.task.data) == (one.task.aggregation, one.task.data)
    assert (other.task.train, one.changed({})) == (one.task.train, one)
    assert (one.seeded(4).seed, one.lasting(7).rounds, one.among(9).peers) == (4, 7, 9)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"privacy": {"epsilon": -1}}, "privacy.epsilon = -1"),
        ({"privacy": {"epsilom": 1}}, "privacy.epsilom"),
        ({"ray": {"address": "auto"}}, "'ray' is not a known section"),
        ({"task": {"seed": 3}}, "--set task.seed=3: --seed"),
        ({"train": {"rounds": 0}}, "train.rounds = 0"),
        (2, "--peers 2: allowed are 3 (aggregation.min_participants) to 64"),
        (65, "--peers 65: allowed are 3 (aggregation.min_participants) to 64"),
    ],
)
def test_what_cannot_be_changed_is_one_line(table: dict[str, dict[str, object]] | int, said: str) -> None:
    with refused(said):
        cell().among(table) if isinstance(table, int) else cell().changed(table)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("privacy.mechanism=aldp", CLASSIC, "privacy.window_source=aggregate"), "raw"),
        (("privacy.mechanism=tests.own_mechanisms:Raising",), "the noise machine is out of order"),
        (("model.args.sizes=[3,10]",), "does not take rows of 64"),
        (("data.source='nowhere.csv'",), "nowhere.csv"),
    ],
)
def test_what_cannot_run_is_found_before(overrides: tuple[str, ...], said: str) -> None:
    with refused(said):
        cell(*overrides).check(room())
    cell().check(room())
    assert cell().data_sets == ()


def test_the_figures_of_real_nodes_are_the_lowest_of_each_round_and_said_when_all_have_ended_it(results):
    third = results.peers[2]
    worse = replace(third.rounds[4], accuracy=0.01)
    missing = replace(third, rounds=(*third.rounds[:4], worse, *third.rounds[6:]))
    figures = lowest_figures((*results.peers[:2], missing), SWARM_ROUNDS, accuracy_of)
    expected = [entry.accuracy for entry in third.rounds]
    assert figures == (*expected[:4], 0.01, *expected[5:]), "in the sixth round the others count"
    assert lowest_figures([replace(third, rounds=third.rounds[1:3])], 5, accuracy_of) == (
        0.0,
        *expected[1:3],
        *expected[2:3] * 2,
    )
    said: list[tuple[int, float]] = []
    tell = each_round(lambda number, figure: said.append((number, figure)))
    for rounds in ((0, 0), (1, 0), (1, 1), (2, 1), (3, 2), (3, 2)):
        tell([PeerProgress(number, number, 0, 0.5 + number / 10) for number in rounds])
    assert said == [(1, 0.6), (2, 0.7)]
