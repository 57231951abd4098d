"""Federated averaging that ends its own process, once, so that a node dies at an exact step."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mechanisms.mechanism import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import (
    Federation,
    Indices,
    PlainTraining,
    State,
    Upload,
    fixed_sample,
)

STEPS = {"upload": 0, "combine": 0}


@dataclass(frozen=True)
class Deadly(PlainTraining):
    """Dies in a process's `nth` call of `step`: "upload" after training a client, "combine" with all uploads.

    `scar`: a file that it creates first; if the file exists, nothing happens. `way`: "kill", or "raise" for
    an error.
    """

    federation: Federation
    clients_per_round: int
    step: str
    nth: int
    scar: str
    way: str
    name = "deadly"
    protects = "nothing"

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        return fixed_sample(clients, self.clients_per_round, rng)

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        self._live("upload")
        return weights

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        self._live("combine")
        return PlainTraining.combine(self, model, state, uploads, words)

    def _live(self, step: str) -> None:
        STEPS[step] += 1
        if step != self.step or STEPS[step] != self.nth:
            return
        try:
            Path(self.scar).touch(exist_ok=False)
        except FileExistsError:
            return
        if self.way == "raise":
            raise RuntimeError("the scales are stuck")
        os.kill(os.getpid(), signal.SIGKILL)
