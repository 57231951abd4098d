"""A swarm of real nodes as a task of a Ray cluster.

    driver ──▶ swarm_there: all peers, as processes of one machine ──what they wrote──▶ the run's folder

A task writes to a folder of its machine that is removed afterwards, so the machines of a cluster need no
common file system. Keys, state and private models stay there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray

from scenarios.engines.ray import Ref, got
from scenarios.engines.ray_news import News
from scenarios.frame.work import POLL_S
from scenarios.swarms.nodes import PeerRun, SwarmPlan, Tell, is_finished, run_swarm

RETURNED = ("history.jsonl", "model.safetensors", "log.txt", "summary.json")
"""What a peer leaves in the run's folder. The summary comes last: with it, a swarm counts as finished."""


def run_swarm_in_cluster(plan: SwarmPlan, tell: Tell) -> tuple[PeerRun, ...]:
    """Run the swarm on one machine of the cluster; see scenarios.swarms.nodes.run_swarm.

    A swarm that was stopped begins anew, as its peers' state is not returned. Raises UserError.
    """
    if is_finished(plan):
        return run_swarm(plan, tell)
    news: Any = ray.remote(num_cpus=0)(News).remote()
    task = ray.remote(num_cpus=1)(swarm_there).options(scheduling_strategy="SPREAD")
    ref, ended = task.remote(plan, news), list[Ref]()
    try:
        while not ended:
            ended, _ = ray.wait([ref], timeout=POLL_S)
            if told := ray.get(news.taken.remote()):
                tell(told[-1])
    finally:
        if not ended:
            ray.cancel(ref)
    written: Mapping[str, bytes] = got(ref)
    for name, content in written.items():
        path = plan.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return run_swarm(plan, tell)


def swarm_there(plan: SwarmPlan, news: Any) -> dict[str, bytes]:
    """Run a swarm's peers on this machine, as a task; return the contents of RETURNED by path."""
    with TemporaryDirectory() as folder:
        here = replace(plan, folder=Path(folder))
        run_swarm(here, news.told.remote)
        paths = [here.peer_folder(peer) / name for name in RETURNED for peer in range(plan.peers)]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
