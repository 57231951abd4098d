"""The keys of a task whose members share noise: what unset ones become, and what is refused."""

import json

import pytest

from node.task.load import load_task, read_task
from node.task.parameters import canonical_parameters
from node.task.shared_noise_keys import DISTRIBUTED, SHARED_NOISE_KEYS, is_distributed
from node.task.step_defaults import step_defaults
from tests.own_data import told
from tests.unit.node.cases import cases

MECHANISM = f"privacy.mechanism={DISTRIBUTED}"


def task(*sets):
    return load_task("digits", [MECHANISM, *sets])


def table(**train):
    return {
        "task": {"name": "own"},
        "model": {"class": "node.models:MLP", "args": {"sizes": [3, 2]}},
        "privacy": {"mechanism": DISTRIBUTED},
        "train": train,
    }


def test_a_beginner_sets_the_mechanism_and_nothing_else():
    made = task("privacy.epsilon=3")
    found, plan = step_defaults(1438, 3.0, frozen_body=False), made.step_plan
    for name in ("steps", "report_every", "expected_batch"):
        assert getattr(plan, name) == getattr(found, name)
    assert plan.sampling_probability == pytest.approx(found.expected_batch / 1438)
    assert made.train.learning_rate == found.learning_rate
    assert made.privacy.clipping_radius == found.clipping_radius
    assert made.train.rounds * plan.report_every == plan.steps
    assert made.train.expected_rows == 1438, "those that all shards of the digits have together"


def test_what_a_task_sets_stays():
    made = task(
        *("train.learning_rate=0.25", "privacy.clipping_radius=2.5", "train.steps=7", "train.report_every=3"),
        *("train.expected_batch=99", "privacy.sampling_probability=0.5", "privacy.honest=4"),
    )
    assert made.step_plan.steps == 7
    assert (made.train.rounds, made.train.learning_rate, made.privacy.clipping_radius) == (3, 0.25, 2.5)
    assert (made.step_plan.expected_batch, made.step_plan.sampling_probability) == (99, 0.5)
    assert (made.privacy.honest, made.aggregation.min_participants) == (4, 5)


@pytest.mark.parametrize(
    ("train", "privacy", "expected"),
    [
        ({"expected_rows": 1000, "expected_batch": 100}, {}, (0.1, 100)),
        ({"expected_rows": 1000}, {"sampling_probability": 0.25}, (0.25, 250)),
        ({"expected_batch": 100}, {"sampling_probability": 0.25}, (0.25, 100)),
        ({"expected_rows": 10, "expected_batch": 100}, {}, (1.0, 100)),
    ],
)
def test_two_of_rows_batch_and_probability_give_the_third(train, privacy, expected):
    given = table(**train)
    given["privacy"] |= privacy
    plan = read_task(given).step_plan
    assert (plan.sampling_probability, plan.expected_batch) == expected


@pytest.mark.parametrize(("least", "honest"), [(3, 1), (4, 1), (5, 2), (9, 4), (10, 4), (14, 6), (15, 7)])
def test_half_of_the_others_are_taken_to_be_honest(least, honest):
    assert task(f"aggregation.min_participants={least}").privacy.honest == honest


@cases("""
    sets => line
    train.epochs=2 => train.epochs = 2 is refused with privacy.mechanism = 'distributed-dp-sgd'
    train.seconds=9 => train.seconds = 9.0 is refused with privacy.mechanism = 'distributed-dp-sgd': a step
        has the rows that are sampled, however long it takes; set train.steps
    train.batch_size=16 => set train.expected_batch
    train.rounds=5 => a round is train.report_every steps; set train.steps
    train.grad_clip=1.0 => set privacy.clipping_radius
    train.proximal=0.1 => from which nothing has moved yet; leave it out
    train.local='layers.0.*' => all that is trained goes into the sum
    train.optimizer_args={nesterov=true} => all members compute the same bits
    train.optimizer=adamw => allowed: 'sgd', 'adam'
    train.schedule=cosine => allowed: 'constant', 'linear', 'step'
    aggregation.loss_gate=0.1 => all members take the same step
    aggregation.weighting=samples aggregation.sample_cap=9 aggregation.public_weights=true => each row counts
        the same already
    aggregation.protocol=additive aggregation.shares=float => sums are of whole numbers
    privacy.honest=0 => privacy.honest = 0 is refused; allowed: a whole number from 1 to 63
    privacy.honest=5 aggregation.min_participants=5 => a node has 4 others; allowed: at most 4
    privacy.honest=4 aggregation.dropouts=3 => allowed: at most 2
    privacy.sampling_probability=0 => sampling_probability = 0 is refused
    privacy.sampling_probability=1.5 => sampling_probability = 1.5 is refused
""")
def test_bad_values_are_one_line_each(sets, line):
    assert line in told(task, *sets.split())


def test_without_the_rows_of_all_members_there_is_no_table():
    assert "train.expected_rows is missing, which" in told(read_task, table())


@pytest.mark.parametrize(("section", "name"), SHARED_NOISE_KEYS)
def test_other_mechanisms_have_no_such_keys(section, name):
    line = told(load_task, "digits", ["privacy.mechanism=dp-sgd", f"{section}.{name}=1"])
    assert line.startswith(f"{section}.{name} = 1")
    assert " has no effect without privacy.mech" in line


def test_members_must_agree_on_every_key_and_others_keep_the_text_that_they_had():
    def text(made):
        return json.loads(canonical_parameters(made, [], None, {}, {"unit": 0.5}))

    mine = text(task())
    assert all(mine[section][name] is not None for section, name in SHARED_NOISE_KEYS)
    assert mine["privacy"]["unit"] == 0.5
    assert "offer_bound" not in mine["privacy"]
    other = json.loads(canonical_parameters(load_task("digits", []), [], 4.0))
    assert not any(name in other[section] for section, name in SHARED_NOISE_KEYS)
    assert "proximal" not in other["train"]
    pulled = json.loads(canonical_parameters(load_task("digits", ["train.proximal=0.5"]), [], 4.0))
    assert pulled["train"] == {**other["train"], "proximal": 0.5}
    assert is_distributed(task())
    assert not is_distributed(load_task("digits", []))
