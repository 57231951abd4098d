"""The step that all members take from a sum, bit for bit: SGD with momentum, Adam, and the iterates' average.

A base holds parameters p, their average a, and the optimiser's state, (d,) each, one after the other. From
the summed gradient S of step t = 1, 2, ... and the expected batch B follow g = S / B + (weight decay) p, and

    SGD    v' = momentum v + g                       p' = p - rate v'
    Adam   m' = b1 m + (1 - b1) g,  u' = b2 u + (1 - b2) g^2
           p' = p - rate (m' / (1 - b1^t)) / (sqrt(u' / (1 - b2^t)) + 1e-8)
           (Kingma & Ba 2015, Algorithm 1; b1 is train.momentum, b2 .999)
    both   a' = w a + (1 - w) p',  w = min(1 - 5 / steps, t / (9 + t))

torch.optim takes the same steps. Here each is made of +, -, x, / and square roots of single float32 numbers,
which IEEE 754 defines to the last bit: so all machines compute the same base, and no order of summation,
fused operation or library's power function can change it. The average is what is evaluated and saved: it has
less noise than the last iterate (Polyak & Juditsky 1992), and it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from node.task.sections import StepPlan, TrainSection
from node.training.schedules import Schedule, make_schedule

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]
State = list[Floats]

_SECOND_MOMENT_DECAY = 0.999
_EPSILON = 1e-8
_AVERAGED = 5.0  # a run has about five times the span of the average


class _Rule(Protocol):
    """An optimiser's rule for one step."""

    @property
    def states(self) -> int:
        """How many vectors (d,) its state has."""

    def moved(self, state: State, gradient: Floats, rate: float, step: int) -> tuple[State, Floats]:
        """Returns the new state and what to subtract from the parameters, (d,)."""


@dataclass(frozen=True)
class _Momentum:
    momentum: float
    states: int = 1

    def moved(self, state: State, gradient: Floats, rate: float, step: int) -> tuple[State, Floats]:
        velocity = np.float32(self.momentum) * state[0] + gradient
        return [velocity], np.float32(rate) * velocity


@dataclass(frozen=True)
class _Adam:
    momentum: float
    states: int = 2

    def moved(self, state: State, gradient: Floats, rate: float, step: int) -> tuple[State, Floats]:
        first = _blended(self.momentum, state[0], gradient)
        second = _blended(_SECOND_MOMENT_DECAY, state[1], gradient * gradient)
        unbiased = second / np.float32(1 - _power(_SECOND_MOMENT_DECAY, step))
        scaled = np.float32(rate / (1 - _power(self.momentum, step))) * first
        return [first, second], scaled / (np.sqrt(unbiased) + np.float32(_EPSILON))


def _blended(share: float, old: Floats, new: Floats) -> Floats:
    return np.float32(share) * old + np.float32(1 - share) * new


def _power(value: float, exponent: int) -> float:
    """`value` multiplied with itself: a library's power may differ in its last bit from another's."""
    return reduce(lambda product, _: product * value, range(exponent), 1.0)


class StepOptimizer:
    """The layout of a base for d parameters, and the step from one base to the next."""

    def __init__(self, section: TrainSection, plan: StepPlan, size: int) -> None:
        """`section` and `plan`: a task's; `size`: d."""
        self._size = size
        self._plan = plan
        self._decay = section.weight_decay
        self._rate = section.learning_rate
        self._schedule: Schedule = make_schedule(section)
        self._rule: _Rule = (_Adam if section.optimizer == "adam" else _Momentum)(section.momentum)

    @property
    def words(self) -> int:
        """The length of a base."""
        return (2 + self._rule.states) * self._size

    def initial(self, parameters: Floats) -> Floats:
        """Returns the first base (words,) with these parameters (d,), which are their average, too."""
        return np.concatenate([parameters, parameters, np.zeros(self._rule.states * self._size, np.float32)])

    def parameters(self, base: Floats) -> Floats:
        """Returns a view (d,) of the parameters at which the next gradients are taken."""
        return base[: self._size]

    def average(self, base: Floats) -> Floats:
        """Returns a view (d,) of the average of the iterates."""
        return base[self._size : 2 * self._size]

    def following(self, base: Floats, step: int, summed: Sums) -> Floats:
        """Returns the base after step number `step`, from 1, with this sum of gradients (d,)."""
        parameters, average, *state = np.split(base, len(base) // self._size)
        gradient = (summed / self._plan.expected_batch).astype(np.float32)
        if self._decay:
            gradient += np.float32(self._decay) * parameters
        round = -(-step // self._plan.report_every)
        rate = self._rate * self._schedule(round)
        state, change = self._rule.moved(state, gradient, rate, step)
        parameters = parameters - change
        share = min(max(0.0, 1 - _AVERAGED / self._plan.steps), step / (9 + step))
        return np.concatenate([parameters, _blended(share, average, parameters), *state])
