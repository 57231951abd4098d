"""A swarm of real nodes, and the training that it is compared with, as tasks of a Ray cluster.

    driver ──▶ swarm_there: all peers, as processes of one machine ──what they wrote──▶ the run's folder
           ──▶ work_there: one baseline, or one replay, a task      ──its curve──────▶ the run's folder

A task writes to a folder of its machine that is removed afterwards, so the machines of a cluster need no
common file system. Keys, state and private models stay there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any

import ray

from node.errors import UserError, reason
from scenarios.engines.choice import RaySection
from scenarios.engines.ray import POLL_S, Ref, got
from scenarios.engines.ray_cluster import connected
from scenarios.frame.folder import write_text
from scenarios.swarms.baselines import Job, Replay
from scenarios.swarms.nodes import PeerRun, SwarmPlan, is_finished, run_swarm
from scenarios.swarms.progress import Display, PeerProgress

RETURNED = ("history.jsonl", "model.safetensors", "log.txt", "summary.json")
"""What a peer leaves in the run's folder. The summary comes last: with it, a swarm counts as finished."""


@contextmanager
def ray_swarms(section: RaySection) -> Iterator[RaySwarms]:
    """Connect to the cluster for the duration of a run. Raises UserError, one line."""
    with connected(section.address, section.working_dir, None) as at_once:
        yield RaySwarms(at_once)


@dataclass(frozen=True)
class RaySwarms:
    """A connected cluster, which does `at_once` pieces of work at a time."""

    at_once: int

    def run_swarm(self, plan: SwarmPlan, display: Display) -> tuple[PeerRun, ...]:
        """Run the swarm on one machine of the cluster; see scenarios.swarms.nodes.run_swarm.

        A swarm that was stopped begins anew, as its peers' state is not returned. Raises UserError.
        """
        if not is_finished(plan):
            for name, content in self._ran(plan, display).items():
                path = plan.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        return run_swarm(plan, display)

    def _ran(self, plan: SwarmPlan, display: Display) -> Mapping[str, bytes]:
        news: Any = ray.remote(num_cpus=0)(Latest).remote()
        task = ray.remote(num_cpus=1)(swarm_there).options(scheduling_strategy="SPREAD")
        ref, ended = task.remote(plan, news), list[Ref]()
        try:
            while not ended:
                ended, _ = ray.wait([ref], timeout=POLL_S)
                if peers := ray.get(news.taken.remote()):
                    display.peers(peers)
        finally:
            if not ended:
                ray.cancel(ref)
        written: Mapping[str, bytes] = got(ref)
        return written

    def work(self, queue: Sequence[Job] | Sequence[Replay], display: Display) -> None:
        """Do all work of `queue`, each a task; store each result when it is there.

        Raises UserError for the first that fails; results so far stay.
        """
        waiting, running = deque[Job | Replay](queue), dict[Ref, Job | Replay]()
        in_all, done = sum(job.rounds for job in queue), 0
        task = ray.remote(num_cpus=1)(work_there).options(scheduling_strategy="SPREAD")
        try:
            while waiting or running:
                while waiting and len(running) < self.at_once:
                    job = waiting.popleft()
                    running[task.remote(job)] = job
                ended, _ = ray.wait(list(running), timeout=POLL_S)
                for ref in ended:
                    job = running.pop(ref)
                    _store(job, ref)
                    done += job.rounds
                    display.baselines(done, in_all)
        finally:
            for ref in running:
                ray.cancel(ref)


def _store(job: Job | Replay, ref: Ref) -> None:
    try:
        text: str = got(ref)
    except UserError as error:
        raise UserError(f"{job.name}: {error}", error.status) from error
    except Exception as error:  # a user's model may raise anything
        raise UserError(f"{job.name}: {reason(error)}") from error
    job.path.parent.mkdir(parents=True, exist_ok=True)
    write_text(job.path, text)


# -- in the cluster ----------------------------------------------------------------------------------------


class Latest:
    """An actor that holds the latest progress of a swarm's peers until the driver takes it."""

    def __init__(self) -> None:
        self._peers: Sequence[PeerProgress] = ()

    def told(self, peers: Sequence[PeerProgress]) -> None:
        """Hold this progress in place of any other."""
        self._peers = peers

    def taken(self) -> Sequence[PeerProgress]:
        """Return the progress that was told since the last call; () if none was."""
        peers, self._peers = self._peers, ()
        return peers


@dataclass(frozen=True)
class _Teller:
    """A display that tells the actor `news` about the peers."""

    news: Any

    def stage(self, text: str) -> None:
        """Do nothing: the driver shows stages."""

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Tell the peers' progress."""
        self.news.told.remote(peers)

    def baselines(self, rounds_done: int, rounds_in_all: int) -> None:
        """Do nothing: a swarm has no baselines."""


def swarm_there(plan: SwarmPlan, news: Any) -> dict[str, bytes]:
    """Run a swarm's peers on this machine, as a task; return the contents of RETURNED by path."""
    with TemporaryDirectory() as folder:
        here = replace(plan, folder=Path(folder))
        run_swarm(here, _Teller(news))
        paths = [here.peer_folder(peer) / name for name in RETURNED for peer in range(plan.peers)]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def work_there(job: Job | Replay) -> str:
    """Do one piece of work on this machine, as a task; return the text of its result."""
    with TemporaryDirectory() as folder:
        here = replace(job, path=Path(folder) / job.path.name)
        resolve_name(here.worker)(here)
        return here.path.read_text("utf-8")
