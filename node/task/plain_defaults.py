"""Defaults for local training without privacy, by sizes that are public: those of the model and of the rows.

`python -m benchmarks defaults` compares what they lead to with scikit-learn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_LARGEST_RATE, _LEAST_RATE = 0.003, 0.001
_LARGEST_RATE_OF_A_LAYER = 0.03
_RATE_OF_ALL_INPUTS = 3.0
_LINEAR = "node.models:Linear"
_LEAST_STEPS, _MOST_EPOCHS = 200, 10
_LEAST_BATCH, _LARGEST_BATCH = 8, 64
_BATCHES = 50  # in an epoch, if a batch of that size is allowed


@dataclass(frozen=True)
class PlainDefaults:
    """Defaults of local training without noise: keys of [train].

    Adam moves each parameter by about the rate, whatever the scale of its gradient, so that a step's length
    does not depend on rows, loss or units; the cosine ends the run in small steps.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: str = "adam"
    momentum: float = 0.9
    schedule: str = "cosine"


def plain_defaults(model: str, width: int, rows: int, rounds: int) -> PlainDefaults:
    """Returns the defaults for a model by its import path, for `rows` of `width` numbers at each peer.

    A single layer bears ten times the rate of a network. A step of Adam may change an output by rate x width,
    so the rate falls with rows wider than 100 (a layer) or 1,000 numbers. Small data sets are passed several
    times a round, so that the run has at least 200 steps. Raises ValueError.
    """
    for name, value in (("width", width), ("rows", rows), ("rounds", rounds)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} = {value!r} is not allowed: a whole number of 1 and more")
    largest = _LARGEST_RATE_OF_A_LAYER if model == _LINEAR else _LARGEST_RATE
    rate = min(largest, max(_LEAST_RATE, _RATE_OF_ALL_INPUTS / width))
    batch = power_of_two(rows / _BATCHES, _LEAST_BATCH, _LARGEST_BATCH)
    steps = rounds * math.ceil(rows / batch)
    epochs = min(_MOST_EPOCHS, math.ceil(_LEAST_STEPS / steps))
    return PlainDefaults(epochs, batch, float(f"{rate:.1g}"))


def optimizer_of_a_rare_class(model: str, optimizer: str) -> str:
    """Returns the optimiser for a model where a class is rare, in place of the table's `optimizer`.

    Adam's steps are as long for a site that has hardly a row of the class, whose gradients are small and say
    little, as for one that has many: the mean of the sites then has that site's noise. A step of SGD is as
    long as its gradient. `python -m benchmarks targets --part lab` has figures, of a single layer.
    """
    return "sgd" if model == _LINEAR else optimizer


def power_of_two(wanted: float, low: int, high: int) -> int:
    """Returns the largest power of two up to `wanted`, from `low` to `high`, which are such powers."""
    return min(high, max(low, 2 ** int(math.log2(max(1.0, wanted)))))
