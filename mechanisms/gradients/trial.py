"""Which way of computing the gradients of single rows is right for a model on this machine, and the fastest.

Random stand-ins for rows decide, of the right shape: no record has a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from mechanisms.gradients.blocks import ARRANGED, Gradients, Method, Way, block_rows
from mechanisms.gradients.book_keeping import BookKeeping
from mechanisms.gradients.layers import RowGradients, add_all, grouped, norms_of
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.per_example import OneByOne, PerExample
from mechanisms.gradients.persons import Together
from mechanisms.gradients.side_effects import NotByRow, in_eval_mode, without_side_effects
from mechanisms.gradients.stand_ins import Draw, accepted, far_off, stand_ins

_COMPARED, _AGREE = 3, 1e-3  # rows that are compared with the other method; relative difference

_FAILURES = (ValueError, TypeError, RuntimeError, IndexError, NotImplementedError)

BOOK_KEEPING = "book-keeping"
Found = Mapping[str, RowGradients]


class Trial:
    """Compares rows computed twice, book-keeping with gradients in full, and rows of a block among others.

    `found` holds gradients of the chosen way, for their shapes. Raises NotByRow for a model whose rows are
    not independent even one by one, and what the model raises for all stand-ins.
    """

    def __init__(self, objective: Objective, expected_rows: float) -> None:
        self._objective, self._expected = objective, expected_rows
        self._draw: Draw = torch.randn
        self.found: list[RowGradients] = []

    def chosen(self) -> tuple[Way, str]:
        """Returns how the gradients are computed, and a line that says why so."""
        alone = OneByOne(self._objective)
        exact = self._first_gradients(alone)
        try:
            # A model that decides by the values in a batch fails here; rows would depend on each other.
            self._gradients(PerExample(self._objective), _COMPARED)
        except _FAILURES as error:
            why_not = f"vmap fails: {_first_line(error)}"
        else:
            way, why_not = self._tried(BookKeeping, exact)
            if way is not None:
                return way, BOOK_KEEPING
            way, why_not_in_full = self._tried(PerExample, exact)
            if way is not None:
                return way, f"each row in full (vmap), as book-keeping does not fit: {why_not}"
            why_not += f"; vmap: {why_not_in_full}"
        self.found = list(exact.values())
        return Way(method=alone, rows=1, lanes=1, one_thread=True), f"each row by itself, as {why_not}"

    def _tried(self, make: type[BookKeeping | PerExample], exact: Found) -> tuple[Way | None, str]:
        """Returns the fastest way of this method that is right, or None and the reason."""
        try:
            method = make(self._objective)
            small = self._gradients(method, _COMPARED)
            if not self._agree(small, exact):
                return None, "it disagrees with the gradients of single rows"
            way = self._in_blocks(method, _elements(small, _COMPARED), 1)
            if way is not None:
                return way, ""
        except _FAILURES as error:
            return None, _first_line(error)
        return None, "rows of a block are not independent"

    def of_persons(self, way: Way, width: int) -> tuple[Way, list[RowGradients]]:
        """Returns how the gradients of persons of a width are computed, and some of them, for their shapes.

        `way`: what was chosen for single rows. Where no block of several persons is right, each person has
        its own.
        """
        together = Together(way.method, width)
        small, _ = together(*self._persons(_COMPARED, width, seed=1))
        found = None if way.rows == 1 else self._in_blocks(together, _elements(small, _COMPARED), width)
        if found is None:
            alone = Way(method=together, rows=1, lanes=1, one_thread=True)
            return alone, list(together(*self._persons(1, width, seed=1))[0].values())
        return found, self.found

    def _in_blocks(self, method: Gradients, elements: float, width: int) -> Way | None:
        """Returns the fastest way in blocks whose rows, or persons, are independent; None: no way is."""
        for lanes, one_thread in ARRANGED:
            rows = block_rows(self._expected, elements, lanes)
            way = Way(method=method, rows=rows, lanes=lanes, one_thread=one_thread)
            if self._is_independent(way, width):
                return way
        return None

    def _first_gradients(self, alone: Method) -> Found:
        """Computes rows one by one, twice: what a row gives depends on no other row, and not on its turn."""
        model = self._objective.model

        def run(draw: Draw) -> Found:
            self._draw = draw
            return without_side_effects(model, lambda: self._gradients(alone, _COMPARED))

        _, exact = accepted(run)
        if not self._agree(run(self._draw), exact, equal_nan=True):
            raise NotByRow(
                "a row has another gradient when it is computed again: the model, or the loss, draws numbers "
                "or keeps what it has seen; allowed: what follows from the row and the parameters alone"
            )
        with in_eval_mode(model), torch.no_grad():
            x, _ = self._stand_ins(1, seed=1)
            without_side_effects(model, lambda: model(x))
        return exact

    def _gradients(self, method: Method, rows: int) -> Found:
        x, y = self._stand_ins(rows, seed=1)
        return method(x, y)[0]

    def _agree(self, fast: Found, exact: Found, *, equal_nan: bool = False) -> bool:
        """Whether norms and gradients of each row are the same but for rounding in float32."""
        own, norms = norms_of(fast).cpu(), norms_of(exact).cpu()
        if not torch.allclose(own, norms, rtol=_AGREE, atol=0.0, equal_nan=equal_nan):
            return False
        for row in range(_COMPARED):
            chosen = torch.zeros(_COMPARED, dtype=torch.float64)
            chosen[row] = 1.0
            difference = self._row_of(fast, chosen) - self._row_of(exact, chosen)
            if float(torch.linalg.vector_norm(difference)) > _AGREE * float(norms[row]):
                return False
        return True

    def _row_of(self, found: Found, chosen: torch.Tensor) -> torch.Tensor:
        """Returns the gradient (d,) of the row whose weight in `chosen` is 1."""
        vector, total = self._objective.zeros()
        add_all(found, total, chosen.to(vector.device))
        return vector.cpu()

    def _is_independent(self, way: Way, width: int) -> bool:
        """Whether the numbers of a row, or person, keep their bits, whatever others are in its block."""

        def numbers(*rows: torch.Tensor) -> list[torch.Tensor]:
            with way.threads():
                found = way.method(*rows)[0]
            self.found = list(found.values())
            return [*(number for part in self.found for number in part.parts), norms_of(found)]

        first, other = self._persons(way.rows, width, 2), self._persons(way.rows, width, 5, far_off)
        return way.keeps_bits(numbers, first, other)

    def _persons(
        self, persons: int, width: int, seed: int, make: Callable[..., torch.Tensor] = stand_ins
    ) -> tuple[torch.Tensor, ...]:
        """Random persons of one width with any number of rows: x and y (persons, width, ...), and which are.

        With a width of 1 just x and y (persons, ...).
        """
        x, y = self._stand_ins(persons * width, seed, make)
        if width == 1:
            return x, y
        own = torch.rand((persons, width), generator=torch.Generator().manual_seed(seed)) < 0.5
        own[:, 0] = True
        return grouped(x, width), grouped(y, width), own.to(x.device)

    def _stand_ins(
        self, rows: int, seed: int, make: Callable[..., torch.Tensor] = stand_ins
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Random x (rows, ...) and y (rows, ...); targets that are no integers are in [0, 1)."""
        generator = torch.Generator().manual_seed(seed)
        x, y = self._objective.row
        return make(x, rows, self._draw, generator), stand_ins(y, rows, torch.rand, generator)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _elements(found: Found, rows: int) -> float:
    """Returns how many numbers the gradients of a row, or person, take, of `rows` that were found."""
    parts = found.values()
    return sum(sum(one.numel() for one in part.parts) / rows + part.terms**2 for part in parts)
