"""`python -m node.tracker`: introduces peers to each other and closes groups; it never sees a share.

It may be restarted at any time: the peers announce themselves again. On disk it keeps its key, and whom it
named as electors of each swarm's first model (node.named_electors).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from node.addresses import is_loopback, parse_endpoint
from node.cli.exit import guarded, print_error
from node.cli.layers import Place, add_config, layered
from node.cli.sigint import begun, leave
from node.errors import ConfigError, shown
from node.logs import Log, LogOptions, add_log_options, complain, log_options, logging_to
from node.named_electors import file_beside, read_named, write_named
from node.net.listening import endpoint_of, listen
from node.net.routes import answers
from node.net.tls import add_tls, make_tls, protection, url
from node.net.transport import Transport
from node.observe.access import Access, access_of, kept_token, new_token
from node.observe.health import health, missing_unless_ending
from node.observe.log_observer import KEY_DIGITS, log_notice
from node.observe.page import Page
from node.observe.prometheus import Figures, TrackerTally, new_registry, tracker_families
from node.observe.sd_notify import READY, STOPPING, notify
from node.observe.view_sources import TrackerViewSource
from node.options import NodeParser, a_path, path_of, whole_number
from node.runtime import wall_clock
from node.runtime.notices import notice_text
from node.runtime.shell import Shell
from node.storage.allow_list import read_allow_list
from node.storage.key_file import own_key
from protocol.actions import Action, Named, Notice, Send
from protocol.crypto.node_key import NodeKey
from protocol.swarm.meeting.tracker import Tracker
from protocol.wire.limits import MAX_MEMBERS

_DESCRIPTION = """\
Introduces peers to each other. It sees who is there and who is ready, signed by each; it never sees
data, updates or shares. Peers come with: python -m node --tracker KEY@https://HOST:PORT (http:// without
TLS), KEY being its public key; it prints the whole at its start."""
ENVIRONMENT = "MURMURATION_TRACKER"
KEY_FILE = Path("runs") / "tracker" / "tracker.key"
_FLOOR = 3


@dataclass(frozen=True)
class TrackerOptions:
    """What a tracker was asked to do. `min_peers`: no group is smaller, whatever the task says."""

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
    """The options in `argv`, the environment and the --config file; raises ConfigError."""
    return read_options(argv, os.environ)


def read_options(argv: Sequence[str], environ: Mapping[str, str]) -> TrackerOptions:
    """The same for any environment."""
    asked = layered(_parser(), argv, environ, ENVIRONMENT)
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


def _parser() -> NodeParser:
    parser = NodeParser(prog="python -m node.tracker", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--listen", metavar="HOST:PORT", help="where peers reach it; port 0 takes a free one")
    parser.add_argument(
        "--min-peers",
        default="3",
        metavar="N",
        help="no group is smaller (3 to 64; a task may ask for more). Default: 3",
    )
    parser.add_argument(
        "--key",
        default=str(KEY_FILE),
        metavar="FILE",
        help="this tracker's private key, made at the first start: nodes know it by that, so keep it. "
        f"Default: {KEY_FILE}",
    )
    parser.add_argument(
        "--allow", metavar="FILE", help="introduce only the public keys in FILE, one a line. Default: no list"
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
        help="off loopback the page asks for the token in FILE, made at the first start. "
        "Default: a new one at each start, shown on the terminal alone",
    )
    return parser


def _check_trust(options: TrackerOptions, place: Place) -> None:
    """Off loopback a tracker starts only when it is said who may come."""
    if options.allow is not None and options.open:
        raise ConfigError(f"{place('allow')} and {place('open')} contradict each other: give one of them")
    if options.allow is None and not options.open and not is_loopback(options.listen):
        raise ConfigError(
            f"{place('listen')} {shown(options.listen)} is not on this machine alone, so say who may come: "
            "--allow FILE, or --open for anyone"
        )


def main(argv: Sequence[str]) -> int:
    """Serve until interrupted; the exit status."""
    return guarded(lambda: _main(argv), "--debug" in argv, print_error)


def _main(argv: Sequence[str]) -> int:
    options = parse_arguments(argv)
    with logging_to(sys.stderr, options.log):
        return guarded(lambda: _run(options), options.debug, complain(options.log, "tracker"))


def _run(options: TrackerOptions) -> int:
    begun()
    allow = None if options.allow is None else read_allow_list(options.allow)
    listener = listen(options.listen)
    with listener, own_key(options.key) as key:
        return asyncio.run(_serve(options, key, allow, listener))


async def _serve(
    options: TrackerOptions, key: NodeKey, allow: frozenset[bytes] | None, listener: socket.socket
) -> int:
    log = Log("tracker")
    registry = new_registry()
    tally = TrackerTally(registry)
    beside = file_beside(options.key)
    named = read_named(beside)
    tracker = Tracker(key, options.min_peers, allow, named)
    endpoint = endpoint_of(listener, options.listen)
    bound, where = endpoint_of(listener, None), url(options.tls, endpoint)
    access = access_of(endpoint, bound, where, lambda: _token(options))

    def send(what: Send) -> None:
        if isinstance(what.to, str) and what.to:
            messages = tuple(what.messages)
            tally.said(messages)
            transport.send(what.to, messages, what.bulk)

    async def perform(action: Action) -> list[Action]:
        match action:
            case Notice():
                _tell(action, tracker.peers, source, log)
            case Named():
                named[action.task, action.parameters] = action.electors
                await asyncio.to_thread(write_named, beside, dict(named))
        return []

    shell = Shell(tracker, send, perform, heavy=False)
    tls = make_tls(key, options.tls, endpoint, lambda _: frozenset())  # whom it answers is in their messages

    def warn(text: str) -> None:
        source.remark(text)
        print(f"warning: {text}", flush=True)
        log.warning("warning", text=text)

    transport = Transport(
        receive=shell.receive,
        unreachable=shell.unreachable,
        reconnected=shell.reconnected,
        heavy=False,
        tls=tls,
        key=key,
        warn=warn,
        is_member=tracker.is_member,
    )
    about = _about(options, key, endpoint, len(allow or ()))
    clock = partial(_set, shell, tracker)
    source = TrackerViewSource(tracker, shell, transport.counts, key.public.hex(), about)
    page, figures = Page(source, access), Figures(registry, source.view, tracker_families, access)
    stopped = asyncio.Event()
    missing = missing_unless_ending(stopped)
    await transport.start(listener, answers(health(missing), figures.routes, page.routes))
    notify(READY)
    _introduce(options, key, endpoint, access)
    log.info("started", key=key.public.hex()[:KEY_DIGITS], listen=endpoint)
    try:
        await _until_interrupted(shell, clock, stopped)
    finally:
        notify(STOPPING)
        await page.close()
        await transport.close()
    log.info("stopped")
    return 0


def _introduce(options: TrackerOptions, key: NodeKey, endpoint: str, access: Access) -> None:
    """What the owner sees first."""
    where = url(options.tls, endpoint)
    print(f"tracker {key.public.hex()} at {where}", flush=True)
    print(f"nodes come with: --tracker {key.public.hex()}@{where}", flush=True)
    print(f"links: {protection(options.tls, endpoint)}", flush=True)
    print(f"page: {access.shown(options.page_token, on_terminal=sys.stdout.isatty())}", flush=True)


def _tell(notice: Notice, here: int, source: TrackerViewSource, log: Log) -> None:
    """Whoever looks at the terminal, at the page, or at the log."""
    text = notice_text(notice, "")
    source.remark(text)
    print(f"{text}; {here} here", flush=True)
    log_notice(log, notice, text)


def _token(options: TrackerOptions) -> str:
    """What the page asks for: kept where it is said, else known to this terminal alone."""
    return new_token() if options.page_token is None else kept_token(options.page_token)


def _about(options: TrackerOptions, key: NodeKey, endpoint: str, listed: int) -> dict[str, str]:
    """What this tracker is, in words."""
    who = f"{listed} keys on the list" if options.allow is not None else "anyone who reaches this address"
    return {
        "tracker": f"{key.public.hex()} at {endpoint}",
        "may come": who,
        "groups": f"of {options.min_peers} peers or more; a task may ask for more",
    }


async def _set(shell: Shell, tracker: Tracker, offset_s: float, asleep_s: float) -> None:
    """Somebody set this machine's clock, or it slept."""
    await shell.feed(lambda _: tracker.clock(offset_s, asleep_s), light=lambda: True)


async def _until_interrupted(
    shell: Shell, clock: Callable[[float, float], Awaitable[None]], stopped: asyncio.Event
) -> None:
    """SIGINT and SIGTERM set `stopped` and end a tracker cleanly; an error of its own ends it, too."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    timer, waiting = asyncio.create_task(shell.keep_time()), asyncio.create_task(stopped.wait())
    watching = asyncio.create_task(wall_clock.watch(clock))
    await asyncio.wait((timer, waiting, shell.broken), return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    timer.cancel()
    waiting.cancel()
    if shell.broken.done():
        shell.broken.result()


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
