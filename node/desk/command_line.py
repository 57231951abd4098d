"""Command lines: as a person types them, and as the command itself reads them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.cli.commands import COMMANDS
from node.cli.sigint import SCRIPT
from node.system.errors import ConfigError, shown

Words = Sequence[tuple[str, str]]
"""Options with their values; a value without an option has the option ""."""


@dataclass(frozen=True)
class CommandLine:
    """A command line. `folder`: that of its run, if it is known; `room`: that of the code in it, if any."""

    name: str
    words: Words
    switches: Sequence[str] = ()
    folder: str = ""
    room: str = ""

    @property
    def argv(self) -> list[str]:
        """The arguments. No value can be taken for an option: each stands in one word with its own."""
        return [*(f"{option}={value}" if option else value for option, value in self.words), *self.switches]

    @property
    def command(self) -> str:
        """The line for a shell."""
        words = [SCRIPT, self.name]
        for option, value in self.words:
            if option and value.startswith("-"):
                words.append(f"{option}={value}")
            else:
                words += [option, value] if option else [value]
        return shlex.join([*words, *self.switches])

    @property
    def package(self) -> str:
        """The name of the command that `python -m` takes."""
        return next(entry.package for entry in COMMANDS if entry.name == self.name)

    def read(self) -> Any:
        """Returns what the command reads in the line. Raises ConfigError."""
        return next(entry for entry in COMMANDS if entry.name == self.name).load().main.read(self.argv)


def path_word(path: Path) -> tuple[str, str]:
    """Returns a path as an argument of its own, which is no option."""
    return "", f"./{path}" if str(path).startswith("-") else str(path)


def plain_word(written: str, what: str) -> tuple[str, str]:
    """Returns a text as an argument of its own. Raises ConfigError for one that reads like an option."""
    if not written or written.startswith("-"):
        raise ConfigError(f"{what} {shown(written)} is refused; allowed: one that does not begin with -")
    return "", written
