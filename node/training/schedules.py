"""Schedules of the learning rate: a factor of train.learning_rate for each round.

The factor changes by rounds, since each round uses a new optimiser. Rounds are counted from 1; beyond
train.rounds, if --rounds is larger, the factor stays that of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from node.system.errors import ConfigError, UserError, shown
from node.task.import_path import import_object, told
from node.task.sections import TrainSection

Schedule = Callable[[int], float]


def constant(round: int, rounds: int) -> float:
    """1 in every round."""
    return 1.0


def linear(round: int, rounds: int, final: float = 0.0) -> float:
    """Linear from 1 in the first round to `final`, which the round after the last would have."""
    return _share("final", final) + (1 - final) * (1 - (round - 1) / rounds)


def cosine(round: int, rounds: int, final: float = 0.0) -> float:
    """From 1 towards `final` along half a cosine (Loshchilov & Hutter 2017, equation 5, one period)."""
    return _share("final", final) + (1 - final) * (1 + math.cos(math.pi * (round - 1) / rounds)) / 2


def step(round: int, rounds: int, *, every: int, factor: float = 0.1) -> float:
    """Multiplies by `factor` after every `every` rounds."""
    if type(every) is not int or every < 1:
        raise ValueError(f"every = {every!r}; allowed: a whole number of rounds, at least 1")
    return float(_share("factor", factor) ** ((round - 1) // every))


BUILT_IN: Mapping[str, Callable[..., float]] = {
    "constant": constant,
    "linear": linear,
    "cosine": cosine,
    "step": step,
}


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name} = {value!r}; allowed: a number from 0 to 1")
    return float(value)


def make_schedule(section: TrainSection) -> Schedule:
    """Returns the function from a round's number to the factor, by train.schedule.

    A function by import path is called as `function(round, rounds, **train.schedule_args)`. Its values are
    checked here for the first and the last round, which may raise ConfigError, and later in every round.
    """
    name, arguments = section.schedule, dict(section.schedule_args)
    function = BUILT_IN[name] if name in BUILT_IN else import_object(name)
    if not callable(function):
        raise ConfigError(f"train.schedule = {shown(name)} cannot be called; allowed: a function")

    def factor(round: int) -> float:
        given = function(min(round, section.rounds), section.rounds, **arguments)
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < math.inf:
            raise UserError(
                f"train.schedule = {shown(name)} gives {shown(given)} for round {round}; allowed: a finite "
                "number of at least 0"
            )
        return float(given)

    try:
        for round in (1, section.rounds):
            factor(round)
    except UserError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:  # a user's schedule may raise anything
        raise ConfigError(
            f"train.schedule_args = {shown(arguments)} do not suit train.schedule = {shown(name)}: "
            f"{told(error)}"
        ) from error
    return factor
