"""SCAFFOLD: control variates take the drift out of local steps (Karimireddy et al. 2020, Algorithm 1).

The server's control c estimates the gradient of the mean loss, a client's control c_i that of its own loss.
With x the model, eta_l the clients' learning rate, K their steps, N all clients, S the sample:

    client   y <- y - eta_l (g_i(y) + c - c_i)     K times, from y = x
             c_i+ = c_i - c + (x - y) / (K eta_l)                        option II
             sends y - x and c_i+ - c_i, keeps c_i+
    server   x <- x + eta_g mean of (y - x)        c <- c + |S| / N mean of (c_i+ - c_i)

Means are over S and weigh clients equally, so the model approaches the minimum of the clients' mean loss, not
of the rows' mean loss. c_i stays with its client. The correction follows each step. With momentum or weight
decay in the clients' training, c_i estimates what these make of the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.arguments import positive
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import FixedSample, Sent, Step, Trained, Upload

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scaffold(FixedSample):
    """SCAFFOLD with option II; `learning_rate` is eta_g. The state is c, (d,); what a client keeps is c_i."""

    learning_rate: float = 1.0

    name = "scaffold"
    protects = (
        "every upload is what the client learned and how its gradients differ, without noise and twice as "
        "long as the model, as is every download: whoever reads an upload may read the client's data"
    )

    def __post_init__(self) -> None:
        FixedSample.__post_init__(self)
        positive("learning_rate", self.learning_rate)

    @property
    def figures(self) -> Mapping[str, float]:
        """eta_g, and how many vectors as long as the model travel each way."""
        return {"server learning rate": float(self.learning_rate), "vectors sent per model": 2.0}

    @property
    def client_memory(self) -> int:
        """d, the length of c_i."""
        return self.federation.dimension

    def start(self) -> Doubles:
        """c = 0."""
        return np.zeros(self.federation.dimension)

    def told(self, state: Doubles) -> Floats:
        """c, (d,)."""
        return state.astype(np.float32)

    def state_figures(self, state: Doubles) -> Mapping[str, float]:
        """The norm of c, which estimates the gradient of the mean loss."""
        return {"norm of the server's control": float(np.linalg.norm(state))}

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """y - eta_l (c - c_i), after a step of SGD."""
        correction = torch.from_numpy(step.told - step.kept).to(weights.dtype)  # (k, d)
        return weights - step.learning_rate * correction

    def send(self, trained: Trained, words: Words) -> Sent:
        """The update and the change of c_i, (2 d,); the client keeps the new c_i."""
        update = trained.weights - trained.start
        slope = -update.astype(np.float64) / (trained.steps * trained.learning_rate)
        control = (trained.kept.astype(np.float64) - trained.told + slope).astype(np.float32)
        return Sent(np.concatenate([update, control - trained.kept]), control)

    def combine(
        self, model: Floats, state: Doubles, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, Doubles]:
        """x plus eta_g times the mean update, and the new c. Both stay as they are without uploads."""
        if not len(uploads):
            return model, state
        mean = np.mean([sent.vector.astype(np.float64) for sent in uploads], axis=0)  # (2 d,)
        update, change = np.split(mean, 2)
        new: Floats = (model.astype(np.float64) + self.learning_rate * update).astype(np.float32)
        return new, state + len(uploads) / self.federation.clients * change
