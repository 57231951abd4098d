import json
from collections import Counter
from pathlib import Path

from node.data.dataset import load_dataset
from scenarios.engines.baseline_worker import train_baseline, train_curve, union_of_shards
from scenarios.frame.spec import Request
from scenarios.swarms.baselines import Curve, Job, jobs
from scenarios.swarms.nodes import SwarmPlan
from scenarios.systems.swarm.claims import plan

PEERS = 3


def swarm_plan(folder: Path, rounds: int = 2) -> SwarmPlan:
    return SwarmPlan(plan(Request(seed=1)).task, PEERS, rounds, folder)


def job(folder: Path, name: str) -> Job:
    return next(job for job in jobs(swarm_plan(folder)) if job.name == name)


def test_there_is_a_job_for_each_peer_in_its_batch_order_and_one_for_all(tmp_path):
    queue = jobs(swarm_plan(tmp_path))
    assert [entry.name for entry in queue] == ["alone 0", "alone 1", "alone 2", "pooled"]
    assert [entry.shards for entry in queue] == [(0,), (1,), (2,), (0, 1, 2)]
    assert len({entry.path for entry in queue}) == PEERS + 1
    swarm = swarm_plan(tmp_path)
    seeds = [entry.batch_seed for entry in jobs(swarm)]
    assert seeds[:PEERS] == [swarm.batch_seed(peer) for peer in range(PEERS)]
    assert len(set(seeds[:PEERS])) == PEERS
    pulled = plan(Request(seed=1, overrides=("train.proximal=0.5",))).task
    assert pulled.train.proximal == 0.5
    queue = jobs(SwarmPlan(pulled, PEERS, 2, tmp_path))
    assert all(entry.task == swarm_plan(tmp_path).task for entry in queue)


def test_pooled_is_every_row_of_every_shard_once(tmp_path: Path) -> None:
    pooled = union_of_shards(job(tmp_path, "pooled"))
    task = swarm_plan(tmp_path).task
    shards = [load_dataset(task, None, (part, PEERS)) for part in range(PEERS)]
    rows = Counter(tuple(row.tolist()) for shard in shards for row in shard.train_x)
    assert Counter(tuple(row.tolist()) for row in pooled.train_x) == rows
    assert len(pooled.train_y) == sum(len(shard.train_y) for shard in shards)
    assert pooled.test_x.equal(shards[1].test_x)


def test_pooled_learns_more_than_a_peer_alone_and_a_curve_is_left_as_json(tmp_path):
    pooled, alone, again = (train_curve(job(tmp_path, name)) for name in ("pooled", "alone 0", "alone 0"))
    assert len(pooled.values) == 2
    assert pooled.final > alone.final
    assert alone.values == again.values
    entry = job(tmp_path, "alone 2")
    entry.path.parent.mkdir()
    assert train_baseline(entry) == 0
    curve = Curve(**json.loads(entry.path.read_text()))
    assert curve.name == "alone 2"
    assert len(curve.values) == 2
