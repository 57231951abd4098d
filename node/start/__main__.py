"""`murmuration start FOLDER`: learns with the swarm of a folder, or goes on waiting for its list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node.cli.command import Command
from node.cli.commands import usage
from node.cli.options import DEBUG, argument, reachable_path, switch
from node.cli.options import command_line as parser_of
from node.cli.parser import NodeParser
from node.cli.sigint import begun
from node.system.errors import ConfigError, one_line, shown

_CALL = ("FOLDER [--yes] [any other option of murmuration node]",)
_HELP = """\
Goes on with a swarm that you invited to or joined: learns with its members once the list is closed, and
before that waits as the window did that you closed. After a reboot, too: this is the line for a service.
FOLDER is the folder that invite or join named, such as runs/ward. --yes answers each question by yes.

examples:
  murmuration start runs/ward
  murmuration start runs/ward --log-level info

exit status: 0 the run is over, 1 failed at run time, 2 bad arguments or folder, 130 interrupted"""


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What completion knows of this command; `_read` also takes a node's options."""

    folder: Path = argument("the folder that invite or join named", reachable_path, metavar="FOLDER")
    yes: bool = switch("answer each question by yes. Default: ask at the terminal")
    debug: bool = switch(DEBUG)


@dataclass(frozen=True)
class Asked:
    """A folder, whether each answer is yes, and the node's options as they were typed."""

    folder: Path
    yes: bool
    more: tuple[str, ...]


def _read(argv: Sequence[str]) -> Asked:
    if not argv or argv[0] in {"-h", "--help"}:
        print(f"{usage('node.start', *_CALL)}\n\n{_HELP}")
        raise SystemExit(0 if argv else 2)
    if argv[0].startswith("-"):
        raise ConfigError(f"{shown(argv[0])} is refused: the folder comes first; --help shows more")
    return Asked(reachable_path(argv[0], "FOLDER"), "--yes" in argv, tuple(argv[1:]))


def _run(asked: Asked) -> int:
    from node.start.run import start  # noqa: PLC0415 - loads aiohttp: only once the arguments are read

    begun()
    return start(asked.folder, asked.more, yes=asked.yes)


def command_line() -> NodeParser:
    """Returns the parser of what completion offers."""
    return parser_of("node.start", StartOptions, "")


main = Command(command_line, _read, _run, lambda asked: f"the swarm in {one_line(str(asked.folder))}")
main.start(__name__)
