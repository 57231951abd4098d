"""Swarms in which some peers send forged updates, as cells of a sweep, with defences against them.

    honest: training from where its gate lets it start ──▶ offer ──┐
    liar:   training from the base ──▶ forged ──▶ cut to the bound ─┴▶ one sum, or the median of group sums

No peer sees a single update. The loss gates are those of `aggregation.loss_gate`, as in nodes. The median of
disjoint group sums is a function of `mechanisms` that real nodes do not use: they have one group per round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from mechanisms.mechanism import Offer
from mechanisms.noise.randomness import SeededWords
from mechanisms.servers.group_median import LEAST_GROUPS, LEAST_MEMBERS, group_median, smallest_sum
from node.data.dataset import Dataset
from node.storage.vector_files import Floats
from node.system.errors import ConfigError
from node.task.sections import Task
from scenarios.clients.poisons import scaled, sign_flipped
from scenarios.frame.digests import digest_of, salt_of
from scenarios.frame.spec import Json
from scenarios.study.cells import Fact, Outcome, Room
from scenarios.study.threads import one_thread
from scenarios.swarms.cells import SwarmCell, privacy_facts
from scenarios.swarms.replay import Gated, Swarm, datasets_of
from scenarios.swarms.reported import RoundLog, SumCost, reported

_LIARS, _GROUPS = 41, 42  # streams of random numbers: [this, seed], and [this, seed, the arm's salt]

FORGERIES: Mapping[str, Callable[[Floats, Floats, float], Floats]] = {
    "sign-flipped": sign_flipped,
    "scaled": scaled,
}
"""From a model (d,), the start (d,) of its training, and a factor, to the model that is sent instead."""

MEMBERS = "anonymity: members in the smallest sum that anybody sees"
OWN = "accuracy of what honest peers go on from"
ROLLED_BACK = "rolled-back rounds"
REFUSED = "honest peers that refuse the base"
"""Names of facts; the last one names a series over the rounds (a share)."""


@dataclass(frozen=True)
class Lie:
    """A share of the peers, drawn from the seed, sends forged updates in rounds `first` to `last`."""

    share: float
    forgery: str = "sign-flipped"
    factor: float = 10.0
    first: int = 1
    last: int = 1_000_000

    def liars(self, peers: int, seed: int) -> frozenset[int]:
        """The round(share * peers) peers that lie. A larger share includes the liars of a smaller one."""
        drawn = np.random.default_rng([_LIARS, seed]).permutation(peers)
        return frozenset(drawn[: round(self.share * peers)].tolist())


HONEST = Lie(0.0)


class LyingSwarm(Swarm):
    """A swarm with liars. `groups`: the number of disjoint group sums, combined by the median; 1: one sum."""

    def __init__(self, task: Task, datasets: Sequence[Dataset], salt: int, lie: Lie, groups: int) -> None:
        """See Swarm; a liar has no gate. Raises ConfigError."""
        super().__init__(task, datasets, salt)
        self._lie, self._groups = lie, groups
        self._dealer = SeededWords(np.random.default_rng([_GROUPS, task.task.seed, salt]))
        self.liars = lie.liars(len(datasets), task.task.seed)
        for liar in self.liars:
            self.gates[liar] = Gated(self.trainers[liar], None, self.base)

    @property
    def honest_gates(self) -> Sequence[Gated]:
        """The gates of the honest peers."""
        return [gate for peer, gate in enumerate(self.gates) if peer not in self.liars]

    def _offer(self, number: int, peer: int, own: Floats) -> Offer:
        if peer not in self.liars or not self._lie.first <= number <= self._lie.last:
            return super()._offer(number, peer, own)
        forged = FORGERIES[self._lie.forgery](own, self.base, self._lie.factor)
        return Offer(np.clip(forged - self.base, -self._bound, self._bound))

    def _combined(self, vectors: Sequence[Floats]) -> Floats:
        if self._groups == 1:
            return super()._combined(vectors)
        return group_median(np.stack(vectors), self._groups, self._dealer)


@dataclass(frozen=True)
class LyingSwarmCell(SwarmCell):
    """A swarm in which some peers lie; see LyingSwarm for `groups`."""

    lie: Lie
    groups: int
    kind: ClassVar[str] = "lying swarm"

    def check(self, room: Room) -> None:
        """Check the swarm and the number of groups. Raises ConfigError."""
        super().check(room)
        if self.groups != 1 and not LEAST_GROUPS <= self.groups <= self.peers // LEAST_MEMBERS:
            raise ConfigError(
                f"{self.arm}: {self.peers} peers in {self.groups} groups; allowed: one group, or "
                f"{LEAST_GROUPS} and more of at least {LEAST_MEMBERS} peers each"
            )

    def describe(self) -> Json:
        """The swarm's description, with the lie and the groups."""
        return {**super().describe(), "lie": asdict(self.lie), "groups": self.groups}

    def replay(self, room: Room) -> Outcome:
        """Replay the swarm in this process. The figures are the accuracy of the base after each round.

        Facts besides those of privacy: `MEMBERS`, `OWN` (the mean over honest peers, after the last round),
        `ROLLED_BACK` (the number of rounds in which an honest peer's gate refused the base, on average).
        Series: `REFUSED`.
        """
        begun, figures, refused, log = time.perf_counter(), [], [], RoundLog()
        with one_thread():
            datasets = datasets_of(self.task, self.peers)
            swarm = LyingSwarm(self.task, datasets, salt_of(self.arm), self.lie, self.groups)
            for number in range(1, self.rounds + 1):
                figures.append(swarm.round(number))
                refused.append(float(np.mean([gate.refused for gate in swarm.honest_gates])))
                log.note(swarm)
                room.say(number, figures[-1])
            own = float(np.mean([swarm.accuracy(gate.start) for gate in swarm.honest_gates]))
            cost = SumCost(self.task, swarm.words, self.groups)
            common, series = reported(swarm, datasets, log, cost, swarm.liars)
        facts: dict[str, Fact] = {
            **privacy_facts(swarm.ledger, swarm.protects),
            MEMBERS: smallest_sum(self.peers, self.groups),
            OWN: own,
            ROLLED_BACK: sum(refused),
            "liars": len(swarm.liars),
            "model sha256": digest_of(swarm.base),
            **common,
        }
        series = {**series, REFUSED: tuple(refused)}
        return Outcome(tuple(figures), facts, time.perf_counter() - begun, series)
