"""The base of cells whose settings the command line does not change: they have one figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from node.system.errors import ConfigError
from scenarios.study.cells import BaseCell


class FixedCell(BaseCell):
    """A cell with one figure. The product, or the cell itself, has all other settings."""

    @property
    def rounds(self) -> int:
        """1."""
        return 1

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Empty: what the cell reads is no encoded data set."""
        return ()

    def lasting(self, rounds: int) -> Self:
        """Raise ConfigError."""
        raise ConfigError(f"--rounds {rounds}: a model learns as long as its task says; leave it out")

    def among(self, peers: int) -> Self:
        """Raise ConfigError."""
        raise ConfigError(f"--peers {peers}: there are three sites; leave it out")

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Self:
        """Raise ConfigError."""
        section = next(iter(table))
        key = f"{section}.{next(iter(table[section]), '')}"
        raise ConfigError(f"--set {key}: node.init proposes all settings; allowed: scenario.*")
