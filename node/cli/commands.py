"""The commands: `murmuration NAME` and `python -m MODULE` start the same code.

This table is the source of the list in `murmuration --help`, of the commands that it starts, and of shell
completion. A new command needs a row here and a module whose `main` is a `node.cli.command.Command`. A
command's module is imported only when it is used.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

from node.cli.sigint import SCRIPT, is_script
from node.system.errors import ConfigError


@dataclass(frozen=True)
class Entry:
    """`module`: that of the command, its `main`; `summary`: one line for --help."""

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
    Entry("node", "node.__main__", "a peer: train on your own data, and learn with others"),
    Entry("tracker", "node.tracker.__main__", "introduce peers to each other"),
    Entry("init", "node.init.__main__", "look at your data, and write a task for them"),
    Entry("check", "node.check.__main__", "report before a run what would fail"),
    Entry("agree", "node.agree.__main__", "agree with peers on scales and lists, before you learn"),
    Entry("stats", "node.stats.__main__", "statistics of all members, as if their rows were in one table"),
    Entry("predict", "node.predict.__main__", "predict new rows with the common model"),
    Entry("show", "node.show.__main__", "the page of a run from its folder; compare several runs"),
    Entry("report", "node.report.__main__", "write a run as one HTML file, or as a table"),
    Entry("key", "node.key.__main__", "make a node's key, and print its public half"),
    Entry("doctor", "node.doctor.__main__", "examine the way to each peer, to a tracker or to a relay"),
    Entry("invite", "node.invite.__main__", "invite others to learn with you, each by a code"),
    Entry("join", "node.join.__main__", "join others by a code"),
    Entry("start", "node.start.__main__", "learn with those who were invited; go on after a restart"),
    Entry("members", "node.members.__main__", "show the members of a swarm by invitation; remove one"),
    Entry("rejoin", "node.rejoin.__main__", "see who decides on the next model; declare who is gone"),
    Entry("desk", "node.desk.__main__", "a page for this folder, from data to a model"),
    Entry("scenarios", "scenarios.__main__", "run whole swarms on this machine; get data for them"),
    Entry("bench", "benchmarks.__main__", "measure time, memory and traffic; in the repository only"),
    Entry("completion", "node.cli.completion", "print a script for completion in a shell"),
)


def usage(package: str, *lines: str) -> str:
    """Returns the usage lines of a help text that no parser writes."""
    begin = f"usage: {program(package)} "
    return begin + f"\n{' ' * len(begin)}".join(lines)


def program(package: str) -> str:
    """Returns the command as this process was started, for usage lines: by name, or with `python -m`."""
    name = next(command.name for command in COMMANDS if command.package == package)
    return f"{SCRIPT} {name}" if is_script(sys.argv) else f"python -m {package}"


def task_first(argv: Sequence[str], help_text: str) -> str:
    """Returns the first word, a task. Raises ConfigError for an option in its place.

    Without a word, or for --help, it prints the `help_text` and raises SystemExit.
    """
    if not argv or argv[0] in {"-h", "--help"}:
        print(help_text)
        raise SystemExit(0 if argv else 2)
    if argv[0].startswith("-"):
        raise ConfigError(f"{argv[0]} is refused: the task comes first; --help shows more")
    return argv[0]
