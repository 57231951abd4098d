"""`python -m node.tracker`: introduces peers to each other and closes groups; it never sees a share.

It may be restarted at any time: it keeps nothing on disk, the peers announce themselves again.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node.access import access_of, kept_token, new_token
from node.addresses import is_loopback, is_wildcard, parse_endpoint, split_endpoint
from node.allow import read_allow_list
from node.cli import guarded
from node.errors import ConfigError, shown
from node.keyfile import new_seed
from node.listening import endpoint_of, listen
from node.options import NodeParser, whole_number
from node.page import Page
from node.reporting import notice_text
from node.shell import Shell
from node.sight import TrackerSight
from node.transport import Transport
from node.web import answers, health
from protocol.actions import Action, Notice, Send
from protocol.identity import NodeKey
from protocol.introducer import Introducer
from protocol.shares import MAX_MEMBERS

_DESCRIPTION = """\
Introduces peers to each other. It sees who is there and who is ready, signed by each; it never sees
data, updates or shares. Peers come with: python -m node --tracker http://HOST:PORT"""
_FLOOR = 3


@dataclass(frozen=True)
class TrackerOptions:
    """What a tracker was asked to do. `min_peers`: no group is smaller, whatever the task says."""

    listen: str
    min_peers: int
    allow: Path | None
    page_token: Path | None
    open: bool
    debug: bool


def parse_arguments(argv: Sequence[str]) -> TrackerOptions:
    """The options in `argv`; raises ConfigError."""
    parser = NodeParser(prog="python -m node.tracker", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument(
        "--listen", required=True, metavar="HOST:PORT", help="where peers reach it; port 0 takes a free one"
    )
    parser.add_argument(
        "--min-peers",
        default="3",
        metavar="N",
        help="no group is smaller (3 to 64; a task may ask for more). Default: 3",
    )
    parser.add_argument(
        "--allow", metavar="FILE", help="introduce only the public keys in FILE, one a line. Default: no list"
    )
    parser.add_argument("--open", action="store_true", help="introduce anyone, off loopback too. Default: no")
    parser.add_argument(
        "--debug", action="store_true", help="log dropped messages, and tracebacks. Default: no"
    )
    parser.add_argument(
        "--page-token",
        metavar="FILE",
        help="off loopback the page asks for the token in FILE, made at the first start. "
        "Default: a new one at each start, shown on the terminal alone",
    )
    given = parser.parse_args(argv)
    options = TrackerOptions(
        listen=parse_endpoint(given.listen, "--listen", any_port=True),
        min_peers=whole_number(given.min_peers, "--min-peers", _FLOOR, MAX_MEMBERS),
        allow=Path(given.allow) if given.allow else None,
        page_token=Path(given.page_token) if given.page_token else None,
        open=given.open,
        debug=given.debug,
    )
    _check_trust(options)
    return options


def _check_trust(options: TrackerOptions) -> None:
    """Off loopback a tracker starts only when it is said who may come."""
    if options.allow is not None and options.open:
        raise ConfigError("--allow and --open contradict each other: give one of them")
    if is_wildcard(split_endpoint(options.listen)[0]):
        raise ConfigError(f"--listen {shown(options.listen)} is refused: give this machine's own address")
    if options.allow is None and not options.open and not is_loopback(options.listen):
        raise ConfigError(
            f"--listen {shown(options.listen)} is not on this machine alone, so say who may come: "
            "--allow FILE, or --open for anyone"
        )


def main(argv: Sequence[str]) -> int:
    """Serve until interrupted; the exit status."""
    return guarded(lambda: _main(argv), "--debug" in argv)


def _main(argv: Sequence[str]) -> int:
    options = parse_arguments(argv)
    if options.debug:
        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(message)s")
    allow = None if options.allow is None else read_allow_list(options.allow)
    listener = listen(options.listen)
    with listener:
        return asyncio.run(_serve(options, allow, listener))


async def _serve(options: TrackerOptions, allow: frozenset[bytes] | None, listener: socket.socket) -> int:
    key = NodeKey(new_seed())
    introducer = Introducer(key, options.min_peers, allow)
    endpoint = endpoint_of(listener, options.listen)
    access = access_of(endpoint, endpoint_of(listener, None), lambda: _token(options))

    def send(what: Send) -> None:
        if isinstance(what.to, str) and what.to:
            transport.send(what.to, what.messages)

    async def perform(action: Action) -> list[Action]:
        if isinstance(action, Notice):
            sight.remark(notice_text(action, ""))
            print(f"{notice_text(action, '')}; {introducer.peers} here", flush=True)
        return []

    shell = Shell(introducer, send, perform, heavy=False)
    transport = Transport(shell.receive, shell.unreachable, shell.reconnected, heavy=False, tls=None)
    about = _about(options, key, endpoint, len(allow or ()))
    sight = TrackerSight(introducer, shell, transport.counts, key.public.hex(), about)
    page = Page(sight, access)
    await transport.start(listener, answers(health(lambda: {"phase": "idle"}), page.routes))
    print(f"tracker {key.public.hex()} at http://{endpoint}", flush=True)
    print(f"page: {access.shown(options.page_token, on_terminal=sys.stdout.isatty())}", flush=True)
    try:
        await _until_interrupted(shell)
    finally:
        await page.close()
        await transport.close()
    return 0


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


async def _until_interrupted(shell: Shell) -> None:
    """SIGINT and SIGTERM end a tracker cleanly; an error of its own ends it, too."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    timer, waiting = asyncio.create_task(shell.keep_time()), asyncio.create_task(stopped.wait())
    await asyncio.wait((timer, waiting, shell.broken), return_when=asyncio.FIRST_COMPLETED)
    timer.cancel()
    waiting.cancel()
    if shell.broken.done():
        shell.broken.result()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
