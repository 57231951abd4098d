"""The command line of a tracker: all options, checked before the tracker does anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.addresses import is_loopback, parse_endpoint
from node.cli.commands import program
from node.cli.layers import Place, add_config, layered
from node.cli.parser import NodeParser
from node.errors import ConfigError, shown
from node.logs import LogOptions, add_log_options, log_options
from node.net.tls import add_tls
from node.options import a_path, path_of, whole_number
from protocol.wire.limits import MAX_MEMBERS

_DESCRIPTION = """\
Introduces peers to each other. It sees which peers are present and which are ready, signed by each; it never
sees data, updates or shares. Peers use: python -m node --tracker KEY@https://HOST:PORT (http:// without TLS),
KEY being its public key; the tracker prints this option in full at its start."""
ENVIRONMENT = "MURMURATION_TRACKER"
KEY_FILE = Path("runs") / "tracker" / "tracker.key"
_FLOOR = 3


@dataclass(frozen=True)
class TrackerOptions:
    """The options of a tracker. `min_peers`: the size of the smallest group, whatever the task says."""

    listen: str
    min_peers: int
    key: Path
    allow: Path | None
    page_token: Path | None
    open: bool
    tls: str
    log: LogOptions
    debug: bool


def parse_arguments(argv: Sequence[str]) -> TrackerOptions:
    """Reads the options from `argv`, the environment and the --config file; raises ConfigError."""
    return read_options(argv, os.environ)


def read_options(argv: Sequence[str], environ: Mapping[str, str]) -> TrackerOptions:
    """Reads the options as `parse_arguments` does, with the environment `environ`."""
    asked = layered(command_line(), argv, environ, ENVIRONMENT)
    given, place = asked.values, asked.place
    if given.listen is None:
        raise ConfigError("--listen HOST:PORT is missing: say where peers reach this tracker")
    options = TrackerOptions(
        listen=parse_endpoint(given.listen, place("listen"), any_port=True),
        min_peers=whole_number(given.min_peers, place("min_peers"), _FLOOR, MAX_MEMBERS),
        key=a_path(given.key, place("key")),
        allow=path_of(given.allow, place("allow")),
        page_token=path_of(given.page_token, place("page_token")),
        open=given.open,
        tls=given.tls,
        log=log_options(asked),
        debug=given.debug,
    )
    _check_trust(options, place)
    return options


def command_line() -> NodeParser:
    """Returns the parser; `read_options` reads the values."""
    parser = NodeParser(prog=program("node.tracker"), description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where peers reach it; port 0 takes a free one")
    parser.add_argument(
        "--min-peers",
        default="3",
        metavar="N",
        help="the size of the smallest group (3 to 64; a task may require more). Default: 3",
    )
    parser.add_argument(
        "--key",
        default=str(KEY_FILE),
        metavar="FILE",
        help="this tracker's private key, made at the first start; keep it: nodes know the tracker by "
        f"this key. Default: {KEY_FILE}",
    )
    parser.add_argument(
        "--allow",
        metavar="FILE",
        help="introduce only the public keys in FILE, one per line. Default: no list",
    )
    parser.add_argument("--open", action="store_true", help="introduce anyone, off loopback too. Default: no")
    add_tls(parser)
    add_log_options(parser)
    add_config(parser, ENVIRONMENT)
    parser.add_argument(
        "--debug", action="store_true", help="log dropped messages, and tracebacks. Default: no"
    )
    parser.add_argument(
        "--page-token",
        metavar="FILE",
        help="the file of the token that the page requires off loopback, made at the first start. "
        "Default: a new token at each start, which only the terminal shows",
    )
    return parser


def _check_trust(options: TrackerOptions, place: Place) -> None:
    """Refuses an address beyond loopback unless the options say who may come."""
    if options.allow is not None and options.open:
        raise ConfigError(f"{place('allow')} and {place('open')} contradict each other: give one of them")
    if options.allow is None and not options.open and not is_loopback(options.listen):
        raise ConfigError(
            f"{place('listen')} {shown(options.listen)} is not on this machine alone, so say who may come: "
            "--allow FILE, or --open for anyone"
        )
