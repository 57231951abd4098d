"""Embedding differential privacy: randomised response on the sign of each coordinate.

b_i = 1[x_i > 0] is kept with probability e^(eps/2) / (e^(eps/2) + 1) and otherwise flipped: the symmetric
unary encoding of Wang et al. 2017, section 4.3 (RAPPOR's one-time form, Erlingsson et al. 2014).

What it costs. The sign of one coordinate costs pure epsilon / 2 (neighbours: replace that coordinate).
`epsilon` is the whole cost only if two inputs differ in at most two signs, like the one-hot vectors for which
the encoding was designed. Two embeddings may differ in all d signs. So releasing the whole embedding of an
example (neighbours: replace the embedding) costs d * epsilon / 2: 64 with d = 128 and epsilon = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mechanisms import arguments
from mechanisms.accounting.ledger import Ledger, Pure
from mechanisms.labels.flips import Form, as_float64, capped_epsilon, convert_like, respond
from mechanisms.noise.randomness import SystemWords, Words


@dataclass(frozen=True, slots=True)
class EmbeddingDP:
    """Each call draws noisy signs: `EmbeddingDP(1.0)(embeddings)`.

    epsilon: twice the cost of one coordinate; at least 0; a value above 100 counts as 100. None: the signs
    without noise, no privacy. Raises TypeError if it is not a number, ValueError for a negative one or NaN.
    words: the randomness; use seeded words in simulations only.
    """

    epsilon: float | None
    words: Words = field(default_factory=SystemWords, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", capped_epsilon(self.epsilon))

    def __call__(self, embeddings: Form) -> Form:
        """Returns signs as 0 and 1, in the library, shape and type of `embeddings`, which has any shape.

        Raises TypeError unless it is an array of numbers, ValueError if it holds NaN or infinity.
        """
        values = as_float64("embeddings", embeddings)
        if not np.isfinite(values).all():
            raise ValueError("embeddings with NaN or infinity are not allowed: finite numbers")
        signs = (values > 0).astype(np.int64)
        if self.epsilon is not None:
            signs = respond(signs.ravel(), 2, self.epsilon / 2, self.words).reshape(signs.shape)
        return convert_like(signs.astype(np.float64), embeddings)

    @property
    def coordinate_epsilon(self) -> float:
        """The pure epsilon of one coordinate's sign; infinite without noise."""
        return math.inf if self.epsilon is None else self.epsilon / 2

    def total_epsilon(self, coordinates: int) -> float:
        """The pure epsilon of releasing a whole embedding of `coordinates` once."""
        return arguments.count("coordinates", coordinates) * self.coordinate_epsilon

    def ledger(self, coordinates: int) -> Ledger:
        """The ledger of one release of a whole embedding. Raises ValueError without noise."""
        if self.epsilon is None:
            raise ValueError(
                "epsilon = None is not allowed: a number, as signs without noise have no finite epsilon"
            )
        return Ledger.of([Pure(self.total_epsilon(coordinates))])
