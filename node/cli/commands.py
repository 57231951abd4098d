"""The commands: `murmuration NAME` and `python -m MODULE` start the same code.

This table is the source of the list in `murmuration --help`, of the commands that it starts, and of shell
completion. A new command needs a row here and a module with `main(argv)`, which returns the exit status, and
`command_line()`, which returns the parser. A command's module is imported only when it is used.
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
    """`module`: the module with `main` and `command_line`; `summary`: one line for --help."""

    name: str
    module: str
    summary: str

    @property
    def package(self) -> str:
        """The name that `python -m` takes."""
        return self.module.removesuffix(".__main__")

    def is_here(self) -> bool:
        """Returns whether the command's code is here; only the repository has the benchmarks."""
        try:
            return find_spec(self.module) is not None
        except ModuleNotFoundError:
            return False

    def load(self) -> ModuleType:
        """Imports and returns the module."""
        return importlib.import_module(self.module)


COMMANDS = (
    Command("node", "node.__main__", "a peer: train on your own data, and learn with others"),
    Command("tracker", "node.tracker.__main__", "introduce peers to each other"),
    Command("init", "node.init.__main__", "look at your data, and write a task for them"),
    Command("check", "node.check.__main__", "report before a run what would fail"),
    Command("agree", "node.agree.__main__", "agree with peers on scales and lists, before you learn"),
    Command("predict", "node.predict.__main__", "predict new rows with the common model"),
    Command("show", "node.show.__main__", "the page of a run from its folder; compare several runs"),
    Command("report", "node.report.__main__", "write a run as one HTML file, or as a table"),
    Command("key", "node.key", "make a node's key, and print its public half"),
    Command("doctor", "node.doctor.__main__", "examine the way to each peer or to a tracker"),
    Command("rejoin", "node.rejoin.__main__", "see who decides on the next model; declare who is gone"),
    Command("scenarios", "scenarios.__main__", "run whole swarms on this machine; get data for them"),
    Command("bench", "benchmarks.__main__", "measure time, memory and traffic; in the repository only"),
    Command("completion", "node.cli.completion", "print a script for completion in a shell"),
)


def usage(package: str, *lines: str) -> str:
    """Returns the usage lines of a help text that no parser writes."""
    begin = f"usage: {program(package)} "
    return begin + f"\n{' ' * len(begin)}".join(lines)


def program(package: str) -> str:
    """Returns the command as this process was started, for usage lines: by name, or with `python -m`."""
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
        raise ConfigError(f"{argv[0]} is refused: the task comes first; --help shows more")
    return True
