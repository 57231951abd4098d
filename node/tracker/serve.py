"""Runs a tracker: its machine, its transport and its page, until it is interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from node.cli.logs import Log
from node.cli.sigint import begun
from node.net.incoming.listening import endpoint_of, listen
from node.net.incoming.routes import answers
from node.net.tls import make_tls, protection, url
from node.net.traffic import Counts
from node.net.transport import Callbacks, Transport
from node.observe.access import Access, access_of, kept_token, new_token
from node.observe.health import health, missing_unless_ending
from node.observe.log_observer import KEY_DIGITS, log_notice
from node.observe.page import Page
from node.observe.prometheus import Figures, TrackerTally, new_registry, tracker_families
from node.observe.sd_notify import READY, STOPPING, notify
from node.observe.view_sources import TrackerViewSource
from node.relay.relaying import CARRIES, SEES, Relaying
from node.relay.word_file import address_with_word, own_word
from node.relay.word_file import file_beside as word_beside
from node.runtime import wall_clock
from node.runtime.clocks import ClockNotices
from node.runtime.notices import notice_text
from node.runtime.record.events import Noticed
from node.runtime.shell import Shell
from node.storage.allow_list import read_allow_list
from node.storage.key_file import own_key
from node.system.addresses import join_endpoint, split_endpoint
from node.system.streams import BoundAddress
from node.system.system import SYSTEM, System
from node.tracker.named_electors import file_beside, read_named, write_named
from node.tracker.options import TrackerOptions
from protocol.actions import Action, Named, Notice, Send
from protocol.crypto.node_key import NodeKey
from protocol.relay.switch import LIMITS
from protocol.swarm.meeting.tracker import Tracker


def serve(options: TrackerOptions) -> int:
    """Serves until interrupted; returns the exit status. Raises UserError."""
    begun()
    allow = allowed_keys(options)
    listener = listen(options.listen)
    with listener, own_key(options.key) as key:
        return asyncio.run(live(options, key, allow, listener, _on_signals))


def allowed_keys(options: TrackerOptions) -> frozenset[bytes] | None:
    """Returns the keys that are introduced; None for anyone. Raises ConfigError for a bad list."""
    if options.is_for_nobody:
        return frozenset()
    return None if options.allow is None else read_allow_list(options.allow)


async def live(
    options: TrackerOptions,
    key: NodeKey,
    allow: frozenset[bytes] | None,
    listener: BoundAddress,
    interrupted: Callable[[Callable[[], None]], None],
    system: System = SYSTEM,
) -> int:
    """Serves in the caller's event loop until it is told to end; returns the exit status.

    `interrupted` receives the function that tells it to end.
    """
    log = Log("tracker")
    registry = new_registry()
    tally = TrackerTally(registry)
    beside = file_beside(options.key)
    named = read_named(beside)
    tracker, clocks = Tracker(key, options.min_peers, allow, named), ClockNotices()
    endpoint = _announced(options, listener)
    bound, where = endpoint_of(listener, None), url(options.tls, endpoint)
    kept = options.page_token  # without such a file only the terminal shows the token
    access = access_of(endpoint, bound, where, lambda: new_token() if kept is None else kept_token(kept))

    def send(what: Send) -> None:
        if isinstance(what.to, str) and what.to:
            messages = tuple(what.messages)
            tally.said(messages)
            transport.send(what.to, messages, what.bulk)

    async def perform(action: Action) -> list[Action]:
        match action:
            case Notice():
                tell([Noticed(action, notice_text(action, ""))])
            case Named():
                named[action.task, action.parameters] = action.electors
                await asyncio.to_thread(write_named, beside, dict(named))
        return []

    def tell(notices: Sequence[Noticed]) -> None:
        for each in notices:
            source.remark(each.text)
            print(f"{each.text}; {tracker.peers} here", flush=True)
            log_notice(log, each.notice, each.text)

    def look() -> None:
        tell(clocks.since(tracker.clocks.set_s, tracker.clocks.ahead))

    shell = Shell(tracker, send, perform, heavy=False, clock=system.clock, look=look)
    tls = make_tls(key, options.tls, endpoint, lambda _: frozenset())  # messages name their senders

    def warn(text: str) -> None:
        source.remark(text)
        print(f"warning: {text}", flush=True)
        log.warning("warning", text=text)

    callbacks = Callbacks(shell.receive, shell.unreachable, shell.reconnected, warn, tracker.is_member)
    transport = Transport(callbacks, heavy=False, tls=tls, key=key, system=system)
    relay, word = _relay(options, key, transport.counts, system)
    about = _about(options, key, endpoint, len(allow or ()))
    clock = partial(_set, shell, tracker)
    carried = None if relay is None else relay.view
    source = TrackerViewSource(tracker, shell, transport.counts, key.public.hex(), about, carried)
    page, figures = Page(source, access), Figures(registry, source.view, tracker_families, access)
    stopped = asyncio.Event()
    missing = missing_unless_ending(stopped)
    carrying = () if relay is None else relay.routes
    await transport.start(listener, answers(health(missing), figures.routes, page.routes, carrying))
    notify(READY)
    _introduce(options, key, endpoint, access, word)
    log.info("started", key=key.public.hex()[:KEY_DIGITS], listen=endpoint)
    try:
        interrupted(stopped.set)
        await _until_stopped(shell, clock, stopped, system)
    finally:
        notify(STOPPING)
        await page.close()
        if relay is not None:
            await relay.close()
        await transport.close()
    log.info("stopped")
    return 0


def _announced(options: TrackerOptions, listener: BoundAddress) -> str:
    """Returns the HOST:PORT by which others reach this tracker."""
    if options.announce is None:
        return endpoint_of(listener, options.listen)
    host, port = split_endpoint(options.announce)
    return join_endpoint(host, port) if port else endpoint_of(listener, options.announce)


def _relay(
    options: TrackerOptions, key: NodeKey, counts: Counts, system: System
) -> tuple[Relaying | None, str]:
    """Returns the relay and its word; None and an empty word without --relay."""
    if not options.relay:
        return None, ""
    limits = replace(
        LIMITS,
        bytes_per_s=options.relay_rate * 10**6,
        burst_bytes=max(LIMITS.burst_bytes, options.relay_rate * 10**6),
        bytes_per_day=options.relay_day * 10**9,
    )
    word = own_word(word_beside(options.key), system)
    return Relaying(key, word, counts, limits, system), word


def _introduce(options: TrackerOptions, key: NodeKey, endpoint: str, access: Access, word: str) -> None:
    """Prints the first lines for the owner."""
    where, on_terminal = url(options.tls, endpoint), sys.stdout.isatty()
    print(f"tracker {key.public.hex()} at {where}", flush=True)
    if options.relay:
        print(f"relays: {CARRIES}; it sees {SEES}", flush=True)
        shown = address_with_word(endpoint, word if on_terminal else "WORD")
        why = "" if on_terminal else f"   (WORD: the line in {word_beside(options.key)})"
        print(f"to invite, give people this address:  {shown}{why}", flush=True)
    if not options.is_for_nobody:
        print(f"nodes come with: --tracker {key.public.hex()}@{where}", flush=True)
    print(f"links: {protection(options.tls, endpoint)}", flush=True)
    print(f"page: {access.shown(options.page_token, on_terminal=on_terminal)}", flush=True)


def _about(options: TrackerOptions, key: NodeKey, endpoint: str, listed: int) -> dict[str, str]:
    """Describes this tracker by name, in words."""
    who = f"{listed} keys on the list" if options.allow is not None else "anyone who reaches this address"
    if options.is_for_nobody:
        who = "nobody: it only relays (--allow FILE or --open lets peers come)"
    carrying = {"relays": CARRIES, "a relay sees": SEES} if options.relay else {}
    return {
        "tracker": f"{key.public.hex()} at {endpoint}",
        "may come": who,
        "groups": f"of {options.min_peers} peers or more; a task may ask for more",
        **carrying,
    }


async def _set(shell: Shell, tracker: Tracker, offset_s: float, asleep_s: float) -> None:
    """Reports to the machine that this computer's clock was set, or that it slept."""
    await shell.feed(lambda _: tracker.clock(offset_s, asleep_s), light=lambda: True)


def _on_signals(stop: Callable[[], None]) -> None:
    """Calls `stop` at SIGINT and SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


async def _until_stopped(
    shell: Shell,
    clock: Callable[[float, float], Awaitable[None]],
    stopped: asyncio.Event,
    system: System,
) -> None:
    """Runs until `stopped` is set; raises the tracker's own error, if any."""
    timer, waiting = asyncio.create_task(shell.keep_time()), asyncio.create_task(stopped.wait())
    watching = asyncio.create_task(wall_clock.watch(clock, system.clock))
    await asyncio.wait((timer, waiting, shell.broken), return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    timer.cancel()
    waiting.cancel()
    if shell.broken.done():
        shell.broken.result()
