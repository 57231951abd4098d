"""`python -m node.doctor --peers ... | --tracker ...`: examines the way from this machine to each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from node.cli.command import Command
from node.cli.options import DEBUG, chosen, option, switch, whole
from node.cli.options import command_line as parser_of
from node.cli.parser import NodeParser
from node.cli.sigint import begun
from node.net.tls import tls_option
from node.options import peers_of, tracker_of
from node.system.addresses import PeerAddress
from node.system.errors import ConfigError, counted

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


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Whom to examine: either `peers` or `tracker` is given; and how."""

    peers: tuple[PeerAddress, ...] = option(
        "the peers, as a node's --peers names them; KEY@HOST:PORT says which key must answer",
        peers_of,
        absent=(),
        metavar="HOST:PORT[,HOST:PORT...]",
    )
    tracker: PeerAddress | None = option(
        "a tracker, as it prints itself: KEY@https://10.0.0.5:9000; KEY@ may be left out",
        tracker_of,
        metavar="KEY@URL",
    )
    parameters: int = option(
        "the parameters of the model, to tell whether a part of a sum comes in time. Default: %(default)s",
        whole(1, 10**12),
        default="1000000",
        metavar="N",
    )
    tls: str = tls_option()
    json: bool = switch("print one JSON object per peer. Default: no")
    debug: bool = switch(DEBUG)

    @property
    def examined(self) -> Sequence[PeerAddress]:
        """All that are examined."""
        return self.peers if self.tracker is None else [self.tracker]


def _read(argv: Sequence[str]) -> DoctorOptions:
    options = chosen(DoctorOptions, argv, command_line())
    if (options.tracker is None) == (not options.peers):
        raise ConfigError("give exactly one of --peers HOST:PORT,... and --tracker KEY@URL")
    return options


def _starting(options: DoctorOptions) -> str | None:
    told = f"an examination of the way to {counted(len(options.examined), 'peer')}"
    return None if options.json else told


def _run(options: DoctorOptions) -> int:
    from node.doctor.examine import examine_all  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked
    from node.doctor.table import advice, as_json, table  # noqa: PLC0415

    begun()
    place = "--peers" if options.tracker is None else "the KEY of --tracker"
    found = asyncio.run(examine_all(options.examined, options.tls, place, options.parameters))
    print("\n".join(as_json(found) if options.json else [*table(found), "", *map(str, advice(found))]))
    return 1 if any(each.level == "problem" for each in found) else 0


def command_line() -> NodeParser:
    """Returns the parser."""
    return parser_of("node.doctor", DoctorOptions, _DESCRIPTION, _EPILOG)


main = Command(command_line, _read, _run, _starting)
main.start(__name__)
