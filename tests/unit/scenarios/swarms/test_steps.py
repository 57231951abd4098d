"""Replays of steps with shared noise: the node's own words, their sum, and a server with the noise of one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from node.data.dataset import Dataset
from node.task.load import load_task
from node.task.sections import Task
from scenarios.swarms.replay import datasets_of
from scenarios.swarms.steps import StepSwarm, rules_of, servers_noise

PEERS, SALT = 5, 7
SMALL = (
    "privacy.mechanism=distributed-dp-sgd",
    "privacy.honest=2",
    "aggregation.min_participants=5",
    "train.steps=6",
    "train.report_every=4",
    "model.args.sizes=[64,20,10]",
)


def task_of(*overrides: str) -> Task:
    return load_task("digits", [*SMALL, *overrides])


def swarm_of(task: Task, datasets: list[Dataset] | None = None, salt: int = SALT) -> StepSwarm:
    return StepSwarm(task, datasets_of(task, PEERS) if datasets is None else datasets, salt)


def all_rows(parts: list[Dataset]) -> Dataset:
    x, y = torch.cat([part.train_x for part in parts]), torch.cat([part.train_y for part in parts])
    return replace(parts[0], train_x=x, train_y=y)


def server_of(task: Task, salt: int = SALT) -> StepSwarm:
    return swarm_of(task, [all_rows(datasets_of(task, PEERS))], salt)


def noise_std(swarm: StepSwarm) -> float:
    """The std of the noise in a sum of all rows, from sums that differ in nothing else."""
    decoded = [swarm.rules.mechanism.shared.decode(swarm.summed()) for _ in range(12)]
    return float(np.std(decoded, axis=0, ddof=1).mean())


def test_a_step_is_the_one_that_follows_from_the_sum_of_all_words() -> None:
    task = task_of()
    swarm, other = swarm_of(task), swarm_of(task)
    words = [trainer.contribution(other.base, 0).words for trainer in other.trainers]
    summed = np.array([sum(int(value) for value in column) % 2**32 for column in zip(*words, strict=True)])
    expected = other.trainers[3].following(other.base, 0, summed.astype(np.uint32))
    swarm.take(1)
    assert swarm.base.tobytes() == expected.tobytes()


def test_a_round_has_its_steps_and_the_last_one_what_is_left() -> None:
    task = task_of()
    swarm = swarm_of(task)
    accuracies = [swarm.round(number) for number in (1, 2)]
    again = swarm_of(task)
    for step in range(1, 7):
        again.take(step)
    assert swarm.base.tobytes() == again.base.tobytes(), "the same seed and the same six steps"
    assert accuracies[-1] == again.evaluated().accuracy
    assert swarm.ledger == again.ledger
    assert swarm.seconds > 0


def test_the_ledger_is_that_of_all_steps_and_says_epsilon_by_honest_members() -> None:
    task = task_of("privacy.epsilon=3")
    swarm = swarm_of(task)
    for number in (1, 2):
        swarm.round(number)
    ledger = swarm.ledger
    assert 2.0 < float(str(ledger["epsilon_spent"])) < 3.0, "steps in reserve are not spent"
    assert ledger["honest"] == 2
    assert float(str(ledger["epsilon_alone"])) > float(str(ledger["epsilon_spent"]))
    assert "2 of them are honest" in swarm.protects


@pytest.mark.parametrize("honest", [2, 4])
def test_the_noise_of_a_sum_is_that_of_all_members_shares(honest: int) -> None:
    task = task_of(f"privacy.honest={honest}", "privacy.sampling_probability=1.0", "privacy.epsilon=1")
    swarm = swarm_of(task)
    rule = swarm.rules.mechanism.shared.gradient
    found = noise_std(swarm)
    assert found == pytest.approx(rule.noise_std * np.sqrt(PEERS / (honest + 1)), rel=0.03)


def test_a_server_sums_the_same_gradients_with_the_noise_of_one() -> None:
    task = task_of("privacy.sampling_probability=1.0", "privacy.epsilon=1")
    server, swarm = server_of(task), swarm_of(task)
    rule = server.rules.mechanism.shared
    assert noise_std(server) == pytest.approx(rule.gradient.noise_std, rel=0.03)
    quiet = task_of("privacy.sampling_probability=1.0", "privacy.epsilon=1000000")
    server, swarm = server_of(quiet), swarm_of(quiet)
    rule = server.rules.mechanism.shared
    whole, parts = rule.decode(server.summed()), rule.decode(swarm.summed())
    assert np.abs(whole - parts).max() < 8 * np.sqrt(3) * rule.gradient.noise_std + 16 * rule.unit
    assert np.abs(whole).max() > 100 * rule.gradient.noise_std


def test_a_server_has_room_for_all_rows_and_another_mechanism_no_rules_of_steps():
    task = task_of("train.expected_rows=1438", "train.expected_batch=1000")
    mechanism = rules_of(task, datasets_of(task, PEERS)[0]).mechanism
    rule, server = mechanism.shared, servers_noise(mechanism, 1439).shared
    assert server.expected_batch >= server.gradient.sampling_probability * 1439 > rule.expected_batch
    assert server.share_std == pytest.approx(rule.gradient.noise_std, rel=1e-12)
    assert servers_noise(mechanism, 1438).shared.expected_batch == pytest.approx(1000)
    task = load_task("digits", ["privacy.mechanism=dp-sgd"])
    with pytest.raises(TypeError, match="'dp-sgd' has no shared noise"):
        rules_of(task, datasets_of(task, PEERS)[0])
