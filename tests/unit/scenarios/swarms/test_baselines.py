import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from node.data.dataset import load_dataset
from scenarios.frame.spec import Request
from scenarios.frame.work import Call, Watch, do_here
from scenarios.swarms.baselines import Baseline, baselines, run_baselines, train_curve, union_of_shards
from scenarios.swarms.nodes import SwarmPlan, batch_seed
from scenarios.swarms.progress import Lines
from scenarios.systems.swarm.claims import plan

PEERS = 3


def swarm_plan(folder: Path, rounds: int = 2) -> SwarmPlan:
    return SwarmPlan(plan(Request(seed=1)).task, PEERS, rounds, folder)


def baseline(folder: Path, name: str) -> Baseline:
    return next(call.arguments[0] for call in baselines(swarm_plan(folder)) if call.name == name)


def test_there_is_a_call_for_each_peer_in_its_batch_order_and_one_for_all(tmp_path):
    calls = baselines(swarm_plan(tmp_path))
    assert [call.name for call in calls] == ["alone 0", "alone 1", "alone 2", "pooled"]
    given = [call.arguments[0] for call in calls]
    assert [one.shards for one in given] == [(0,), (1,), (2,), (0, 1, 2)]
    assert len({call.path for call in calls}) == PEERS + 1
    swarm = swarm_plan(tmp_path)
    seeds = [one.batch_seed for one in given]
    assert seeds[:PEERS] == [batch_seed(swarm.task, PEERS, peer) for peer in range(PEERS)]
    assert len(set(seeds[:PEERS])) == PEERS
    pulled = plan(Request(seed=1, overrides=("train.proximal=0.5",))).task
    assert pulled.train.proximal == 0.5
    calls = baselines(SwarmPlan(pulled, PEERS, 2, tmp_path))
    assert all(call.arguments[0].task == swarm_plan(tmp_path).task for call in calls)


def test_pooled_is_every_row_of_every_shard_once(tmp_path: Path) -> None:
    pooled = union_of_shards(baseline(tmp_path, "pooled"))
    task = swarm_plan(tmp_path).task
    shards = [load_dataset(task, None, (part, PEERS)) for part in range(PEERS)]
    rows = Counter(tuple(row.tolist()) for shard in shards for row in shard.train_x)
    assert Counter(tuple(row.tolist()) for row in pooled.train_x) == rows
    assert len(pooled.train_y) == sum(len(shard.train_y) for shard in shards)
    assert pooled.test_x.equal(shards[1].test_x)


def test_pooled_learns_more_than_a_peer_alone_and_what_an_earlier_run_left_is_not_trained_again(tmp_path):
    display, made = Lines(Console(file=io.StringIO()), 2), list[str]()

    def do(calls: Sequence[Call], watch: Watch) -> None:
        made.extend(call.name for call in calls)
        do_here(calls, watch)

    trained = run_baselines(swarm_plan(tmp_path), display, do)
    assert made == ["pooled", "alone 0", "alone 1", "alone 2"], "the longest first"
    assert [curve.name for curve in trained.alone] == ["alone 0", "alone 1", "alone 2"]
    assert len(trained.pooled.values) == 2
    assert trained.pooled.final > trained.alone[0].final
    said: list[tuple[int, float]] = []
    again = train_curve(baseline(tmp_path, "alone 1"), lambda *news: said.append(news))
    assert again.values == trained.alone[1].values
    assert said == list(enumerate(again.values, start=1))
    (tmp_path / "baselines" / "alone-1.json").unlink()
    made.clear()
    resumed = run_baselines(swarm_plan(tmp_path), display, do)
    assert made == ["alone 1"]
    assert replace(resumed.alone[1], seconds=0.0) == replace(again, seconds=0.0)
    assert resumed.pooled == trained.pooled
