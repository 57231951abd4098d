"""What is installed: the distribution's name on a package index, and its version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

NAME = "murmuration-node"
"""As `[project] name` in pyproject.toml has it; `murmuration` alone is another project there."""


def installed_version() -> str | None:
    """Such as "0.1.0"; None where the packages are run from a folder and nothing is installed."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return None
