"""A command as one value, and the one way in which all run.

Its arguments are checked before anything is loaded that takes seconds; then it says what it begins. An error
is one line and an exit status, with a traceback only with --debug.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from node.cli.error_handling import Complain, guarded, print_error
from node.cli.options import chosen, command_line
from node.cli.parser import NodeParser
from node.cli.sigint import leave

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Asked = TypeVar("_Asked")
_Options = TypeVar("_Options", bound="DataclassInstance")


@dataclass(frozen=True)
class Command(Generic[_Asked]):
    """One command. Called with its arguments, it returns the exit status: 130 if it was interrupted."""

    command_line: Callable[[], NodeParser]
    """Returns the parser of all that it takes."""
    read: Callable[[Sequence[str]], _Asked]
    """Returns what the arguments ask for; raises ConfigError. --help prints and raises SystemExit."""
    run: Callable[[_Asked], int]
    """Does it, and returns the exit status; it imports what takes long to load."""
    starting: Callable[[_Asked], str | None] = lambda _: None
    """Returns what is printed before, after `starting: `; None for no line."""
    complain: Complain = print_error
    within: Callable[[_Asked, Callable[[], int]], int] = lambda _, run: run()
    """Runs it with a log of its own, where its errors go, too."""

    def __call__(self, argv: Sequence[str]) -> int:
        """Runs the command; an error becomes a line."""
        return guarded(lambda: self._read_and_run(argv), "--debug" in argv, self.complain)

    def _read_and_run(self, argv: Sequence[str]) -> int:
        try:
            asked = self.read(argv)
        except SystemExit as end:  # --help was printed
            return int(end.code or 0)
        return self.within(asked, lambda: self._run(asked))

    def _run(self, asked: _Asked) -> int:
        if (said := self.starting(asked)) is not None:
            print(f"starting: {said}", flush=True)
        return self.run(asked)

    def start(self, module: str) -> None:
        """Runs the command and ends the process, if Python was started with this `module`."""
        if module == "__main__":
            leave(self(sys.argv[1:]))


def command(
    package: str,
    options: type[_Options],
    description: str,
    epilog: str = "",
    *,
    run: Callable[[_Options], int],
    starting: Callable[[_Options], str | None] = lambda _: None,
) -> Command[_Options]:
    """Returns the command that takes `options`, a dataclass of them, on the command line alone."""
    parser = partial(command_line, package, options, description, epilog)
    return Command(parser, lambda argv: chosen(options, argv, parser()), run, starting)
