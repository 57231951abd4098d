"""`murmuration`: one program for all commands. It finds the named command and runs it."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from node.cli.commands import COMMANDS, Entry
from node.cli.error_handling import guarded, print_error
from node.cli.sigint import SCRIPT, leave
from node.system.errors import ConfigError, shown

DESK = "desk"
_HELP = f"""\
usage: {SCRIPT} COMMAND [ARGUMENT ...]
       {SCRIPT}              on a terminal: a page for this folder, from data to a model
       {SCRIPT} --version

Peers train one model together, without a server; nobody sees another's update.

commands:
{{commands}}

`{SCRIPT} COMMAND --help` shows more. The same commands are `python -m node`,
`python -m node.init` and so on; bench is `python -m benchmarks`."""


def run() -> NoReturn:
    """Runs the installed script."""
    if not sys.flags.safe_path:  # as `python -m` does: a task may name a class of the user's own
        with suppress(OSError):  # the folder is gone
            sys.path[0] = os.getcwd()  # noqa: PTH109 - sys.path holds text
    leave(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Runs the named command, on a terminal the desk if none is named; returns its exit status.

    Elsewhere nobody would open the page: then it prints the help, with status 2.
    """
    if not argv and sys.stdin.isatty() and sys.stdout.isatty():
        argv = [DESK]
    command = next((command for command in COMMANDS if command.name == argv[0]), None) if argv else None
    if command is None or not command.is_here():
        return guarded(lambda: _without_command(argv, command), False, print_error)
    return int(command.load().main(argv[1:]))


def _without_command(argv: Sequence[str], absent: Entry | None) -> int:
    """Prints help or version; raises ConfigError for a command that does not exist or is not installed."""
    if absent is not None:
        raise ConfigError(
            f"{absent.name} is not part of the installed package: it is in the repository; run it there, "
            f"in the folder of a clone, as {SCRIPT} {absent.name} or python -m {absent.package}"
        )
    match argv:
        case [] | ["-h" | "--help", *_]:
            print(help_text())
            return 0 if argv else 2
        case ["--version", *_]:
            from node.system.distribution import installed_version  # noqa: PLC0415 - only --version needs it

            print(f"{SCRIPT} {installed_version() or '(not installed: run from a folder)'}")
            return 0
    names = [command.name for command in COMMANDS]
    near = difflib.get_close_matches(argv[0], names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ConfigError(f"{shown(argv[0])} is no command of {SCRIPT}{hint}; allowed: {', '.join(names)}")


def help_text() -> str:
    """Returns the help text, with one line per command."""
    width = max(len(command.name) for command in COMMANDS)
    lines = (f"  {command.name:{width}}  {command.summary}" for command in COMMANDS)
    return _HELP.format(commands="\n".join(lines))
