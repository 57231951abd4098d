"""`python -m node.key FILE`: prints a node's public key; makes a private key if there is none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from node.cli.commands import program
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import begun, leave
from node.errors import ConfigError, reason
from node.options import a_path
from node.storage.key_file import new_seed, read_key, write_key
from protocol.crypto.node_key import NodeKey

_DESCRIPTION = """\
Prints the public key of the private key in FILE, for the --allow lists and --peers pins of the others.
If the file does not exist, it first gets a new key, readable by its owner only."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    return guarded(lambda: _main(argv), False, print_error)


def _main(argv: Sequence[str]) -> int:
    path = a_path(command_line().parse_args(argv).file, "FILE")
    print((read_key(path) or _new_key(path)).public.hex())
    return 0


def command_line() -> NodeParser:
    """Returns the parser."""
    parser = NodeParser(prog=program("node.key"), description=_DESCRIPTION)
    parser.add_argument("file", metavar="FILE", help="such as runs/a/node.key, for a node with --out runs/a")
    return parser


def _new_key(path: Path) -> NodeKey:
    seed = new_seed()
    begun()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {path.parent} cannot be made: {reason(error)}") from error
    write_key(path, seed)
    return NodeKey(seed)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
