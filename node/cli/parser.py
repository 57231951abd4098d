"""The parser of all commands: its errors are ConfigErrors, and it knows what was declared."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from node.errors import ConfigError


class Options(Protocol):
    """A parser, or one of its groups."""

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Declare an option or an argument, as argparse has it."""


@dataclass(frozen=True)
class _Group:
    add: Callable[..., argparse.Action]
    declared: list[argparse.Action]

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        action = self.add(*names, **how)
        self.declared.append(action)
        return action


class NodeParser(argparse.ArgumentParser):
    """An argument parser whose complaints are ConfigErrors, so that they are one line.

    `declared`: all options and arguments in the order of their declaration, which argparse does not publish.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        self.declared: list[argparse.Action] = []
        super().__init__(*args, **how)

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Declare an option or an argument, as argparse has it."""
        action = super().add_argument(*names, **how)
        self.declared.append(action)
        return action

    def group(self, title: str) -> Options:
        """Options that --help lists under `title`."""
        return _Group(self.add_argument_group(title).add_argument, self.declared)

    def add_subparsers(self, **how: Any) -> Any:
        """As argparse has it; the commands are the `choices` of what is declared."""
        action = super().add_subparsers(**how)
        self.declared.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        """One line, with where to read on."""
        raise ConfigError(f"{message}; {self.prog} --help tells what is allowed")
