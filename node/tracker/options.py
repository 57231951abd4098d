"""The command line of a tracker: all options, checked before the tracker does anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from node.cli.layers import config_option, layered
from node.cli.logs import LogOptions
from node.cli.options import Place, a_path, option, part, switch, whole
from node.cli.options import command_line as parser_of
from node.cli.parser import NodeParser
from node.net.tls import AUTO, ON, tls_option
from node.system.addresses import announced_endpoint, any_endpoint, is_loopback, wide_endpoint
from node.system.errors import ConfigError, shown
from protocol.wire.limits import MAX_MEMBERS

_DESCRIPTION = """\
Introduces peers to each other. It sees which peers are present and which are ready, signed by
each; it never sees data, updates or shares. Peers use: python -m node --tracker
KEY@https://HOST:PORT (http:// without TLS), KEY being its public key; the tracker prints this
option in full at its start."""
ENVIRONMENT = "MURMURATION_TRACKER"
KEY_FILE = Path("runs") / "tracker" / "tracker.key"
_FLOOR = 3


@dataclass(frozen=True, kw_only=True)
class TrackerOptions:
    """The options of a tracker. `min_peers`: the size of the smallest group, whatever the task says."""

    listen: str = option(
        "where peers reach it; port 0 takes a free one; 0.0.0.0 with --announce",
        wide_endpoint,
        metavar="HOST:PORT",
    )
    announce: str | None = option(
        "the name or address by which others reach it, if that is not --listen's. Default: as --listen says",
        announced_endpoint,
        metavar="HOST[:PORT]",
    )
    min_peers: int = option(
        f"the size of the smallest group ({_FLOOR} to {MAX_MEMBERS}; a task may require more). Default: "
        "%(default)s",
        whole(_FLOOR, MAX_MEMBERS),
        default=str(_FLOOR),
        metavar="N",
    )
    key: Path = option(
        "this tracker's private key, made at the first start; keep it: nodes know the tracker by this key. "
        "Default: %(default)s",
        a_path,
        default=str(KEY_FILE),
        metavar="FILE",
    )
    allow: Path | None = option(
        "introduce only the public keys in FILE, one per line. Default: no list", a_path, metavar="FILE"
    )
    open: bool = switch("introduce anyone, off loopback too. Default: no")
    relay: bool = switch(
        "carry for swarms whose inviter knows this relay's word, and introduce nobody beyond this machine "
        "unless --allow or --open says so. Default: no"
    )
    relay_rate: int = option(
        "MB a second that it carries for one member in the long run. Default: %(default)s",
        whole(1, 10_000),
        default="25",
        metavar="MB",
    )
    relay_day: int = option(
        "GB a day that it carries for one swarm. Default: %(default)s",
        whole(1, 1_000_000),
        default="200",
        metavar="GB",
    )
    tls: str = tls_option("; with --relay on")
    log: LogOptions = part(LogOptions)
    config: str | None = config_option(ENVIRONMENT)
    debug: bool = switch("log dropped messages, and tracebacks. Default: no")
    page_token: Path | None = option(
        "the file of the token that the page requires off loopback, made at the first start. Default: a "
        "new token at each start, which only the terminal shows",
        a_path,
        metavar="FILE",
    )

    @property
    def is_for_nobody(self) -> bool:
        """Whether it introduces nobody: others can reach it, and nothing says who may come."""
        is_local = is_loopback(self.listen) and (self.announce is None or is_loopback(self.announce))
        return self.allow is None and not self.open and not is_local


def parse_arguments(argv: Sequence[str]) -> TrackerOptions:
    """Reads the options from `argv`, the environment and the --config file; raises ConfigError."""
    return read_options(argv, os.environ)


def read_options(argv: Sequence[str], environ: Mapping[str, str]) -> TrackerOptions:
    """Reads the options as `parse_arguments` does, with the environment `environ`."""
    asked = layered(command_line(), argv, environ, ENVIRONMENT)
    if asked.values.listen is None:
        raise ConfigError("--listen HOST:PORT is missing: say where peers reach this tracker")
    options = TrackerOptions(**asked.read(TrackerOptions))
    if options.relay and options.tls == AUTO:  # members reach a relay by HTTPS, wherever it is
        options = replace(options, tls=ON)
    _check_address(options, asked.place)
    _check_trust(options, asked.place)
    return replace(options, log=options.log.at(options.debug))


def command_line() -> NodeParser:
    """Returns the parser of a tracker's options."""
    return parser_of("node.tracker", TrackerOptions, _DESCRIPTION)


def _check_address(options: TrackerOptions, place: Place) -> None:
    """Refuses an address that nobody can dial."""
    if options.announce is None:
        any_endpoint(options.listen, place("listen"))


def _check_trust(options: TrackerOptions, place: Place) -> None:
    """Refuses an address beyond loopback unless the options say who may come."""
    if options.allow is not None and options.open:
        raise ConfigError(f"{place('allow')} and {place('open')} contradict each other: give one of them")
    if options.is_for_nobody and not options.relay:
        raise ConfigError(
            f"{place('listen')} {shown(options.listen)} is not on this machine alone, so say who may come: "
            "--allow FILE, or --open for anyone; or --relay, to carry for invited swarms alone"
        )
