"""The parser of all commands: its errors are ConfigErrors, and it lists the declared options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from node.system.errors import ConfigError


class Options(Protocol):
    """A parser, or one of its groups."""

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Declares an option or an argument, as in argparse."""


@dataclass(frozen=True)
class _Group:
    add: Callable[..., argparse.Action]
    declared: list[argparse.Action]

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        action = self.add(*names, **how)
        self.declared.append(action)
        return action


class NodeParser(argparse.ArgumentParser):
    """An argument parser that raises one-line ConfigErrors.

    `declared`: all options and arguments in the order of their declaration, which argparse does not publish.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        self.declared: list[argparse.Action] = []
        super().__init__(*args, **how)

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Declares an option or an argument, as in argparse."""
        action = super().add_argument(*names, **how)
        self.declared.append(action)
        return action

    def group(self, title: str) -> Options:
        """Adds a group of options that --help lists under `title`."""
        return _Group(self.add_argument_group(title).add_argument, self.declared)

    def add_subparsers(self, **how: Any) -> Any:
        """Adds subcommands, as in argparse; they are the `choices` of the declared action."""
        action = super().add_subparsers(**how)
        self.declared.append(action)
        return action

    def _print_message(self, message: str, file: Any = None) -> None:
        """Writes help or usage. argparse would hide the error if the reader of a long text has ended."""
        (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Raises ConfigError in one line that points to --help."""
        raise ConfigError(f"{message}; {self.prog} --help shows what is allowed")
