"""Imports the objects that a task names by import path, "package.module:Name"."""

from __future__ import annotations

import importlib
from functools import reduce

from node.system.errors import ConfigError, reason, shown


def import_object(path: str) -> object:
    """Returns the object that `path`, "package.module:Name", names; raises ConfigError."""
    module_name, _, name = path.partition(":")
    if not name:
        raise ConfigError(f"{shown(path)} is no import path; allowed: 'package.module:Class'")
    try:
        found: object = reduce(getattr, name.split("."), importlib.import_module(module_name))
    except Exception as error:  # a user's module may raise anything
        raise ConfigError(f"{shown(path)} cannot be imported: {told(error)}") from error
    return found


def import_class(path: str) -> type:
    """Returns the class that `path` names; raises ConfigError."""
    found = import_object(path)
    if not isinstance(found, type):
        raise ConfigError(f"{shown(path)} is not a class; allowed: 'package.module:Class'")
    return found


def told(error: Exception) -> str:
    """Returns the type and the message of `error`."""
    return f"{type(error).__name__}: {reason(error)}"
