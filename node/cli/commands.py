"""The commands: `murmuration NAME` and `python -m MODULE` start the same code.

What `murmuration --help` shows, what it starts and what a shell completes are made from this table. A new
command is a module with `main(argv)`, which gives the exit status, and `command_line()`, which gives its
parser; and its row here. Nothing of a command is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

from node.cli.sigint import SCRIPT, is_script
from node.errors import ConfigError


@dataclass(frozen=True)
class Command:
    """summary: one line. module: what has its `main` and its `command_line`."""

    name: str
    module: str
    summary: str

    @property
    def package(self) -> str:
        """What `python -m` is given for it."""
        return self.module.removesuffix(".__main__")

    def is_here(self) -> bool:
        """Whether its code is: the benchmarks are in the repository alone."""
        try:
            return find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False

    def load(self) -> ModuleType:
        """Its module."""
        return importlib.import_module(self.module)


COMMANDS = (
    Command("node", "node.__main__", "a peer: train on your own data, and learn with others"),
    Command("tracker", "node.tracker.__main__", "introduce peers to each other"),
    Command("init", "node.init.__main__", "look at your data, and write a task for them"),
    Command("check", "node.check.__main__", "say before a run what would fail"),
    Command("agree", "node.agree.__main__", "agree with peers on scales and lists, before you learn"),
    Command("predict", "node.predict.__main__", "say of new rows what the common model says"),
    Command("key", "node.key", "make a node's key, and print its public half"),
    Command("rejoin", "node.rejoin.__main__", "see who decides on the next model; say who is gone for good"),
    Command("scenarios", "scenarios.__main__", "run whole swarms on this machine; get data for them"),
    Command("bench", "benchmarks.__main__", "measure what it all costs; in the repository alone"),
    Command("completion", "node.cli.completion", "print a script that completes all this in a shell"),
)


def usage(package: str, *lines: str) -> str:
    """The first lines of a help text that is no parser's: how the command is called."""
    begin = f"usage: {program(package)} "
    return begin + f"\n{' ' * len(begin)}".join(lines)


def program(package: str) -> str:
    """How this process was asked for a command, for usage lines: by its name, or by `python -m`."""
    name = next(command.name for command in COMMANDS if command.package == package)
    return f"{SCRIPT} {name}" if is_script(sys.argv) else f"python -m {package}"


def task_comes_first(argv: Sequence[str], help_text: str) -> bool:
    """Returns whether the first word is a task; prints the `help_text` and returns False without one.

    Raises ConfigError for an option in its place.
    """
    if not argv or argv[0] in {"-h", "--help"}:
        print(help_text)
        return False
    if argv[0].startswith("-"):
        raise ConfigError(f"{argv[0]} is refused: the task comes first; --help tells more")
    return True
