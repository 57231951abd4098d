"""`python -m node.rejoin --out DIR`: shows who decides on the next model; stores who is gone for good."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from node.cli.commands import program
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import begun, leave
from node.errors import one_line
from node.options import reachable_path

_DESCRIPTION = """\
For the owner of a stopped node whose swarm waits for somebody. Without --gone: shows who decides on the next
model (its electors), how many of them make a quorum, and who was declared gone. Nothing is changed.

With --gone: declares these electors gone for good. A group of nodes whose owners have all declared so goes on
without them. THIS GIVES UP SAFETY: if one of them is not gone, two models may grow side by side, and one of
the two is lost. It holds until a quorum makes the next model, or --gone none withdraws it."""
_EPILOG = """\
examples, at each node that is to go on, while it is stopped:
  python -m node.rejoin --out runs/mine
  python -m node.rejoin --out runs/mine --gone a1b2c3d4 --gone 10.0.0.7:9001 --yes
  python -m node.rejoin --out runs/mine --gone none

exit status: 0 shown or stored, 1 the node runs, 2 bad arguments or folder, or not confirmed"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status.

    0: shown or stored; 1: the node is running; 2: bad arguments or folder, or not confirmed.
    """
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    given = command_line().parse_args(argv)
    out = reachable_path(given.out, "--out")
    print(f"starting: a look into {one_line(str(out))}", flush=True)
    from node.rejoin.run import rejoin  # noqa: PLC0415 - loads scipy: only once the arguments are checked

    begun()
    rejoin(out, tuple(given.gone), _confirmed if given.yes else _asked)
    return 0


def command_line() -> NodeParser:
    """Returns the parser."""
    parser = NodeParser(
        prog=program("node.rejoin"),
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of a node that is stopped")
    parser.add_argument(
        "--gone",
        metavar="NAME",
        action="append",
        default=[],
        help="an elector that is gone for good: at least 8 digits that its key begins with, or its "
        "HOST:PORT; repeatable; replaces earlier names; none withdraws all",
    )
    parser.add_argument("--yes", action="store_true", help="store it without asking. Default: ask")
    parser.add_argument("--debug", action="store_true", help="print tracebacks of errors. Default: no")
    return parser


def _confirmed() -> bool:
    return True


def _asked() -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        return input("Store this? Type yes: ").strip() == "yes"
    except EOFError:
        return False


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
