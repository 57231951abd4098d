"""Faults of shared noise, to be planted in members of an audit. No node can be told to have one.

They live beside the audit: `node` and `mechanisms` have no hook for them, and no configuration reaches them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.gradients.distributed import SharedGradient, SharedNoise, in_ring
from mechanisms.gradients.noisy_sum import NoisySum
from mechanisms.gradients.objective import Objective
from mechanisms.noise.randomness import Words

_NEXT_TO_NONE = 1e-12
"""The share of the noise of a member that adds none: every draw rounds to 0 units."""


@dataclass(frozen=True)
class Fault:
    """A fault in how honest members make or read a sum. `shares`: of its noise that each of them adds."""

    name: str
    shares: tuple[float, ...]
    scale: float = 1.0
    """By how much the decoded sum is too large."""
    tensor_wise: bool = False
    """Whether each tensor's gradient is clipped by itself."""


def sound(honest: int) -> Fault:
    """No fault, for `honest` members."""
    return Fault("", (1.0,) * honest)


def faults(honest: int, members: int) -> tuple[Fault, ...]:
    """The faults of `honest` members in groups of `members`."""
    whole = (1.0,) * honest
    return (
        Fault("one adds no noise", (0.0, *whole[1:])),
        Fault(f"sized for {honest + 1} instead of {honest}", (math.sqrt(honest / (honest + 1)),) * honest),
        Fault(f"noise divided among all {members}", (math.sqrt(honest / members),) * honest),
        Fault(f"the std divided by {honest}, not the variance", (1 / math.sqrt(honest),) * honest),
        Fault("only one's own noise", (1.0, *(0.0,) * (honest - 1))),
        Fault("decoded 2 % too large", whole, 1.02),
        Fault("decoded 2 % too small", whole, 0.98),
    )


def tensor_wise(honest: int) -> Fault:
    """The fault that planted loud rows find: each tensor's gradient may be as long as the whole one."""
    return Fault("each tensor clipped by itself", (1.0,) * honest, tensor_wise=True)


@dataclass(frozen=True)
class FaultyNoise(SharedNoise):
    """A rule with another share of the noise and another scale of decoded sums, on the grid of the right one.

    What the right rule refuses is not refused here.
    """

    share: float
    scale: float

    def __post_init__(self) -> None:
        """Accepts everything."""

    @property
    def share_std(self) -> float:
        """The std that a member adds, with the fault."""
        return max(self.share, _NEXT_TO_NONE) * self.right.share_std

    @property
    def unit(self) -> float:
        """g of the right rule."""
        return self.right.unit

    @property
    def right(self) -> SharedNoise:
        """The rule without the fault."""
        return SharedNoise(
            self.gradient, self.honest, self.expected_batch, self.members, self.size, self.steps
        )

    def decode(self, words: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Returns the sum (d,) from its words (d,), too large by `scale`."""
        return words.view(np.int32).astype(np.float64) * (self.unit * self.scale)


def faulty(rule: SharedNoise, share: float, scale: float) -> SharedNoise:
    """Returns `rule` with a fault; `rule` itself if there is none."""
    if share == scale == 1:
        return rule
    return FaultyNoise(
        gradient=rule.gradient,
        honest=rule.honest,
        expected_batch=rule.expected_batch,
        members=rule.members,
        size=rule.size,
        steps=rule.steps,
        share=share,
        scale=scale,
    )


class TensorWise:
    """A member that clips each tensor's gradient by itself, not the whole gradient."""

    def __init__(self, objective: Objective, rule: SharedNoise, most_rows: int) -> None:
        """See SharedGradient."""
        self._sums = [
            NoisySum(
                objective=Objective(objective.model, {name: parameter}, objective.loss, objective.row),
                radius=rule.gradient.clipping_radius,
                unit=rule.unit,
                noise_std=rule.share_std,
                most_rows=most_rows,
                expected_rows=float(most_rows),
            )
            for name, parameter in objective.parameters.items()
        ]

    def words(self, x: torch.Tensor, y: torch.Tensor, words: Words) -> NDArray[np.uint32]:
        """Returns the member's words (d,) for these rows."""
        return in_ring(np.concatenate([each(x, y, words)[0] for each in self._sums]))


class Unrounded:
    """A member whose clip leaves no room for the rounding to whole units."""

    def __init__(self, objective: Objective, rule: SharedNoise, most_rows: int) -> None:
        """See SharedGradient."""
        self._sum = NoisySum(
            objective=objective,
            radius=rule.gradient.clipping_radius + math.sqrt(rule.size) * rule.unit,
            unit=rule.unit,
            noise_std=rule.share_std,
            most_rows=most_rows,
            expected_rows=float(most_rows),
        )

    def words(self, x: torch.Tensor, y: torch.Tensor, words: Words) -> NDArray[np.uint32]:
        """Returns the member's words (d,) for these rows."""
        return in_ring(self._sum(x, y, words)[0])


class Right:
    """A member without a fault, as a node has it."""

    def __init__(self, objective: Objective, rule: SharedNoise, most_rows: int) -> None:
        """See SharedGradient."""
        self._gradient = SharedGradient(objective, rule, most_rows)

    def words(self, x: torch.Tensor, y: torch.Tensor, words: Words) -> NDArray[np.uint32]:
        """Returns the member's words (d,) for these rows."""
        return self._gradient.offer(x, y, words)[0]


Member = Right | TensorWise | Unrounded


def summed(words: Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Returns the sum (d,) of all members' words modulo 2^32, as a secure sum gives it."""
    return np.asarray(np.sum(np.stack(words), axis=0, dtype=np.uint32))
