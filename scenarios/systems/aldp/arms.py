"""The arms of scenario `aldp`: their names, and the lines of plots that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from node.task.load import load_task
from node.training.build import import_class
from scenarios.study.cells import Cell
from scenarios.study.sweep import Sweep
from scenarios.swarms.cells import SwarmCell, changed_task
from scenarios.swarms.share_errors import ShareErrorCell

PEERS = 10
STATED = (1, 5, 10, 20, 50, 100, 300, 1000, 3000, 10_000)
"""The requested epsilons, over all rounds."""
RECORD_EPSILONS = (1, 5, 10, 20)
SWARM_SIZES = (3, 5, PEERS, 20, 30)
SIZES_EPSILON = 300
CAPS = (1, 3, 10)
CAPS_EPSILON = 3000
RADII = ("raw", "aggregate", "quantile", "fixed")
POWERS = range(7)
"""The exponents of max_share_value, to base 10."""
SHARE_ROUNDS = 3

NONE, RING, SEED = "none", "shares-ring", "shares-seed"


def exact(epsilon: float) -> str:
    """The name of the arm with adaptive local noise at this epsilon, calibrated exactly."""
    return f"exact-{epsilon:g}"


def linear(epsilon: float) -> str:
    """The name of the same arm with the calibration of the source's code."""
    return f"linear-{epsilon:g}"


def record(epsilon: float) -> str:
    """The name of the arm with private gradient steps, at this epsilon per record."""
    return f"dp-sgd-{epsilon:g}"


def sized(kind: str, peers: int) -> str:
    """The name of the arm `none`, or `exact` at the epsilon for sizes, with `peers` peers."""
    name = NONE if kind == "none" else exact(SIZES_EPSILON)
    return name if peers == PEERS else f"{name}-n{peers}"


def capped(radius: str, cap: float) -> str:
    """The name of the arm with exact noise at the epsilon for caps; the rule `radius` gives at most `cap`."""
    usual = radius == "raw" and cap == _TASK.privacy.clipping_radius
    return exact(CAPS_EPSILON) if usual else f"{radius}-cap{cap:g}"


def floats(power: int) -> str:
    """The name of the arm with float shares within +-10^power."""
    return f"shares-float-1e{power}"


# -- cells -------------------------------------------------------------------------------------------------

_TASK = load_task("digits", ())
_RAW = {"mechanism": "aldp", "window_source": "raw", "public_radius": True}
"""The source's rule: the radius follows a node's own norms, which the source takes as public."""


def _cell(arm: str, privacy: Mapping[str, object], peers: int = PEERS) -> SwarmCell:
    return SwarmCell(arm, changed_task(_TASK, {"privacy": privacy}), peers)


def _over_epsilon() -> Iterable[SwarmCell]:
    for epsilon in STATED:
        aldp = {**_RAW, "epsilon": epsilon}
        yield _cell(exact(epsilon), aldp)
        yield _cell(linear(epsilon), {**aldp, "calibration": "linear-classic"})
    for epsilon in RECORD_EPSILONS:
        yield _cell(record(epsilon), {"mechanism": "dp-sgd", "epsilon": epsilon})


def _over_sizes() -> Iterable[SwarmCell]:
    for peers in SWARM_SIZES:
        yield _cell(sized("none", peers), {"mechanism": "none"}, peers)
        yield _cell(sized("exact", peers), {**_RAW, "epsilon": SIZES_EPSILON}, peers)


def _over_caps() -> Iterable[SwarmCell]:
    for cap in CAPS:
        for radius in RADII:
            budget = {"epsilon": CAPS_EPSILON, "clipping_radius": cap}
            yield _cell(capped(radius, cap), {**_rule(radius), **budget})


def _rule(radius: str) -> Mapping[str, object]:
    """The keys of `[privacy]` for a rule of the radius."""
    match radius:
        case "fixed":
            return {"mechanism": "ldp"}
        case "raw":
            return _RAW
    return {"mechanism": "aldp", "window_source": radius}


def _over_shares() -> Iterable[ShareErrorCell]:
    for power in POWERS:
        yield _shares(floats(power), "float", 10.0**power)
    for arm, kind in ((RING, "ring"), (SEED, "seed")):
        yield _shares(arm, kind, _TASK.aggregation.max_share_value)


def _shares(arm: str, kind: str, max_share_value: float) -> ShareErrorCell:
    aggregation = {"protocol": "additive", "shares": kind, "max_share_value": max_share_value}
    task = changed_task(_TASK, {"aggregation": aggregation, "train": {"rounds": SHARE_ROUNDS}})
    return ShareErrorCell(SwarmCell(arm, task, PEERS))


def all_lines() -> Iterator[Cell]:
    """The cells of every line; a cell on two lines comes twice."""
    yield from _over_epsilon()
    yield from _over_sizes()
    yield from _over_caps()
    yield from _over_shares()


ARMS: tuple[Cell, ...] = tuple({cell.arm: cell for cell in all_lines()}.values())


def own(path: str, parameters: Mapping[str, Any]) -> SwarmCell:
    """An arm with a user's node mechanism; parameters are keys of [privacy]. Raises ConfigError."""
    if ":" in path:
        import_class(path)
    return _cell("own", {**parameters, "mechanism": path})


# -- arms that were run ------------------------------------------------------------------------------------


def run_of(sweep: Sweep, arms: Iterable[str]) -> list[str]:
    """Those of `arms` that were run."""
    return [arm for arm in arms if sweep.has(arm)]


def by_stated(sweep: Sweep, arms: Iterable[str], fact: str = "stated") -> dict[str, float]:
    """Those of `arms` that were run, each with its requested epsilon, or with another fact."""
    return {arm: sweep.number(arm, fact) for arm in run_of(sweep, arms)}


def tasks_of(sweep: Sweep) -> dict[str, SwarmCell]:
    """The swarm of every arm that was run; --peers and --set may change what the arm's name says."""
    found: dict[str, SwarmCell] = {}
    for cell in sweep.arms:
        if isinstance(cell, SwarmCell | ShareErrorCell):
            found[cell.arm] = cell if isinstance(cell, SwarmCell) else cell.of
    return found
