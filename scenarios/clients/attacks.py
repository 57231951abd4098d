"""Attacks of one's own: a class by import path, with parameters.

A class with `rows` poisons what the attackers train on (scenarios.clients.poisons.Poison), one with `weights`
forges what they send (Forgery), and one with both does both. It is made anew for every call, so nothing but
its parameters and the random numbers of the call decide what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from node.system.errors import ConfigError, reason, shown
from node.task.import_path import import_class
from scenarios.clients.poisons import Attackers, Floats, Labels


@dataclass(frozen=True)
class OwnAttack:
    """The attack of a user's class, as a Poison or a Forgery. The class takes `parameters` by keyword."""

    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in results."""
        return self.path.rpartition(":")[2]

    def make(self) -> Any:
        """An instance of the class. Raises ConfigError."""
        found = import_class(self.path)
        try:
            return found(**self.parameters)
        except Exception as error:  # a user's class may raise anything
            raise ConfigError(f"attack {shown(self.path)}: {reason(error)}") from error

    def rows(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """See Poison. Raises ValueError for rows of another shape or type."""
        own_x, own_y = self.make().rows(x, y, rng)
        _alike("rows", own_x, x)
        _alike("labels", own_y, y)
        return own_x, own_y

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """See Forgery. Raises ValueError for weights of another shape or type."""
        sent = self.make().weights(weights, start, rng)
        _alike("weights", sent, weights)
        return np.asarray(sent)


def _alike(what: str, given: object, wanted: np.ndarray) -> None:
    array = np.asarray(given)
    if array.shape != wanted.shape or array.dtype != wanted.dtype:
        raise ValueError(
            f"the attack returns {what} of shape {array.shape} and type {array.dtype}; allowed: "
            f"{wanted.shape} and {wanted.dtype}, as it is given"
        )


def own_attackers(path: str, parameters: Mapping[str, Any], of: float) -> Attackers:
    """A share `of` the clients with the attack that `path` names. Raises ConfigError."""
    attack = OwnAttack(path, parameters)
    made = attack.make()
    kinds = {kind: attack if hasattr(made, kind) else None for kind in ("rows", "weights")}
    if not any(kinds.values()):
        raise ConfigError(f"attack {shown(path)} is no attack: it has neither rows(...) nor weights(...)")
    return Attackers(of, kinds["rows"], kinds["weights"])
