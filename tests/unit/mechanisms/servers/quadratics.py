"""Clients that each minimise a quadratic, driven through the hooks alone as an engine drives them.

Client i has the loss (a_i / 2) ||w - t_i||^2 with the gradient a_i (w - t_i).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mechanisms.servers.server import Federation, ServerMechanism, Step, Trained, Upload
from tests.unit.mechanisms.settings import words


@dataclass(frozen=True)
class Quadratics:
    """`slopes` a (N,) and `targets` t (N, d); each client does `steps` steps of `rate` a round."""

    slopes: np.ndarray
    targets: np.ndarray
    steps: int
    rate: float

    @property
    def best(self) -> np.ndarray:
        """The minimum of the clients' mean loss, (d,)."""
        return (self.slopes @ self.targets) / self.slopes.sum()

    def federation(self, rounds: int = 10) -> Federation:
        """One row a client: all count alike."""
        return Federation((1,) * len(self.slopes), rounds, (self.targets.shape[1],))

    def run(self, mechanism: ServerMechanism, rounds: int, seed: int = 0) -> tuple[np.ndarray, Any]:
        """The model and the state after `rounds` rounds from 0."""
        rng, kept = np.random.default_rng(seed), {}
        model, state = np.zeros(self.targets.shape[1], np.float32), mechanism.start()
        for _ in range(rounds):
            chosen = mechanism.sample(len(self.slopes), rng)
            start, told = mechanism.broadcast(model, words()), mechanism.told(state)
            empty = np.zeros(mechanism.client_memory, np.float32)
            held = np.array([kept.get(int(client), empty) for client in chosen], np.float32)
            weights = self._trained(mechanism, start, Step(chosen, self.rate, told, held))
            uploads = []
            for client, own, memory in zip(chosen.tolist(), weights, held, strict=True):
                sent = mechanism.send(
                    Trained(client, own, start, 1, self.steps, self.rate, told, memory), words(client)
                )
                kept[client] = sent.kept
                uploads.append(Upload(client, 1, sent.vector))
            model, state = mechanism.combine(start, state, uploads, words())
        return model, state

    def _trained(self, mechanism: ServerMechanism, start: np.ndarray, step: Step) -> np.ndarray:
        slopes = torch.from_numpy(self.slopes[step.clients].astype(np.float32))[:, None]
        targets = torch.from_numpy(self.targets[step.clients].astype(np.float32))
        origin = torch.from_numpy(start.copy())
        weights = origin.expand(len(step.clients), -1).clone()
        for _ in range(self.steps):
            stepped = weights - self.rate * slopes * (weights - targets)
            weights = mechanism.after_batch(stepped, origin, step)
        return weights.numpy()


HETEROGENEOUS = Quadratics(
    slopes=np.array([0.2, 1.0, 3.0, 0.5]),
    targets=np.array([[4.0, 0.0], [-1.0, 2.0], [0.0, -3.0], [2.0, 5.0]]),
    steps=10,
    rate=0.1,
)
"""Four clients that pull with different strength towards different places."""
