"""Packages of other frameworks: extras of this one, imported when something of them is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from node.system.distribution import NAME
from node.system.errors import ConfigError


def extra(package: str, name: str) -> Any:
    """Returns a module; ConfigError if its package is missing, which the extra `name` installs."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ConfigError(
            f"{package} is needed and cannot be imported ({error}): pip install '{NAME}[{name}]'"
        ) from error
