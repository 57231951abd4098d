"""`python -m node.doctor FOLDER | --peers ... | --tracker ...`: examines the way to each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node.cli.command import Command
from node.cli.options import DEBUG, argument, chosen, option, reachable_path, switch, whole
from node.cli.options import command_line as parser_of
from node.cli.parser import NodeParser
from node.cli.sigint import begun
from node.net.tls import tls_option
from node.options import peers_of, tracker_of
from node.system.addresses import PeerAddress
from node.system.errors import ConfigError, counted, one_line

_DESCRIPTION = """\
Examines the way from this machine to each peer, or to a tracker: does the name resolve, does the port accept
connections, who speaks TLS there and under which key, is there a proxy in between, what does the clock show,
how long does an answer take, how fast do answers come, and how fast does what this machine sends arrive.
Prints a table, and for each peer a line that says what to do. It learns nothing, shows no key of its own, and
may run beside a node.

FOLDER is that of a swarm by invitation. Then it examines the way to each relay: proxy, name, port, TLS,
websocket, key, admission; and through it to each member. For this it shows the relay the folder's key, so
while a node runs there, it asks neither for admission nor for the members."""
_EPILOG = """\
examples:
  python -m node.doctor --peers 10.0.0.5:9001,10.0.0.6:9001,10.0.0.7:9001
  python -m node.doctor --tracker KEY@https://10.0.0.5:9000
  murmuration doctor runs/ward

exit status: 0 no problem, 1 a problem, 2 bad arguments"""


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Whom to examine: `folder`, `peers` or `tracker` is given; and how."""

    folder: Path | None = argument(
        "the folder of a swarm by invitation, such as runs/ward",
        reachable_path,
        nargs="?",
        metavar="FOLDER",
    )
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
    if sum((options.folder is not None, options.tracker is not None, bool(options.peers))) != 1:
        raise ConfigError("give exactly one of FOLDER, --peers HOST:PORT,... and --tracker KEY@URL")
    return options


def _starting(options: DoctorOptions) -> str | None:
    told = f"an examination of the way to {counted(len(options.examined), 'peer')}"
    if options.folder is not None:
        told = f"an examination of the way to the swarm of {one_line(str(options.folder))}"
    return None if options.json else told


def _run(options: DoctorOptions) -> int:
    from node.doctor.examine import examine_all  # noqa: PLC0415 - loads aiohttp: only once the arguments are checked
    from node.doctor.table import advice, as_json, table  # noqa: PLC0415

    begun()
    if options.folder is not None:
        from node.doctor.by_relay import examine_folder  # noqa: PLC0415

        ways = asyncio.run(examine_folder(options.folder, options.parameters))
    else:
        place = "--peers" if options.tracker is None else "the KEY of --tracker"
        ways = [asyncio.run(examine_all(options.examined, options.tls, place, options.parameters))]
    found = [each for way in ways for each in way]
    tables = [line for way in ways if way for line in (*table(way), "")]
    print("\n".join(as_json(found) if options.json else [*tables, *map(str, advice(found))]))
    return 1 if any(each.level == "problem" for each in found) else 0


def command_line() -> NodeParser:
    """Returns the parser."""
    return parser_of("node.doctor", DoctorOptions, _DESCRIPTION, _EPILOG)


main = Command(command_line, _read, _run, _starting)
main.start(__name__)
