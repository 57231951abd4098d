"""A peer: it trains on its owner's data and learns with others, without a server.

For programs and notebooks; the names below are loaded when they are first used, torch with them:

>>> from node import Peer, Swarm, load_task
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from node.starting import loading

if TYPE_CHECKING:
    from node.artifacts import Record, Summary
    from node.config import Task, load_task
    from node.errors import ConfigError, UserError
    from node.notebook import Peer
    from node.swarm import Results, Swarm

_PLACES = {
    "ConfigError": "node.errors",
    "Peer": "node.notebook",
    "Record": "node.artifacts",
    "Results": "node.swarm",
    "Summary": "node.artifacts",
    "Swarm": "node.swarm",
    "Task": "node.config",
    "UserError": "node.errors",
    "load_task": "node.config",
}
__all__ = ["ConfigError", "Peer", "Record", "Results", "Summary", "Swarm", "Task", "UserError", "load_task"]


loading()


def __getattr__(name: str) -> object:
    """A public name, from the module that has it."""
    if name not in _PLACES:
        raise AttributeError(f"module 'node' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_PLACES[name]), name)
