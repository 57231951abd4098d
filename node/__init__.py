"""A peer: it trains on its owner's data and learns with other peers, without a server.

Programs and notebooks import the names below; Python loads each, and torch with it, at its first use:

>>> from node import Peer, Swarm, load_task
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from node.cli.sigint import loading

if TYPE_CHECKING:
    from node.api.peer import Peer
    from node.api.swarm import Results, Swarm
    from node.estimators.swarm_estimators import SwarmClassifier, SwarmRegressor
    from node.learners.learner import Learner, LearnerSetting
    from node.runtime.record.figures import Record, Summary
    from node.system.errors import ConfigError, UserError
    from node.task.load import load_task
    from node.task.sections import Task

_PLACES = {
    "ConfigError": "node.system.errors",
    "Learner": "node.learners.learner",
    "LearnerSetting": "node.learners.learner",
    "Peer": "node.api.peer",
    "Record": "node.runtime.record.figures",
    "Results": "node.api.swarm",
    "Summary": "node.runtime.record.figures",
    "Swarm": "node.api.swarm",
    "SwarmClassifier": "node.estimators.swarm_estimators",
    "SwarmRegressor": "node.estimators.swarm_estimators",
    "Task": "node.task.sections",
    "UserError": "node.system.errors",
    "load_task": "node.task.load",
}
__all__ = [
    "ConfigError",
    "Learner",
    "LearnerSetting",
    "Peer",
    "Record",
    "Results",
    "Summary",
    "Swarm",
    "SwarmClassifier",
    "SwarmRegressor",
    "Task",
    "UserError",
    "load_task",
]


loading()


def __getattr__(name: str) -> object:
    """Returns a public name from the module that defines it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'node' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_PLACES[name]), name)
