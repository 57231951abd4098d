"""The swarm under the other mechanisms: the node's own training and mechanisms, with noise from a seed."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mechanisms.accounting import Ledger, spent
from node.config import load_task
from node.data import load_dataset
from node.privacy import facts, make_mechanism
from node.training import shapes
from scenarios.progress import Display, Lines
from scenarios.replay_worker import ReplayedPeer, replay, run_replay
from scenarios.replays import PrivateCurve, Replay, replays, run_replays
from scenarios.swarm import SwarmPlan

PEERS, ROUNDS = 3, 2
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", f"train.rounds={ROUNDS}")


def swarm_plan(folder: Path, mechanism: str, *overrides: str, rounds: int = ROUNDS) -> SwarmPlan:
    task = load_task("digits", [f"privacy.mechanism={mechanism}", *SMALL, *overrides])
    return SwarmPlan(task, PEERS, rounds, folder)


def job(folder: Path, mechanism: str, *overrides: str, rounds: int = ROUNDS) -> Replay:
    """The replay of `mechanism`, whatever the real peers ran."""
    plan = swarm_plan(folder, "tests.own_mechanisms:Counting", *overrides, rounds=rounds)
    return next(one for one in replays(plan) if one.name == mechanism)


def silent() -> Display:
    return Lines(Console(file=io.StringIO()), ROUNDS)


@pytest.mark.parametrize(
    ("chosen", "compared"),
    [
        ("none", []),
        ("dp-sgd", ["aldp", "ldp"]),
        ("ldp", ["dp-sgd", "aldp"]),
        ("aldp", ["dp-sgd", "ldp"]),
        ("my.own:Mechanism", ["dp-sgd", "aldp", "ldp"]),
    ],
)
def test_the_mechanisms_that_the_real_peers_did_not_run_are_replayed(tmp_path, chosen, compared):
    queue = replays(swarm_plan(tmp_path, chosen))
    assert [one.name for one in queue] == compared
    assert len({one.path for one in queue} | {one.log for one in queue}) == 2 * len(compared)


def test_a_replay_has_the_peers_batch_seeds_and_budget_and_is_calibrated_exactly(tmp_path):
    plan = swarm_plan(tmp_path, "aldp", "privacy.calibration=linear-classic", "privacy.epsilon=3")
    for one in replays(plan):
        assert one.batch_seeds == tuple(plan.batch_seed(peer) for peer in range(PEERS))
        assert (one.rounds, one.task.privacy.calibration, one.task.privacy.epsilon) == (ROUNDS, "exact", 3.0)
        assert one.task.train == plan.task.train


@pytest.mark.parametrize("mechanism", ["dp-sgd", "aldp", "ldp"])
def test_a_replay_spends_what_real_peers_would_and_is_the_same_twice(tmp_path, mechanism):
    curve, again = (replay(job(tmp_path, mechanism)) for _ in range(2))
    assert curve == again
    assert (curve.mechanism, len(curve.accuracy), len(curve.epsilon)) == (mechanism, ROUNDS, ROUNDS)
    assert curve.final == curve.accuracy[-1]
    assert 0 < curve.epsilon[0] < curve.epsilon[1] <= 8.0 * (1 + 1e-9)
    assert curve.epsilon[1] == pytest.approx(8.0, rel=0.01)
    assert curve.privacy["epsilon_spent"] == curve.epsilon[-1]
    assert curve.privacy["mechanism"] == mechanism


def test_every_peer_is_charged_as_its_ledger_would_be(tmp_path):
    work = job(tmp_path, "dp-sgd")
    for number in range(PEERS):
        peer = ReplayedPeer(work, number)
        base = peer.trainer.vector()
        shard = load_dataset(work.task, None, (number, PEERS))
        assert peer.trainer._dataset.train_x.equal(shard.train_x)
        mechanism = make_mechanism(work.task, shapes(peer.trainer._model, "*"), len(shard.train_y))
        assert peer.offer(base, 1) is not None
        assert peer.ledger() == facts(mechanism, Ledger.of(mechanism.per_training))
        assert peer.offer(base, 2) is not None
        assert peer.ledger()["epsilon_spent"] == spent(Ledger.of(mechanism.per_training * 2), 1e-5).epsilon
        assert peer.offer(base, 3) is None, "the budget is for two rounds"


def test_an_adaptive_radius_is_remembered_from_offer_to_offer(tmp_path):
    peer = ReplayedPeer(job(tmp_path, "aldp"), 0)
    base = peer.trainer.vector()
    for number in (1, 2):
        peer.offer(base, number)
        assert len(peer.memory[0]) == number


def test_what_an_aggregate_teaches_is_remembered(tmp_path):
    """With a window over aggregates the radius of round 2 follows what round 1 gave."""
    raw, aggregate = (
        replay(job(tmp_path, "aldp", f"privacy.window_source={source}")) for source in ("raw", "aggregate")
    )
    assert raw.accuracy[0] == aggregate.accuracy[0]
    assert raw.accuracy[1] != aggregate.accuracy[1]


def test_no_two_peers_have_the_same_noise(tmp_path):
    work = job(tmp_path, "ldp")
    offers = []
    for number in range(PEERS):
        peer = ReplayedPeer(work, number)
        offers.append(peer.offer(peer.trainer.vector(), 1))
    correlation = np.corrcoef(offers) - np.eye(PEERS)
    assert np.abs(correlation).max() < 0.2


def test_rounds_beyond_the_budget_leave_the_model_and_epsilon_as_they_are(tmp_path):
    curve = replay(job(tmp_path, "ldp", rounds=ROUNDS + 2))
    assert curve.accuracy[1:] == (curve.accuracy[1],) * 3
    assert curve.epsilon[1:] == (curve.epsilon[1],) * 3


def test_more_noise_learns_less(tmp_path):
    loud, quiet = (
        replay(job(tmp_path, "dp-sgd", f"privacy.epsilon={epsilon}", "train.learning_rate=0.5"))
        for epsilon in (0.1, 50)
    )
    assert loud.final < quiet.final


def test_a_curve_is_left_as_json_and_read_again_instead_of_replayed(tmp_path, capsys):
    plan = swarm_plan(tmp_path, "dp-sgd")
    for one in replays(plan):
        one.path.parent.mkdir(exist_ok=True)
        assert run_replay(one) == 0
    written = json.loads((tmp_path / "baselines" / "ldp.json").read_text())
    assert capsys.readouterr().out.count("round 2: accuracy") == 2
    curves = run_replays(plan, silent())
    assert [curve.mechanism for curve in curves] == ["aldp", "ldp"]
    assert all(isinstance(curve, PrivateCurve) for curve in curves)
    assert list(curves[1].accuracy) == written["accuracy"]


def test_without_privacy_nothing_is_replayed(tmp_path):
    assert run_replays(swarm_plan(tmp_path, "none"), silent()) == ()
    assert not (tmp_path / "baselines").exists()
