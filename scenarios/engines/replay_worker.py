"""One replay, in a child process. The parent imports neither this module nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from scenarios.frame.digests import salt_of
from scenarios.frame.folder import write_json
from scenarios.study.threads import one_thread
from scenarios.swarms.baselines import PrivateCurve, Replay
from scenarios.swarms.history import amount
from scenarios.swarms.replay import Swarm, datasets_of


def run_replay(job: Replay) -> int:
    """Run one replay: print a line per round, write the curve, return the exit status."""
    job.log.write_text("")
    write_json(job.path, asdict(replay(job)))
    return 0


def replay(job: Replay) -> PrivateCurve:
    """Replay the swarm; return the headline metric and the largest epsilon after every round."""
    values, ledgers = [], []
    with one_thread():
        swarm = Swarm(job.task, datasets_of(job.task, job.peers), salt_of(job.name))
        for number in range(1, job.rounds + 1):
            swarm.round(number)
            values.append(swarm.evaluated().headline.value or 0.0)
            ledgers.append(_ledger(swarm))
            print(f"round {number}: value {values[-1]:.4f}", flush=True)
    epsilon = tuple(amount(ledger, "epsilon_spent") for ledger in ledgers)
    return PrivateCurve(job.name, tuple(values), epsilon, dict(ledgers[-1]))


def _ledger(swarm: Swarm) -> Mapping[str, object]:
    ledger = swarm.ledger
    if ledger is None:
        name = swarm.members[0].mechanism.name
        raise ValueError(f"{name} gives no guarantee: there is nothing to compare")
    return ledger
