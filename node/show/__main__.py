"""`python -m node.show DIR [DIR ...]`: opens the page of runs from their folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from node.addresses import is_loopback, parse_endpoint
from node.cli.commands import program
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import begun, leave
from node.errors import ConfigError, one_line, shown
from node.options import reachable_path

_DESCRIPTION = """\
Serves the page of a run from its folder: of one that is over, or of one that still runs. Several folders are
compared side by side, and each keeps its own page. Nothing in the folders is changed."""
_EPILOG = """\
examples:
  python -m node.show runs/digits-1f2e3d4c
  python -m node.show runs/monday runs/tuesday       compares two runs
  python -m node.show runs                           compares all runs in a folder

The page stays until Ctrl-C. It is for this machine alone: whoever has an account here can see it.
exit status: 0 shown until it was told to end, 1 failed at run time, 2 bad arguments or folder"""


def main(argv: Sequence[str]) -> int:
    """Serves until interrupted; returns the exit status."""
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def command_line() -> NodeParser:
    """Returns the parser."""
    parser = NodeParser(
        prog=program("node.show"),
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("folders", nargs="+", metavar="DIR", help="the --out of a node, or a folder of such")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="the address of the page, on this machine alone; port 0 takes a free one. Default: 127.0.0.1:0",
    )
    parser.add_argument(
        "--browser", action="store_true", help="open the page in this user's browser. Default: no"
    )
    parser.add_argument("--debug", action="store_true", help="print tracebacks of errors. Default: no")
    return parser


def _main(argv: Sequence[str]) -> int:
    given = command_line().parse_args(argv)
    folders = [reachable_path(name, "DIR") for name in given.folders]
    endpoint = _local(given.listen)
    print(f"starting: a page for {one_line(', '.join(map(str, folders)))}", flush=True)
    from node.show.serve import serve  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked

    begun()
    serve(folders, endpoint, open_browser=given.browser)
    return 0


def _local(written: str) -> str:
    endpoint = parse_endpoint(written, "--listen", any_port=True)
    if not is_loopback(endpoint):
        raise ConfigError(
            f"--listen {shown(written)} is refused: the page is for this machine alone; allowed: an address "
            "such as 127.0.0.1:8080; others reach it through a tunnel (ssh -L), or get a file from report"
        )
    return endpoint


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
