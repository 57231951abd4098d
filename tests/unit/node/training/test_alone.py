"""A model of the owner's rows alone: its training, its limits, and what it leaves as it was."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from node.system.clock import Clock
from node.system.system import System
from node.task.load import load_task
from node.training.alone import LEAST_ROWS, LoneTraining, yield_to_others
from node.training.build import build_model
from node.training.trainer import make_trainer

SMALL = ("model.args.sizes=[64,8,10]", "train.epochs=1")
PRIVACY = ("privacy.mechanism=distributed-dp-sgd", "privacy.epsilon=3", "privacy.honest=2")
STEPS = (*PRIVACY, "train.report_every=3", "train.optimizer=sgd")
DROPS = ("model.class=tests.own_models:Dropping", "model.args={}", "train.epochs=1")
NEVER = threading.Event()


def lone(rows, *overrides, rounds=3, within_s=60.0, tick_s=0.0):
    """`tick_s`: how much later it is each time that somebody looks at the clock."""
    times = iter(range(10**9))
    clock = Clock(lambda: next(times) * tick_s)
    return LoneTraining(load_task("digits", overrides), rows, 7, rounds, within_s, system=System(clock=clock))


def test_it_has_the_training_of_the_run_without_a_peer(dataset):
    task = load_task("digits", SMALL)
    trainer = make_trainer(task, build_model(task, dataset), dataset, 7, None)
    vector = trainer.vector()
    for number in (1, 2, 3):
        vector = trainer.train(vector, number, NEVER).vector
    found = lone(dataset, *SMALL)(NEVER)
    assert (found.metric, found.value) == ("accuracy", trainer.evaluate(vector).headline.value)
    assert found.trained == 1.0


def test_no_noise_and_no_pull_to_the_base_of_a_round_is_in_it(dataset):
    plain = lone(dataset, *SMALL)(NEVER)
    assert lone(dataset, *SMALL, "privacy.mechanism=dp-sgd", "privacy.epsilon=0.1")(NEVER) == plain
    assert lone(dataset, *SMALL, "train.proximal=1")(NEVER) == plain


def test_where_members_take_steps_together_it_passes_over_its_rows_as_often_as_they(dataset):
    made = lone(dataset, *SMALL[:1], *STEPS, "train.steps=12", rounds=4)
    plan = made.task.step_plan
    section, lessons = made._lessons()
    assert len(lessons) == round(12 * plan.sampling_probability) > 1
    assert (lessons[0], max(lessons)) == (1, lessons[-1])
    assert lessons[-1] <= 4
    assert section.batch_size == max(1, round(plan.sampling_probability * len(dataset.train_y)))
    assert made(NEVER).trained == 1.0


def test_when_its_time_is_over_it_is_as_good_as_it_is_by_then(dataset):
    whole = lone(dataset, *SMALL, rounds=4)(NEVER)
    looks = -(-len(dataset.train_y) // 16) + 4
    part = lone(dataset, *SMALL, rounds=4, within_s=2.0 * looks, tick_s=1.0)(NEVER)
    assert part.trained in (0.25, 0.5)
    assert part.value != whole.value
    assert lone(dataset, *SMALL, within_s=1.0, tick_s=1.0)(NEVER) is None


def test_a_node_that_is_told_to_end_says_nothing(dataset):
    told = threading.Event()
    told.set()
    assert lone(dataset, *SMALL)(told) is None


def test_a_training_that_diverges_says_nothing(dataset):
    numbers = replace(dataset, train_y=dataset.train_y.float(), test_y=dataset.test_y.float(), classes=None)
    wild = ("model.args.sizes=[64,1]", "train.loss=mse", "train.learning_rate=1000", "train.epochs=20")
    assert lone(numbers, *wild)(NEVER) is None


def test_too_few_rows_say_nothing(dataset):
    def with_rows(count, **changed):
        few = replace(dataset, train_x=dataset.train_x[:count], train_y=dataset.train_y[:count], **changed)
        return lone(few).has_rows

    assert with_rows(LEAST_ROWS)
    assert not with_rows(LEAST_ROWS - 1)
    assert not with_rows(LEAST_ROWS, validates=False)
    assert not with_rows(LEAST_ROWS, test_x=dataset.test_x[:0], test_y=dataset.test_y[:0])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_its_thread_yields_to_all_others_and_no_other_thread_does():
    def mine():
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = mine()
    with ThreadPoolExecutor(1, initializer=yield_to_others) as thread:
        assert thread.submit(mine).result() == 19
    assert mine() == before


def test_torchs_generator_stays_as_it_was_and_its_own_draws_are_the_same_each_time(dataset):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = lone(dataset, *DROPS)(NEVER)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(12)
    assert first is not None
    assert lone(dataset, *DROPS)(NEVER) == first
