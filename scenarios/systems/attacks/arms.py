"""The arms of scenario `attacks`: the updates, the size of the sum, and the noise.

Factors: the attack, the number of updates in the sum (`updates`), the rows of each (`rows`), how each is
trained (`training`), and the mechanism with its epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.task.import_path import import_class
from node.task.rules import read_section
from node.task.sections import ModelSection, PrivacySection, TrainSection
from scenarios.inference.inversion import InversionCell
from scenarios.inference.membership import MembershipCell
from scenarios.inference.property import FEATURES, PropertyCell
from scenarios.study.arms import Arm, Where

Attack = InversionCell | PropertyCell | MembershipCell
DELTA = 1e-5
SUMS = (1, 3, 10, 30, 100)
"""The number of updates in a sum, of one row each, for inversion; 1: the bare update."""
MEMBERS = (1, 3, 10)
"""The number of updates in a sum, for property inference."""
UPDATE_EPSILONS = (1, 8, 100, 1000, 10000)
"""Epsilons of one offer, for one node's whole data set."""
RECORD_EPSILONS = (1, 8)
"""Epsilons of one training, for one record."""
RECORD_RADIUS = 1.0
"""The clipping radius (L2) of a record's gradient."""
NODE_ROWS = (16, 100, 287)
"""The rows of a node with the default training; 287 is a fifth of the digits."""

INVERSION_RADIUS, PROPERTY_RADIUS = 0.1, 0.2
"""Clipping radii (L2) of the noised updates."""
TARGETS = 4
MEMBERSHIP_EPOCHS = 30
DIGITS_MODEL = ModelSection("node.models:MLP", {"sizes": [64, 64, 10]})
NOTHING = PrivacySection()

ONE_STEP = TrainSection(rounds=1, epochs=1, batch_size=1, learning_rate=0.1, momentum=0.0)
AS_NODES = TrainSection(rounds=1, epochs=2, batch_size=16, learning_rate=0.1, momentum=0.9)

NONE: Where = {"mechanism": "none"}
LDP: Where = {"mechanism": "ldp"}
"""Noise on the update."""
DP_SGD: Where = {"mechanism": "dp-sgd"}
"""Noise in the training: every step is private for a record."""
INVERSION: Where = {"attack": "inversion"}
ROWS: Where = {**INVERSION, "training": "one step", **NONE}
"""Inversion of sums of updates, each of one step on one row."""
NODES: Where = {**INVERSION, "training": "as nodes", **NONE}
"""Inversion of updates of nodes with the default training."""
PROPERTY: Where = {"attack": "property"}
CLIENTS: Where = {**PROPERTY, **NONE}
"""Property inference from sums of clients' updates without noise."""
MEMBERSHIP: Where = {"attack": "membership"}
MODEL: Where = {**MEMBERSHIP, **NONE}
"""Membership inference from a model that is trained without noise."""
PRIVATE_MODELS: Where = {**MEMBERSHIP, **DP_SGD}


# -- cells -------------------------------------------------------------------------------------------------


def local(epsilon: float, clipping_radius: float) -> PrivacySection:
    """Local noise on the update. The radius clips nearly all updates, so the relative noise is least."""
    return PrivacySection("ldp", float(epsilon), DELTA, clipping_radius)


def by_record(epsilon: float) -> PrivacySection:
    """Noise in the training: every step is private for a record."""
    return PrivacySection("dp-sgd", float(epsilon), DELTA, RECORD_RADIUS)


def _made(cell: Attack, factors: Where) -> Arm:
    """The arm of a cell, with the mechanism and epsilon of its [privacy]."""
    noise = {} if cell.privacy == NOTHING else {"epsilon": cell.privacy.epsilon}
    return Arm(cell, {**factors, "mechanism": cell.privacy.mechanism, **noise})  # type: ignore[dict-item]


def _cell(arm: str, train: TrainSection, privacy: PrivacySection, updates: int, rows: int) -> InversionCell:
    return InversionCell(arm, 0, DIGITS_MODEL, train, privacy, updates, rows, TARGETS)


def _inversion(
    name: str,
    train: TrainSection = ONE_STEP,
    privacy: PrivacySection = NOTHING,
    updates: int = 1,
    rows: int = 1,
) -> Arm:
    training = "one step" if train == ONE_STEP else "as nodes"
    size: Where = {"training": training, "updates": updates, "rows": rows}
    return _made(_cell(f"inversion-{name}", train, privacy, updates, rows), {**INVERSION, **size})


def _property(name: str, privacy: PrivacySection = NOTHING, updates: int = 1) -> Arm:
    train = TrainSection(rounds=1, epochs=2, batch_size=16, learning_rate=0.05, momentum=0.0)
    model = ModelSection("node.models:MLP", {"sizes": [FEATURES, 2]})
    cell = PropertyCell(f"property-{name}", 0, model, train, privacy, updates, rows=100)
    return _made(cell, {**PROPERTY, "updates": updates})


def _membership(name: str, privacy: PrivacySection = NOTHING) -> Arm:
    train = TrainSection(rounds=1, epochs=MEMBERSHIP_EPOCHS, batch_size=16, learning_rate=0.1, momentum=0.9)
    cell = MembershipCell(
        f"membership-{name}", 0, DIGITS_MODEL, train, privacy, rows=150, victims=4, shadows=8
    )
    return _made(cell, MEMBERSHIP)


def _noises(clipping_radius: float) -> Mapping[str, PrivacySection]:
    """Every noise by its part of an arm's name: on updates, clipped to this radius, then in the training."""
    updates = {f"epsilon{epsilon}": local(epsilon, clipping_radius) for epsilon in UPDATE_EPSILONS}
    return {**updates, **{f"dp-sgd-epsilon{epsilon}": by_record(epsilon) for epsilon in RECORD_EPSILONS}}


def _sum(updates: int) -> str:
    return "bare" if updates == 1 else f"sum{updates}"


ARMS: tuple[Arm, ...] = (
    *(_inversion(_sum(updates), updates=updates) for updates in SUMS),
    *(_inversion(f"node{rows}", AS_NODES, rows=rows) for rows in NODE_ROWS),
    _inversion("node100-sum3", AS_NODES, updates=3, rows=100),
    *(_inversion(name, privacy=privacy) for name, privacy in _noises(INVERSION_RADIUS).items()),
    *(_property(_sum(members), updates=members) for members in MEMBERS),
    *(_property(name, privacy) for name, privacy in _noises(PROPERTY_RADIUS).items()),
    _membership("none"),
    *(_membership(f"epsilon{epsilon}", by_record(epsilon)) for epsilon in RECORD_EPSILONS),
)


def own(path: str, parameters: Mapping[str, Any]) -> InversionCell:
    """Inversion of the bare update of one row, with a user's node mechanism.

    Parameters are keys of [privacy]. Raises ConfigError.
    """
    if ":" in path:
        import_class(path)
    privacy = read_section(PrivacySection, "privacy", {**parameters, "mechanism": path})
    return _cell("own", ONE_STEP, privacy, 1, 1)
