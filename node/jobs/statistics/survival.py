"""Survival on a grid of times that all members agree on: counts of events and rows, and Cox's model.

A row with time t is at place floor(t / grid). Who is at risk at a place is then a sum over it and all later
ones, so sums by place are all that the partial likelihood needs (WebDISCO: Lu et al. 2015). Events at one
place are tied; Breslow's likelihood is used. Where times are whole multiples of the grid, nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles, log, total
from node.jobs.job import Words
from node.jobs.limbs import Limbs, counts_of, sums_from_here, to_numbers, to_state
from node.jobs.statistics.columns import Category, Column, Number, Table, rows_of
from node.jobs.statistics.newton import FARTHEST, Curve
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

MOST_TIMES = 4096
_ROUNDING = 1e-9  # of the grid: 0.3 / 0.1 is a little less than 3


@dataclass(frozen=True)
class Times:
    """The columns of the time and of the event, a category of two levels or 0 and 1, and the grid."""

    time: Number
    event: Column
    grid: float

    @property
    def places(self) -> int:
        """K: how many places the grid has."""
        return int(self._place(np.array(self.time.high))) + 1

    def _place(self, time: Doubles) -> Doubles:
        return np.floor(time / self.grid + _ROUNDING)

    def read(self, table: Table) -> Doubles:
        """Returns (n, 2): place and event, NaN where either is missing."""
        place = self._place(np.maximum(self.time.values(table), 0.0))
        return np.stack([place, table[self.event.name]], axis=1)


@dataclass(frozen=True)
class SurvivalPart:
    """Events and rows by place and group: all that Kaplan-Meier curves and the log-rank test need."""

    times: Times
    by: Category | None = None

    @property
    def _shape(self) -> tuple[int, int, int]:
        return 1 if self.by is None else len(self.by.levels), 2, self.times.places

    @property
    def length(self) -> int:
        """See Part."""
        return 1 + 2 * self.words(0)

    def words(self, generation: int) -> int:
        """See Part."""
        return prod(self._shape) if generation == 0 else 0

    def is_over(self, state: Floats) -> bool:
        """See Part."""
        return bool(state[0])

    def contribution(self, state: Floats, generation: int, table: Table) -> Words:
        """See Part."""
        if generation:
            return np.zeros(0, np.uint32)
        read = self.times.read(table)
        group = np.zeros(rows_of(table)) if self.by is None else table[self.by.name]
        kept = ~np.isnan(read).any(axis=1) & ~np.isnan(group)
        groups, _, places = self._shape
        cell = (group[kept] * places + read[kept, 0]).astype(np.int64)
        events = np.bincount(cell[read[kept, 1] == 1], minlength=groups * places)
        rows = np.bincount(cell, minlength=groups * places)
        return (
            np.stack([each.reshape(groups, places) for each in (events, rows)], axis=1)
            .astype(np.uint32)
            .ravel()
        )

    def following(self, state: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """See Part."""
        if generation:
            return state.copy()
        return np.concatenate([np.ones(1, np.float32), to_state(summed)])

    def counted(self, state: Floats) -> NDArray[np.int64]:
        """Returns (groups, 2, K): the events, and the rows that leave, at each place."""
        return counts_of(state[1:]).reshape(self._shape)


@dataclass(frozen=True)
class Cox:
    """Cox's partial likelihood. A sum has by place e^xb, x e^xb, xx' e^xb and events, and x of all events."""

    times: Times

    intercept = False
    unit = 2.0**-36

    def responses(self, table: Table) -> Doubles:
        """See Likelihood."""
        return self.times.read(table)

    def beginning(self, responses: Doubles) -> Doubles:
        """See Likelihood: nothing."""
        return np.zeros(0)

    def start(self, size: int, rows: float, beginnings: Doubles) -> Doubles:
        """See Likelihood."""
        return np.zeros(size)

    def size(self, q: int) -> int:
        """See Likelihood."""
        return (2 + q + q * (q + 1) // 2) * self.times.places + q + 1

    def sums(self, z: Doubles, responses: Doubles, point: Doubles) -> Doubles:
        """See Likelihood."""
        place, event = responses[:, 0].astype(np.int64), responses[:, 1]
        eta = z @ point
        risk = np.exp(np.clip(eta, -FARTHEST, FARTHEST))
        first, second = np.triu_indices(z.shape[1])
        columns = [risk, *(risk[:, None] * z).T, *(risk[:, None] * z[:, first] * z[:, second]).T, event]
        by_place = [np.bincount(place, column, minlength=self.times.places) for column in columns]
        far = float((np.abs(eta) > FARTHEST).sum())
        return np.concatenate([np.ravel(by_place), z.T @ event, [far]])

    def curve(self, limbs: Limbs, point: Doubles) -> Curve:
        """See Likelihood."""
        q, places = len(point), self.times.places
        by_place = limbs[: -(q + 1)].reshape(-1, places, limbs.shape[-1])
        events = to_numbers(by_place[-1], self.unit)
        has_event = events > 0
        at_risk = to_numbers(sums_from_here(by_place[:-1]), self.unit)[:, has_event]
        events, of_events = events[has_event], to_numbers(limbs[-(q + 1) :], self.unit)
        at_risk[0] = np.maximum(at_risk[0], self.unit)  # a risk of e^-30 is less
        means = at_risk[1 : 1 + q] / at_risk[0]
        first, second = np.triu_indices(q)
        spread = at_risk[1 + q :] / at_risk[0] - means[first] * means[second]
        value = total(events * log(at_risk[0])) - total(of_events[:-1] * point)
        gradient = total((events * means).T) - of_events[:-1]
        return Curve(float(value), gradient, total((events * spread).T), float(of_events[-1]))
