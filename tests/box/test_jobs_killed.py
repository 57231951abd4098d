"""A member of each kind of job dies again and again, before any message or wait for the disk, and comes back.

All end with the same bits, and every sum of an exact job had the members of the first one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from node.app.run import Prepared, prepared_on
from node.jobs.cohort import Cohort
from node.options import NodeOptions
from node.stats.run import TRIES, prepare_statistics
from node.system.system import System
from node.task.load import load_task
from node.task.sections import Task
from protocol.wire.messages import Message
from tests.box.box import Box, BoxNode
from tests.box.test_exact_jobs import Members
from tests.box.test_privacy import to_one_model
from tests.box.test_private_curves import PRIVATE
from tests.box.test_statistics import write_sites
from tests.box.test_table_models import CURVES, CURVES_AND_TREES, TREES_ALONE, rows

DEATHS = 10
LEARNED = {
    "curves": (CURVES, 3),
    "curves and trees": (CURVES_AND_TREES, 4),
    "trees": (TREES_ALONE, 4),
    "private curves": (PRIVATE, 3),
}
RUNS = [
    pytest.param(job, seed, marks=pytest.mark.soak if seed or job == "curves and trees" else ())
    for job in ("statistics", *LEARNED)
    for seed in range(10)
]


def learned(task: Task, options: NodeOptions, system: System) -> Prepared:
    assert options.shard is not None
    own = replace(task, aggregation=options.task.aggregation)
    return prepared_on(replace(options, task=own), rows(options.shard[0]), system)


def counted(folder: Path, options: NodeOptions, system: System) -> Prepared:
    assert options.shard is not None
    asked = load_task(str(folder / "trial.toml"), [])
    task = replace(asked, aggregation=options.task.aggregation)
    own = replace(options, task=task, data=folder / f"{options.shard[0]}.csv", shard=None)
    return prepare_statistics(own, system)[0]


@pytest.fixture
def box_of(make_box, tmp_path: Path) -> Callable[[str, int], Box]:
    """Makes the box of a job and a seed."""

    def make(job: str, seed: int) -> Box:
        task, count = LEARNED.get(job, (None, 3))
        write_sites(tmp_path)
        prepare = partial(counted, tmp_path) if task is None else partial(learned, task)
        size = f"aggregation.min_participants={count}"
        waits = ("--wait", "1000")
        return make_box(count, TRIES, size, seed=seed, usual=(), options=waits, prepare=prepare)

    return make


def dies_soon(node: BoxNode, rng: random.Random) -> None:
    """Has the node die before one of its next messages or waits for the disk, maybe by a loss of power."""
    die = partial(node.kill, power=rng.random() < 0.5)
    if rng.random() < 0.5:
        node.before_disk_step(die, rng.randint(3, 12))
    else:
        node.before_message(die, "any", Message.__args__, rng.randint(5, 60))


@pytest.mark.sampled("private curves-0")
@pytest.mark.parametrize(("job", "seed"), RUNS)
def test_one_dies_again_and_again(box_of, job: str, seed: int) -> None:
    box, rng = box_of(job, seed), random.Random(f"{job} {seed}")
    box.watchers.append(members := Members())
    victim = box.nodes[rng.randrange(box.count)]
    box.start_all()
    deaths = 0
    while deaths < DEATHS:
        dies_soon(victim, rng)
        box.run(until=lambda: victim.is_over)
        if victim.status is not None:
            break
        deaths += 1
        victim.start()
    to_one_model(box)
    assert deaths > 2
    if isinstance(box.nodes[0].prepared.learning.job, Cohort):
        assert len({group for groups in members.on.values() for group in groups}) == 1
