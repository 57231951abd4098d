"""The arms of scenario `attacks`: the updates, the size of the sum, and the noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from node.task.rules import read_section
from node.task.sections import ModelSection, PrivacySection, TrainSection
from node.training.build import import_class
from scenarios.inference.inversion import InversionCell
from scenarios.inference.membership import MembershipCell
from scenarios.inference.property import FEATURES, PropertyCell
from scenarios.study.sweep import Sweep

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


# -- names -------------------------------------------------------------------------------------------------


def inversion_sum(updates: int) -> str:
    """The name of the arm with a sum of `updates` updates, each of one step on one row."""
    return "inversion-bare" if updates == 1 else f"inversion-sum{updates}"


def inversion_node(rows: int, updates: int = 1) -> str:
    """The name of the arm with a sum of `updates` updates of nodes with `rows` rows and default training."""
    return f"inversion-node{rows}" + (f"-sum{updates}" if updates > 1 else "")


def inversion_noise(epsilon: float) -> str:
    """The name of the arm with the bare update of one row, clipped and noised."""
    return f"inversion-epsilon{epsilon:g}"


def inversion_records(epsilon: float) -> str:
    """The name of the arm with the bare update of one row, whose one step is private for a record."""
    return f"inversion-dp-sgd-epsilon{epsilon:g}"


def property_sum(updates: int) -> str:
    """The name of the arm with a sum of `updates` clients' updates."""
    return "property-bare" if updates == 1 else f"property-sum{updates}"


def property_noise(epsilon: float) -> str:
    """The name of the arm with one client's update, clipped and noised."""
    return f"property-epsilon{epsilon:g}"


def property_records(epsilon: float) -> str:
    """The name of the arm with one client's update, whose steps are private for a record."""
    return f"property-dp-sgd-epsilon{epsilon:g}"


def membership_noise(epsilon: float) -> str:
    """The name of the arm with private gradients at this epsilon; 0: without."""
    return f"membership-epsilon{epsilon:g}" if epsilon else "membership-none"


# -- cells -------------------------------------------------------------------------------------------------


def local(epsilon: float, clipping_radius: float) -> PrivacySection:
    """Local noise on the update. The radius clips nearly all updates, so the relative noise is least."""
    return PrivacySection("ldp", float(epsilon), DELTA, clipping_radius)


def by_record(epsilon: float) -> PrivacySection:
    """Noise in the training: every step is private for a record."""
    return PrivacySection("dp-sgd", float(epsilon), DELTA, RECORD_RADIUS)


def _inversion(
    arm: str, train: TrainSection, privacy: PrivacySection, updates: int, rows: int
) -> InversionCell:
    return InversionCell(arm, 0, DIGITS_MODEL, train, privacy, updates, rows, TARGETS)


def _inversions() -> Iterable[Attack]:
    for updates in SUMS:
        yield _inversion(inversion_sum(updates), ONE_STEP, NOTHING, updates, 1)
    for rows in NODE_ROWS:
        yield _inversion(inversion_node(rows), AS_NODES, NOTHING, 1, rows)
    yield _inversion(inversion_node(100, 3), AS_NODES, NOTHING, 3, 100)
    for epsilon in UPDATE_EPSILONS:
        yield _inversion(inversion_noise(epsilon), ONE_STEP, local(epsilon, INVERSION_RADIUS), 1, 1)
    for epsilon in RECORD_EPSILONS:
        yield _inversion(inversion_records(epsilon), ONE_STEP, by_record(epsilon), 1, 1)


def _property(arm: str, privacy: PrivacySection, updates: int) -> PropertyCell:
    train = TrainSection(rounds=1, epochs=2, batch_size=16, learning_rate=0.05, momentum=0.0)
    model = ModelSection("node.models:MLP", {"sizes": [FEATURES, 2]})
    return PropertyCell(arm, 0, model, train, privacy, updates, rows=100)


def _properties() -> Iterable[Attack]:
    for members in MEMBERS:
        yield _property(property_sum(members), NOTHING, members)
    for epsilon in UPDATE_EPSILONS:
        yield _property(property_noise(epsilon), local(epsilon, PROPERTY_RADIUS), 1)
    for epsilon in RECORD_EPSILONS:
        yield _property(property_records(epsilon), by_record(epsilon), 1)


def _memberships() -> Iterable[Attack]:
    train = TrainSection(rounds=1, epochs=MEMBERSHIP_EPOCHS, batch_size=16, learning_rate=0.1, momentum=0.9)
    for epsilon in (0, *RECORD_EPSILONS):
        privacy = by_record(epsilon) if epsilon else NOTHING
        arm = membership_noise(epsilon)
        yield MembershipCell(arm, 0, DIGITS_MODEL, train, privacy, rows=150, victims=4, shadows=8)


ARMS: tuple[Attack, ...] = (*_inversions(), *_properties(), *_memberships())


def own(path: str, parameters: Mapping[str, Any]) -> InversionCell:
    """Inversion of the bare update of one row, with a user's node mechanism.

    Parameters are keys of [privacy]. Raises ConfigError.
    """
    if ":" in path:
        import_class(path)
    privacy = read_section(PrivacySection, "privacy", {**parameters, "mechanism": path})
    return _inversion("own", ONE_STEP, privacy, 1, 1)


# -- arms that were run ------------------------------------------------------------------------------------


def run_of(sweep: Sweep, arms: Iterable[str]) -> list[str]:
    """Those of `arms` that were run, in order."""
    return [arm for arm in arms if sweep.has(arm)]
