"""An attack and an aggregator of your own, for any study with clients of a server.

python -m scenarios run attack.toml
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class AgainstTheMean:
    """Sends, in each coordinate, `factor` standard deviations of its own update against its sign."""

    factor: float = 3.0

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """The weights (d,) to send instead of `weights` (d,), trained from `start` (d,)."""
        update = weights - start
        forged = start - np.float32(self.factor) * update.std() * np.sign(update)
        sent: Floats = forged.astype(np.float32)
        return sent


def nearest(updates: Floats, share: float = 0.5) -> Floats:
    """The mean (d,) of the `share` of the updates (k, d) that are nearest to their coordinate median."""
    distances = np.linalg.norm(updates - np.median(updates, axis=0), axis=1)
    kept = np.argsort(distances)[: max(1, round(share * len(updates)))]
    mean: Floats = updates[kept].mean(axis=0)
    return mean
