"""`python -m node.doctor --peers ... | --tracker ...`: examines the way from this machine to each of them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from node.addresses import PeerAddress
from node.cli.commands import program
from node.cli.error_handling import guarded, print_error
from node.cli.parser import NodeParser
from node.cli.sigint import begun, leave
from node.data.report import counted
from node.errors import ConfigError
from node.net.tls import add_tls
from node.options import peers_of, tracker_of

_PARAMETERS = 1_000_000
_DESCRIPTION = """\
Examines the way from this machine to each peer, or to a tracker: does the name resolve, does the port accept
connections, who speaks TLS there and under which key, is there a proxy in between, what does the clock show,
how long does an answer take, how fast do answers come, and how fast does what this machine sends arrive.
Prints a table, and for each peer a line that says what to do. It learns nothing, shows no key of its own, and
may run beside a node."""
_EPILOG = """\
examples:
  python -m node.doctor --peers 10.0.0.5:9001,10.0.0.6:9001,10.0.0.7:9001
  python -m node.doctor --tracker KEY@https://10.0.0.5:9000

exit status: 0 no problem, 1 a problem, 2 bad arguments"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status.

    0: no problem; 1: a problem; 2: bad arguments; 130: interrupted.
    """
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    given = command_line().parse_args(argv)
    peers, option = _named(given)
    if given.parameters < 1:
        raise ConfigError(f"--parameters {given.parameters}: allowed are 1 and more; node.check prints them")
    if not given.json:
        print(f"starting: an examination of the way to {counted(len(peers), 'peer')}", flush=True)
    from node.doctor.examine import examine_all  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked
    from node.doctor.table import advice, as_json, table  # noqa: PLC0415

    begun()
    found = asyncio.run(examine_all(peers, given.tls, option, given.parameters))
    print("\n".join(as_json(found) if given.json else [*table(found), "", *map(str, advice(found))]))
    return 1 if any(each.level == "problem" for each in found) else 0


def command_line() -> NodeParser:
    """Returns the parser."""
    parser = NodeParser(
        prog=program("node.doctor"),
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--peers",
        metavar="HOST:PORT[,HOST:PORT...]",
        help="the peers, as a node's --peers names them; KEY@HOST:PORT says which key must answer",
    )
    parser.add_argument(
        "--tracker",
        metavar="KEY@URL",
        help="a tracker, as it prints itself: KEY@https://10.0.0.5:9000; KEY@ may be left out",
    )
    parser.add_argument(
        "--parameters",
        type=int,
        default=_PARAMETERS,
        metavar="N",
        help="the parameters of the model, to tell whether a part of a sum comes in time. "
        f"Default: {_PARAMETERS}",
    )
    add_tls(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per peer. Default: no")
    parser.add_argument("--debug", action="store_true", help="print tracebacks of errors. Default: no")
    return parser


def _named(given: argparse.Namespace) -> tuple[Sequence[PeerAddress], str]:
    """Returns whom to examine, and the words for the place of their keys. Raises ConfigError."""
    tracker = tracker_of(given.tracker, "--tracker")
    if (tracker is None) == (given.peers is None):
        raise ConfigError("give exactly one of --peers HOST:PORT,... and --tracker KEY@URL")
    if tracker is not None:
        return [tracker], "the KEY of --tracker"
    return peers_of(given.peers, "--peers"), "--peers"


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
