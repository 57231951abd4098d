"""The swarm under the other mechanisms: the node's own training and mechanisms, with seeded noise."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from node.system.errors import UserError
from node.task.load import load_task
from scenarios.frame.work import Call, do_here
from scenarios.swarms.baselines import PrivateCurve, replays, run_replays
from scenarios.swarms.history import amount
from scenarios.swarms.nodes import SwarmPlan
from scenarios.swarms.progress import Display, Lines
from scenarios.swarms.replay import Swarm, datasets_of, private_curve

PEERS, ROUNDS = 3, 2
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", f"train.rounds={ROUNDS}")


def swarm_plan(folder: Path, mechanism: str, *overrides: str, rounds: int = ROUNDS) -> SwarmPlan:
    task = load_task("digits", [f"privacy.mechanism={mechanism}", *SMALL, *overrides])
    return SwarmPlan(task, PEERS, rounds, folder)


def job(folder: Path, mechanism: str, *overrides: str, rounds: int = ROUNDS) -> Call:
    """Makes the replay of `mechanism`, whatever the real peers ran."""
    plan = swarm_plan(folder, "tests.own_mechanisms:Counting", *overrides, rounds=rounds)
    return next(one for one in replays(plan, plan.task.privacy.mechanism) if one.name == mechanism)


def replay(call: Call) -> PrivateCurve:
    curve: PrivateCurve = call.result(lambda number, figure: None)
    return curve


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
    queue = replays(swarm_plan(tmp_path, chosen), chosen)
    assert [one.name for one in queue] == compared
    assert len({one.path for one in queue} | {one.log for one in queue}) == 2 * len(compared)


def test_a_replay_has_the_peers_and_the_budget_an_exact_calibration_and_no_gate(tmp_path):
    classic = ("privacy.calibration=linear-classic", "privacy.public_radius=true")
    plan = swarm_plan(tmp_path, "aldp", *classic, "privacy.epsilon=3")
    for task, peers, rounds in (call.arguments for call in replays(plan, plan.task.privacy.mechanism)):
        assert (peers, rounds) == (PEERS, ROUNDS)
        assert (task.privacy.calibration, task.privacy.epsilon) == ("exact", 3.0)
        assert not task.privacy.public_radius
        assert task.train == plan.task.train
    plan = swarm_plan(tmp_path, "ldp", "aggregation.loss_gate=0.3", "aggregation.clip=2")
    tasks = [call.arguments[0] for call in replays(plan, plan.task.privacy.mechanism)]
    assert {(task.aggregation.loss_gate, task.aggregation.clip) for task in tasks} == {(None, 2.0)}


@pytest.mark.parametrize("mechanism", ["dp-sgd", "aldp", "ldp"])
def test_a_replay_spends_what_real_peers_would_and_is_the_same_twice(tmp_path, mechanism):
    curve, again = (replay(job(tmp_path, mechanism)) for _ in range(2))
    assert curve == again
    assert (curve.mechanism, len(curve.values), len(curve.epsilon)) == (mechanism, ROUNDS, ROUNDS)
    assert curve.final == curve.values[-1]
    assert 0 < curve.epsilon[0] < curve.epsilon[1] <= 8.0 * (1 + 1e-9)
    assert curve.epsilon[1] == pytest.approx(8.0, rel=0.01)
    assert curve.privacy["epsilon_spent"] == curve.epsilon[-1]
    assert curve.privacy["mechanism"] == mechanism


def test_rounds_beyond_the_budget_leave_the_model_and_epsilon_as_they_are(tmp_path):
    curve = replay(job(tmp_path, "ldp", rounds=ROUNDS + 2))
    assert curve.values[1:] == (curve.values[1],) * 3
    assert curve.epsilon[1:] == (curve.epsilon[1],) * 3


def test_members_learn_how_many_offered_when_one_has_spent_its_budget(tmp_path):
    task = swarm_plan(tmp_path, "tests.own_mechanisms:Observing").task
    swarm = Swarm(task, datasets_of(task, PEERS), 0)
    spent, *others = swarm.members
    while spent.can_train:
        spent.offer(np.zeros_like(swarm.base))
    swarm.round(1)
    assert swarm.took_part == PEERS - 1
    assert [member.memory[-1][1] for member in (spent, *others)] == [PEERS - 1] * PEERS


def test_the_largest_epsilon_of_all_peers_is_told(tmp_path):
    """With dp-sgd each peer's epsilon follows from its rows."""
    work = job(tmp_path, "dp-sgd", "task.seed=3")
    task, *_ = work.arguments
    swarm = Swarm(task, datasets_of(task, PEERS), 0)
    swarm.round(1)
    spent = [amount(member.ledger, "epsilon_spent") for member in swarm.members]
    assert max(spent) > max(spent[:-1]), "here the last peer has spent most"
    assert replay(work).epsilon[0] == max(spent)


def test_no_two_mechanisms_have_the_same_noise(tmp_path):
    """A radius at its cap equals a fixed one: only the noise distinguishes the two."""
    loud = ("privacy.epsilon=0.1", "privacy.clipping_radius=0.01")
    aldp, ldp = (replay(job(tmp_path, name, *loud)) for name in ("aldp", "ldp"))
    assert aldp.epsilon == pytest.approx(ldp.epsilon)
    assert aldp.values != ldp.values


def test_what_gives_no_guarantee_is_not_compared_and_without_privacy_nothing_is_replayed(tmp_path):
    with pytest.raises(UserError, match=r"^none gives no guarantee: there is nothing to compare$"):
        private_curve(load_task("digits", [*SMALL]), PEERS, ROUNDS, lambda number, figure: None)
    assert run_replays(swarm_plan(tmp_path, "none"), "none", silent(), do_here) == ()
    assert not (tmp_path / "baselines").exists()


def test_a_curve_is_left_as_json_and_read_again_instead_of_replayed(tmp_path):
    plan = swarm_plan(tmp_path, "dp-sgd")
    curves = run_replays(plan, plan.task.privacy.mechanism, silent(), do_here)
    assert [curve.mechanism for curve in curves] == ["aldp", "ldp"]
    assert curves[1] == replay(job(tmp_path, "ldp"))
    written = json.loads((tmp_path / "baselines" / "ldp.json").read_text())
    assert list(curves[1].values) == written["values"]
    (tmp_path / "baselines" / "ldp.json").write_text(json.dumps({**written, "values": [0.25, 0.5]}))
    again = run_replays(plan, plan.task.privacy.mechanism, silent(), do_here)
    assert again[1].values == (0.25, 0.5), "what is there is read"
