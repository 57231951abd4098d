"""Newton's method whose gradients and Hessians are secure sums, with step halving: the state and its next.

RUNNING --> RUNNING     the next step; half of the last one if the value rose
        --> SETTLED     the step is below 1e-9
        --> COLLINEAR   a pivot vanishes at the first point
        --> SEPARATED   a long step gains nothing, a pivot vanishes, or a linear predictor is beyond 30
        --> UNSETTLED   sums or halvings are used up
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from node.jobs.exact_arithmetic import Doubles, factorise, symmetric, total
from node.jobs.limbs import doubles_of, to_state
from node.storage.vector_files import Floats

MOST_SUMS = 25
FARTHEST = 30.0
"""A linear predictor beyond this is a probability of 1e-13: events and others are separated."""
_SETTLED = 1e-9
_LEAST_PIVOT = 1e-10
_LONG, _FLAT = 0.1, 1e-6  # a step longer than a tenth of a deviation, along which the value hardly falls
_MOST_HALVINGS = 12
_NOISE = 1e-12  # of the value: a smaller rise is rounding
_HEAD = 6


class Status(IntEnum):
    """How far a model is, and how it ended."""

    NEW = 0
    RUNNING = 1
    SETTLED = 2
    COLLINEAR = 3
    SEPARATED = 4
    UNSETTLED = 5
    REFUSED = 6


@dataclass(frozen=True)
class Curve:
    """A convex function at a point: its value, gradient (q,) and Hessian (q, q)'s upper triangle."""

    value: float
    gradient: Doubles
    hessian: Doubles
    far: float = 0.0
    """How many rows have a linear predictor beyond FARTHEST."""


@dataclass(frozen=True)
class Newton:
    """The point (q,) whose curve is asked next, the step (q,) that led there, and the best curve before."""

    status: Status
    rows: float
    sums: float
    halvings: float
    first: float
    value: float
    point: Doubles
    step: Doubles
    hessian: Doubles  # upper triangle
    scales: Doubles  # (2, p): means and standard deviations of the columns

    @staticmethod
    def length(size: int, columns: int) -> int:
        """Returns how many float32 words the state has with q = `size` and p = `columns`."""
        return 4 * (_HEAD + 2 * size + size * (size + 1) // 2 + 2 * columns)

    @classmethod
    def of(cls, state: Floats, size: int) -> Newton:
        """Returns the state that `to_state` wrote."""
        head, point, step, hessian, scales = np.split(
            doubles_of(state), np.cumsum([_HEAD, size, size, size * (size + 1) // 2], dtype=np.int64)
        )
        rows, sums, halvings, first, value = head[1:].tolist()
        return cls(
            status=Status(int(head[0])),
            rows=rows,
            sums=sums,
            halvings=halvings,
            first=first,
            value=value,
            point=point,
            step=step,
            hessian=hessian,
            scales=scales.reshape(2, -1),
        )

    def to_state(self) -> Floats:
        """Returns the state as float32 words."""
        head = [float(self.status), self.rows, self.sums, self.halvings, self.first, self.value]
        return to_state(np.concatenate([head, self.point, self.step, self.hessian, self.scales.ravel()]))

    def ended(self, status: Status) -> Newton:
        """Returns the state with this end."""
        return replace(self, status=status)

    def after(self, curve: Curve) -> Newton:
        """Returns the state after the curve at `point` is known."""
        counted = replace(self, sums=self.sums + 1)
        is_first = self.sums == 0
        if not is_first and curve.value > self.value + _NOISE * abs(self.value) + _NOISE * self.rows:
            half = self.step / 2
            halved = replace(counted, halvings=self.halvings + 1, step=half, point=self.point - half)
            return (
                halved.ended(Status.UNSETTLED)
                if self._is_spent or self.halvings >= _MOST_HALVINGS
                else halved
            )
        if curve.far > 0:
            return counted.ended(Status.SEPARATED)
        factors = factorise(symmetric(curve.hessian, len(self.point)), _LEAST_PIVOT)
        if factors is None:
            return counted.ended(Status.COLLINEAR if is_first else Status.SEPARATED)
        step = factors.solve(-curve.gradient)
        best = replace(
            counted,
            halvings=0,
            first=curve.value if is_first else self.first,
            value=curve.value,
            point=self.point + step,
            step=step,
            hessian=curve.hessian,
        )
        farthest = max(abs(one) for one in step.tolist())
        if farthest < _SETTLED:
            return best.ended(Status.SETTLED)
        if farthest > _LONG and float(total(-curve.gradient * step)) < _FLAT:
            return best.ended(Status.SEPARATED)
        return best.ended(Status.UNSETTLED) if self._is_spent else best

    @property
    def _is_spent(self) -> bool:
        return self.sums + 1 >= MOST_SUMS
