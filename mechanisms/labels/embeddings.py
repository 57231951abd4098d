"""Embedding differential privacy: the sign of each coordinate, by randomised response.

b_i = 1[x_i > 0], kept with probability e^(eps/2) / (e^(eps/2) + 1) and else flipped: the symmetric unary
encoding of Wang et al. 2017, section 4.3 (RAPPOR's one-time form, Erlingsson et al. 2014).

What it protects, and what not. Each coordinate's sign on its own has pure epsilon / 2 (neighbours: that
coordinate replaced by anything). `epsilon` is the whole cost only where two inputs differ in the sign of two
coordinates at most, as one-hot vectors do, for which the encoding was made. Two arbitrary embeddings may
differ in all d signs: releasing the whole vector, which is what matters for an example (neighbours: its
embedding replaced by any other), costs d * epsilon / 2. With d = 128 and epsilon = 1 that is 64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mechanisms import arguments
from mechanisms.accounting.ledger import Ledger, Pure
from mechanisms.labels.flips import Form, as_float64, capped_epsilon, like, respond
from mechanisms.noise.randomness import SystemWords, Words


@dataclass(frozen=True, slots=True)
class EmbeddingDP:
    """Each call draws noisy signs: `EmbeddingDP(1.0)(embeddings)`.

    epsilon: twice the cost of one coordinate; at least 0; above 100 is taken as 100. None: the signs
    themselves, no privacy. TypeError for what is not a number, ValueError for a negative one or NaN.
    words: the randomness; seeded words are for simulations only.
    """

    epsilon: float | None
    words: Words = field(default_factory=SystemWords, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", capped_epsilon(self.epsilon))

    def __call__(self, embeddings: Form) -> Form:
        """0 and 1 in the form of `embeddings`: same library, shape (any) and type.

        TypeError for what is no array of numbers, ValueError where it holds NaN or infinity.
        """
        values = as_float64("embeddings", embeddings)
        if not np.isfinite(values).all():
            raise ValueError("embeddings with NaN or infinity are not allowed: finite numbers")
        signs = (values > 0).astype(np.int64)
        if self.epsilon is not None:
            signs = respond(signs.ravel(), 2, self.epsilon / 2, self.words).reshape(signs.shape)
        return like(signs.astype(np.float64), embeddings)

    @property
    def coordinate_epsilon(self) -> float:
        """The pure epsilon of one coordinate's sign; infinite without noise."""
        return math.inf if self.epsilon is None else self.epsilon / 2

    def total_epsilon(self, coordinates: int) -> float:
        """The pure epsilon of a whole embedding of so many coordinates, released once."""
        return arguments.count("coordinates", coordinates) * self.coordinate_epsilon

    def spent(self, coordinates: int) -> Ledger:
        """What one release of a whole embedding puts into the ledger. ValueError without noise."""
        if self.epsilon is None:
            raise ValueError(
                "epsilon = None is not allowed: a number, as signs without noise have no finite epsilon"
            )
        return Ledger.of([Pure(self.total_epsilon(coordinates))])
