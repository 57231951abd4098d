"""The error of a sum of shares, as cells of a sweep: the arithmetic of nodes on trained updates.

    update of each peer ──▶ its residual and n - 1 shares ──▶ n partial sums ──▶ their total ──▶ mean

The cells do what nodes do between `start` and `Completed` (protocol.aggregation.additive), without frames and
seals, and compare the mean with the one in float64. Figures are errors, not accuracies.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np

from node.storage.vector_files import Floats
from protocol.aggregation.additive.shares import Shares, ShareSettings
from protocol.aggregation.additive.total import Total
from protocol.crypto.prg import SEED_BYTES
from protocol.vectors.pieces import Vector, pieces, raw
from scenarios.frame.digests import salt_of
from scenarios.study.cells import Outcome, Room
from scenarios.study.threads import one_thread
from scenarios.swarms.cells import SwarmCell
from scenarios.swarms.replay import Swarm, datasets_of

_SHARES = 31  # a stream of random numbers: [this, seed, the arm's salt]


@dataclass(frozen=True)
class ShareErrorCell(SwarmCell):
    """A swarm whose offers become shares of the kind in [aggregation].

    A figure is the error |decoded - true| of a round's mean, the median over its coordinates.
    """

    kind: ClassVar[str] = "share error"

    def replay(self, room: Room) -> Outcome:
        """Replay the swarm in this process, with shares from the seed; the swarm uses the true means."""
        begun, figures, largest = time.perf_counter(), [], 0.0
        rng = np.random.default_rng([_SHARES, self.seed, salt_of(self.arm)])
        with one_thread():
            swarm = Swarm(self.task, datasets_of(self.task, self.peers), salt_of(self.arm))
            for number in range(1, self.rounds + 1):
                swarm.round(number)
                errors = share_errors([offer.vector for offer in swarm.offers], self.shares(), rng)
                figures.append(float(np.median(errors)))
                largest = max(largest, float(errors.max()))
                room.say(number, figures[-1])
        facts = {"median_error": float(np.median(figures)), "largest_error": largest}
        return Outcome(tuple(figures), facts, time.perf_counter() - begun)

    def shares(self) -> Shares:
        """The arithmetic of shares from [aggregation], for a group of all peers."""
        section = self.task.aggregation
        return ShareSettings(section.shares, section.clip, section.max_share_value).for_group(self.peers)


def share_errors(vectors: Sequence[Floats], shares: Shares, rng: np.random.Generator) -> Floats:
    """The absolute errors (d,) float64 of the mean that a group decodes from its `vectors` (d,)."""
    true = np.mean(vectors, axis=0, dtype=np.float64)
    return np.abs(mean_by_shares(vectors, shares, rng) - true)


def mean_by_shares(vectors: Sequence[Floats], shares: Shares, rng: np.random.Generator) -> Floats:
    """The mean (d,) float32 of one vector per member, as members compute it. Seeds come from `rng`."""
    sums = [shares.encode(vector, rng.bytes(SEED_BYTES))[0] for vector in vectors]
    seeds = []
    for sender, recipient in permutations(range(len(sums)), 2):
        seed = rng.bytes(SEED_BYTES)
        shares.subtract(sums[sender], seed)  # what is left is the sender's residual
        seeds.append((recipient, seed))
    for recipient, seed in seeds:
        for index in range(shares.payload_count(len(vectors[0]))):
            shares.absorb(sums[recipient], index, shares.payload(seed, len(vectors[0]), index))
    return _added(sums, shares)


def _added(sums: Sequence[Vector], shares: Shares) -> Floats:
    """The mean (d,) of all partial sums."""
    members = tuple(bytes([member]) for member in range(len(sums)))
    total = Total(shares, len(sums[0]), members)
    for member, partial in zip(members, sums, strict=True):
        for index, part in pieces(len(partial)):
            total.add(member, index, raw(partial, part))
    return total.result()
