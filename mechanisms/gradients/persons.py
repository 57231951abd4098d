"""Gradients of persons: those of a person's rows are added and clipped together.

A person with m rows has a width T, the least of 1, 2, 4, 8 ... that is at least m. The person has T places in
a block, of which the last T - m hold zeros. All persons of a block have the same width. So what stands in a
person's places depends on the person's own rows and their order alone, and another person in the batch moves
the others by whole persons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from mechanisms.gradients.blocks import Gradients
from mechanisms.gradients.layers import RowGradients, group_rows


def widths(rows: int) -> tuple[int, ...]:
    """Returns the widths of persons with up to `rows` rows: 1, 2, 4 ..."""
    return tuple(1 << power for power in range((rows - 1).bit_length() + 1))


@dataclass(frozen=True)
class PersonGradients:
    """Computes the gradients of persons of one `width`, by a method for single rows."""

    method: Gradients
    width: int

    def __call__(
        self, x: torch.Tensor, y: torch.Tensor, own: torch.Tensor
    ) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """Returns gradients of K persons by parameter name, and the losses (K, T) of their rows.

        x (K, T, ...), y (K, T, ...). `own` (K, T) bool: which places hold a row; the others have a loss of 0.
        """
        found, losses = self.method(x.flatten(0, 1), y.flatten(0, 1))
        away = ~own.flatten()
        gradients = {name: part.without(away).group_sums(self.width) for name, part in found.items()}
        return gradients, torch.where(own, group_rows(losses, self.width), 0.0)


@dataclass(frozen=True)
class PersonGroup:
    """m persons of one width T: x (m, T, ...), y (m, T, ...); `own` (m, T) bool: which places hold a row."""

    width: int
    x: torch.Tensor
    y: torch.Tensor
    own: torch.Tensor

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors that a method for this width takes: for T = 1 just x and y (m, ...)."""
        return (self.x[:, 0], self.y[:, 0]) if self.width == 1 else (self.x, self.y, self.own)


def group_by_width(x: torch.Tensor, y: torch.Tensor, persons: torch.Tensor) -> Iterator[PersonGroup]:
    """Yields the persons of each width, the narrowest first, from their rows x (n, ...), y (n, ...).

    `persons` (n,): whose row each is, as whole numbers.
    """
    _, numbers, counts = torch.unique(persons.to(x.device), return_inverse=True, return_counts=True)
    order = torch.argsort(numbers, stable=True)
    starts = counts.cumsum(0) - counts
    place = torch.empty_like(numbers)
    place[order] = torch.arange(len(x), device=x.device) - starts[numbers[order]]
    for width in widths(int(counts.max())) if len(x) else ():
        chosen = (counts <= width) & (2 * counts > width)
        if not chosen.any():
            continue
        rows = chosen[numbers]
        where = (chosen.cumsum(0) - 1)[numbers[rows]], place[rows]
        shape = int(chosen.sum()), width
        own = torch.zeros(shape, dtype=torch.bool, device=x.device)
        own[where] = True
        yield PersonGroup(width, _place_rows(x[rows], where, shape), _place_rows(y[rows], where, shape), own)


def _place_rows(
    values: torch.Tensor, where: tuple[torch.Tensor, torch.Tensor], shape: tuple[int, int]
) -> torch.Tensor:
    found = values.new_zeros(*shape, *values.shape[1:])
    found[where] = values
    return found
