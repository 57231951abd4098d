"""The arms of scenario `aldp`, and the selections of them that claims, charts and tables are about.

The usual arm of a selection comes first: `none` before `none-n3`, which has another number of peers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from node.task.import_path import import_class
from node.task.load import load_task
from scenarios.study.arms import Arm, Factors, Where
from scenarios.swarms.cells import SwarmCell, changed_task
from scenarios.swarms.share_errors import ShareErrorCell

PEERS = 10
STATED = (1, 5, 10, 20, 50, 100, 300, 1000, 3000, 10_000)
"""The requested epsilons, over all rounds."""
RECORD_EPSILONS = (1, 5, 10, 20)
SWARM_SIZES = (3, 5, PEERS, 20, 30)
SIZES_EPSILON = 300
CAPS = (1.0, 3.0, 10.0)
CAPS_EPSILON = 3000
RADII = ("raw", "aggregate", "quantile", "fixed")
POWERS = range(7)
"""The exponents of max_share_value, to base 10."""
SHARE_ROUNDS = 3

CAP, SHARE_RANGE = "clipping_radius", "max_share_value"
NONE: Factors = {"mechanism": "none"}
EXACT: Factors = {"mechanism": "aldp", "radius": "raw", "calibration": "exact"}
"""Adaptive local noise, calibrated exactly."""
LINEAR: Factors = {**EXACT, "calibration": "linear-classic"}
"""The same with the calibration of the source's code."""
FIXED: Factors = {"mechanism": "ldp", "radius": "fixed"}
DP_SGD: Factors = {"mechanism": "dp-sgd"}
FLOATS: Factors = {"shares": "float"}
INTEGERS: Where = {"shares": ("ring", "seed")}

_TASK = load_task("digits", ())


def _swarm(name: str, privacy: Mapping[str, object], factors: Factors, peers: int = PEERS) -> Arm:
    cell = SwarmCell(name, changed_task(_TASK, {"privacy": privacy}), peers)
    return Arm(cell, {**factors, "peers": peers})


def _noised(
    name: str,
    epsilon: float,
    calibration: str = "exact",
    radius: str = "raw",
    cap: float = _TASK.privacy.clipping_radius,
    peers: int = PEERS,
) -> Arm:
    """Local noise whose clipping radius is at most `cap`, by a rule of `RADII`.

    "raw" is the source's rule: the radius follows a node's own norms, which the source takes as public.
    """
    rules: Mapping[str, Mapping[str, object]] = {
        "raw": {"window_source": "raw", "public_radius": True},
        "fixed": {},
    }
    mechanism = "ldp" if radius == "fixed" else "aldp"
    rule = {"mechanism": mechanism, **rules.get(radius, {"window_source": radius})}
    if mechanism == "aldp":
        rule["calibration"] = calibration
    factors: Factors = {"mechanism": mechanism, "radius": radius, "calibration": calibration}
    budget = {"epsilon": epsilon, CAP: cap}
    return _swarm(name, {**rule, **budget}, {**factors, **budget}, peers)


def _shares(name: str, kind: str, max_share_value: float, factors: Factors) -> Arm:
    aggregation = {"protocol": "additive", "shares": kind, SHARE_RANGE: max_share_value}
    task = changed_task(_TASK, {"aggregation": aggregation, "train": {"rounds": SHARE_ROUNDS}})
    return Arm(ShareErrorCell(name, task, PEERS), {"shares": kind, **factors})


_OTHER_SIZES = tuple(peers for peers in SWARM_SIZES if peers != PEERS)
"""The usual number of peers has its arms."""
ARMS: tuple[Arm, ...] = (
    *(
        _noised(f"{short}-{epsilon}", epsilon, calibration)
        for epsilon in STATED
        for short, calibration in (("exact", "exact"), ("linear", "linear-classic"))
    ),
    *(_swarm(f"dp-sgd-{at}", {**DP_SGD, "epsilon": at}, {**DP_SGD, "epsilon": at}) for at in RECORD_EPSILONS),
    _swarm("none", NONE, NONE),
    *(_swarm(f"none-n{peers}", NONE, NONE, peers) for peers in _OTHER_SIZES),
    *(_noised(f"exact-{SIZES_EPSILON}-n{peers}", SIZES_EPSILON, peers=peers) for peers in _OTHER_SIZES),
    *(
        _noised(f"{radius}-cap{cap:g}", CAPS_EPSILON, radius=radius, cap=cap)
        for cap in CAPS
        for radius in RADII
        if (radius, cap) != ("raw", _TASK.privacy.clipping_radius)  # the usual pair has its arm
    ),
    *(
        _shares(f"shares-float-1e{power}", "float", 10.0**power, {SHARE_RANGE: 10.0**power})
        for power in POWERS
    ),
    *(_shares(f"shares-{kind}", kind, _TASK.aggregation.max_share_value, {}) for kind in ("ring", "seed")),
)


def own(path: str, parameters: Mapping[str, Any]) -> SwarmCell:
    """An arm with a user's node mechanism; parameters are keys of [privacy]. Raises ConfigError."""
    if ":" in path:
        import_class(path)
    return SwarmCell("own", changed_task(_TASK, {"privacy": {**parameters, "mechanism": path}}), PEERS)
