"""Faults of shared noise, which an audit plants in members. No node can be told to have one.

`node` and `mechanisms` have no hook for them, and no configuration reaches them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.gradients.noisy_sum import NoisySum
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.shared_noise import SharedGradient, SharedNoise, in_ring
from mechanisms.noise.randomness import Words

_NEXT_TO_NONE = 1e-12
"""The share of noise of a member that adds none: every draw rounds to 0 units."""


@dataclass(frozen=True)
class Fault:
    """A fault in how honest members make or read a sum. `shares`: how much of its noise each one adds."""

    name: str
    shares: tuple[float, ...]
    scale: float = 1.0
    """The decoded sum, in multiples of the right one."""
    tensor_wise: bool = False
    """Whether each tensor's gradient is clipped by itself, not the whole one."""


def no_fault(honest: int) -> Fault:
    """Return what `honest` members do without a fault."""
    return Fault("", (1.0,) * honest)


def faults(honest: int, members: int) -> tuple[Fault, ...]:
    """Return the faults of `honest` members in groups of `members`."""
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


def tensor_wise_fault(honest: int) -> Fault:
    """Return the fault that loud rows find: each tensor's gradient may be as long as the whole one."""
    return Fault("each tensor clipped by itself", (1.0,) * honest, tensor_wise=True)


@dataclass(frozen=True)
class FaultyNoise(SharedNoise):
    """A rule with another share of noise and another scale of decoded sums, on the grid of the right rule.

    It accepts what the right rule refuses.
    """

    share: float
    scale: float

    def __post_init__(self) -> None:
        """Accept everything."""

    @property
    def share_std(self) -> float:
        """The std of the noise that a member adds."""
        return max(self.share, _NEXT_TO_NONE) * self.right.share_std

    @property
    def unit(self) -> float:
        """The unit g of the right rule."""
        return self.right.unit

    @property
    def right(self) -> SharedNoise:
        """The rule without the fault."""
        return SharedNoise(
            self.gradient, self.honest, self.expected_batch, self.members, self.size, self.steps
        )

    def decode(self, words: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return the sum (d,) of its words (d,), times `scale`."""
        return words.view(np.int32).astype(np.float64) * (self.unit * self.scale)


def faulty_rule(rule: SharedNoise, share: float, scale: float) -> SharedNoise:
    """Return `rule` with this share of noise and scale of sums; `rule` itself if both are 1."""
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
        """Return the member's words (d,) for these rows."""
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
        """Return the member's words (d,) for these rows."""
        return in_ring(self._sum(x, y, words)[0])


class Right:
    """A member without a fault: a node's own code."""

    def __init__(self, objective: Objective, rule: SharedNoise, most_rows: int) -> None:
        """See SharedGradient."""
        self._gradient = SharedGradient(objective, rule, most_rows)

    def words(self, x: torch.Tensor, y: torch.Tensor, words: Words) -> NDArray[np.uint32]:
        """Return the member's words (d,) for these rows."""
        return self._gradient.offer(x, y, words)[0]


Member = Right | TensorWise | Unrounded


def ring_sum(words: Sequence[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    """Return the sum (d,) of all members' words modulo 2^32, as a secure sum gives it."""
    return np.asarray(np.sum(np.stack(words), axis=0, dtype=np.uint32))
