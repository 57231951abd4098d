"""Random stand-ins for rows, of their shape and type: a choice that they make depends on no record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import torch

T = TypeVar("T")
Draw = Callable[..., torch.Tensor]
"""Draws floats of a shape, with a `generator` and a `dtype`."""


def stand_ins(row: torch.Tensor, rows: int, draw: Draw, generator: torch.Generator) -> torch.Tensor:
    """Returns (rows, ...) like `row` (1, ...): floats by `draw`, whole numbers 0 or 1."""
    shape = (rows, *row.shape[1:])
    if row.is_floating_point():
        return draw(shape, generator=generator, dtype=row.dtype).to(row.device)
    return torch.randint(0, 2, shape, generator=generator).to(row.dtype).to(row.device)


def distant_stand_ins(row: torch.Tensor, rows: int, draw: Draw, generator: torch.Generator) -> torch.Tensor:
    """Returns stand-ins that are 100 times as large as others, if the model takes any number.

    Then rounding does not hide how little such rows leak into rows of numbers near 1.
    """
    found = stand_ins(row, rows, draw, generator)
    return found * 100 if row.is_floating_point() and draw is torch.randn else found


def choose_draw(run: Callable[[Draw], T]) -> tuple[Draw, T]:
    """Returns the first draw that `run` accepts, and what `run` returns with it.

    A model that uses numbers as indices refuses some draws: after numbers near 0 it is given whole ones, as
    numbers of words, of which zeros may fill up a row. Raises what `run` raises for zeros if it accepts no
    draw.
    """
    draws: tuple[Draw, ...] = (torch.randn, partial(_words, 1000), partial(_words, 10), torch.rand)
    for draw in draws:
        with suppress(IndexError, RuntimeError):
            return draw, run(draw)
    return _zeros, run(_zeros)


def _words(
    number: int, shape: tuple[int, ...], *, generator: torch.Generator, dtype: torch.dtype
) -> torch.Tensor:
    """Returns whole numbers from 0 to `number` - 1, the small ones more often: 0 for a tenth of 1,000."""
    logarithms = torch.rand(shape, generator=generator, dtype=dtype)
    return ((number + 1) ** logarithms).floor() - 1


def _zeros(shape: tuple[int, ...], *, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    del generator
    return torch.zeros(shape, dtype=dtype)
