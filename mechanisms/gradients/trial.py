"""Finds the fastest way to compute gradients of single rows that is right for a model on this machine.

It tries ways on random stand-ins for rows, so the choice depends on no record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from mechanisms.gradients.blocks import ARRANGEMENTS, Gradients, Method, Way, block_rows
from mechanisms.gradients.book_keeping import BookKeeping
from mechanisms.gradients.layers import RowGradients, add_all, group_rows, norms_of
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.per_example import OneByOne, PerExample
from mechanisms.gradients.persons import PersonGradients
from mechanisms.gradients.side_effects import NotByRow, in_eval_mode, without_side_effects
from mechanisms.gradients.stand_ins import Draw, choose_draw, distant_stand_ins, stand_ins

_COMPARED, _AGREE = 3, 1e-3  # so many rows are compared with the exact method; to this relative difference

_FAILURES = (ValueError, TypeError, RuntimeError, IndexError, NotImplementedError)

_DECIDING = "data-dependent control flow"
_DECIDES = "the model decides by values of a whole batch, such as whether a mask of it is full"

BOOK_KEEPING = "book-keeping"
Found = Mapping[str, RowGradients]


class Trial:
    """Tries ways to compute the gradients of an objective; `expected_rows`: of a batch on average.

    `found` holds gradients of the way that was tried last, for their shapes: that of the chosen way.
    """

    def __init__(self, objective: Objective, expected_rows: float) -> None:
        self._objective, self._expected = objective, expected_rows
        self._draw: Draw = torch.randn
        self.found: list[RowGradients] = []

    def choose_way(self) -> tuple[Way, str]:
        """Returns the way for single rows, and a line that says which it is and why.

        Raises NotByRow for a model whose rows are not independent even one by one. Raises what the model
        raises if it refuses all stand-ins.
        """
        alone = OneByOne(self._objective)
        exact = self._first_gradients(alone)
        try:
            # A model that decides by values in a batch fails here: its rows would depend on each other.
            self._gradients(PerExample(self._objective))
        except _FAILURES as error:
            why_not = _DECIDES if _DECIDING in str(error) else f"vmap fails: {_first_line(error)}"
        else:
            way, why_not = self._try_method(BookKeeping, exact)
            if way is not None:
                return way, BOOK_KEEPING
            way, why_not_in_full = self._try_method(PerExample, exact)
            if way is not None:
                return way, f"each row in full (vmap), as book-keeping does not fit: {why_not}"
            why_not += f"; vmap: {why_not_in_full}"
        self.found = list(exact.values())
        return Way(method=alone, rows=1, lanes=1, one_thread=True), f"each row by itself, as {why_not}"

    def _try_method(self, make: type[BookKeeping | PerExample], exact: Found) -> tuple[Way | None, str]:
        """Returns the fastest right way to use this method, and ""; or None and what is wrong."""
        try:
            method = make(self._objective)
            small = self._gradients(method)
            if not self._agree(small, exact):
                return None, "it disagrees with the gradients of single rows"
            way = self._find_way_in_blocks(method, _elements(small), 1)
            if way is not None:
                return way, ""
        except _FAILURES as error:
            return None, _first_line(error)
        return None, "rows of a block are not independent"

    def choose_person_way(self, way: Way, width: int) -> tuple[Way, list[RowGradients]]:
        """Returns the way for persons of `width`, and gradients of such persons, for their shapes.

        `way` is that for single rows. If no block of several persons is right, each person has its own.
        """
        together = PersonGradients(way.method, width)
        small, _ = together(*self._persons(_COMPARED, width, seed=1))
        found = None if way.rows == 1 else self._find_way_in_blocks(together, _elements(small), width)
        if found is None:
            alone = Way(method=together, rows=1, lanes=1, one_thread=True)
            return alone, list(together(*self._persons(1, width, seed=1))[0].values())
        return found, self.found

    def _find_way_in_blocks(self, method: Gradients, elements: float, width: int) -> Way | None:
        """Returns the fastest blocks whose rows, or persons, are independent; None if there are none."""
        for lanes, one_thread in ARRANGEMENTS:
            rows = block_rows(self._expected, elements, lanes)
            way = Way(method=method, rows=rows, lanes=lanes, one_thread=one_thread)
            if self._is_independent(way, width):
                return way
        return None

    def _first_gradients(self, alone: Method) -> Found:
        """Returns gradients of rows one by one.

        Raises NotByRow if a pass has side effects, or if a second pass gives other gradients.
        """
        model = self._objective.model

        def run(draw: Draw) -> Found:
            self._draw = draw
            return without_side_effects(model, lambda: self._gradients(alone))

        _, exact = choose_draw(run)
        if not self._agree(run(self._draw), exact, equal_nan=True):
            raise NotByRow(
                "a row has another gradient when it is computed again: the model, or the loss, draws numbers "
                "or keeps what it has seen; allowed: what follows from the row and the parameters alone"
            )
        with in_eval_mode(model), torch.no_grad():
            x, _ = self._stand_ins(1, seed=1)
            without_side_effects(model, lambda: model(x))
        return exact

    def _gradients(self, method: Method) -> Found:
        x, y = self._stand_ins(_COMPARED, seed=1)
        return method(x, y)[0]

    def _agree(self, fast: Found, exact: Found, *, equal_nan: bool = False) -> bool:
        """Whether the norm and the gradient of each row are the same, but for rounding in float32."""
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
        """Whether the numbers of a row, or person, have the same bits whatever others its block has."""

        def numbers(*rows: torch.Tensor) -> list[torch.Tensor]:
            with way.threads():
                found = way.method(*rows)[0]
            self.found = list(found.values())
            return [*(number for part in self.found for number in part.parts), norms_of(found)]

        first, other = self._persons(way.rows, width, 2), self._persons(way.rows, width, 5, distant_stand_ins)
        return way.keeps_bits(numbers, first, other)

    def _persons(
        self, persons: int, width: int, seed: int, make: Callable[..., torch.Tensor] = stand_ins
    ) -> tuple[torch.Tensor, ...]:
        """Returns random persons of 1 to `width` rows: x and y (persons, width, ...), and `own`.

        With a width of 1 it returns just x and y (persons, ...).
        """
        x, y = self._stand_ins(persons * width, seed, make)
        if width == 1:
            return x, y
        own = torch.rand((persons, width), generator=torch.Generator().manual_seed(seed)) < 0.5
        own[:, 0] = True
        return group_rows(x, width), group_rows(y, width), own.to(x.device)

    def _stand_ins(
        self, rows: int, seed: int, make: Callable[..., torch.Tensor] = stand_ins
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns random x (rows, ...) and y (rows, ...); floating-point targets are in [0, 1)."""
        generator = torch.Generator().manual_seed(seed)
        x, y = self._objective.row
        return make(x, rows, self._draw, generator), stand_ins(y, rows, torch.rand, generator)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _elements(found: Found) -> float:
    """Returns how many numbers one row, or person, takes, from the gradients of `_COMPARED` of them."""
    parts = found.values()
    return sum(sum(one.numel() for one in part.parts) / _COMPARED + part.terms**2 for part in parts)
