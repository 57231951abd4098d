"""A part of a job of statistics: one table, model or curve with its own share of the base and of each sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from node.jobs.job import Words
from node.jobs.statistics.columns import Table
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

Scalar = TypeVar("Scalar", bound=np.generic)


class Part(Protocol):
    """What `node.jobs.statistics.together` computes side by side. Its first state is zeros."""

    @property
    def length(self) -> int:
        """How many float32 words its state has."""

    def words(self, generation: int) -> int:
        """Returns how many words it adds to the sum that follows a base of this generation."""

    def contribution(self, state: Floats, generation: int, table: Table) -> Words:
        """Returns a member's words (words(generation),) on a state (length,)."""

    def following(self, state: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the next state (length,), the same bits at every member."""

    def is_over(self, state: Floats) -> bool:
        """Returns whether no sum changes this state."""


@dataclass(frozen=True)
class Blocks:
    """Named arrays, one after the other in a vector: their shapes."""

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(map(prod, self.shapes.values()))

    def join(self, arrays: Mapping[str, NDArray[Scalar]]) -> NDArray[Scalar]:
        """Returns the vector (size,) of these arrays."""
        return np.concatenate([np.reshape(arrays[name], prod(shape)) for name, shape in self.shapes.items()])

    def split(self, vector: NDArray[Scalar]) -> dict[str, NDArray[Scalar]]:
        """Returns the arrays of a vector (size,), by name."""
        starts = accumulate(map(prod, self.shapes.values()), initial=0)
        return {
            name: vector[start : start + prod(shape)].reshape(shape)
            for (name, shape), start in zip(self.shapes.items(), starts, strict=False)
        }
