"""Runs a whole node in one process: it checks everything before it writes anything."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import isinf
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from torch import nn

from node.app.again import begin_again, begun_again
from node.app.changing_members import following, vouches_of
from node.app.signals import until_done_or_told, until_told
from node.app.start_checks import (
    allowed,
    check_members,
    check_others,
    check_rounds,
    existing_key,
    key_file_exists,
    named_members,
    nicknames,
)
from node.app.study import About, Study, study, study_of_rows
from node.cli.asking import affirmed
from node.cli.logs import Log
from node.cli.sigint import begun
from node.data.dataset import Dataset
from node.data.sides import Split
from node.jobs.cohort import Cohort
from node.net.incoming.listening import DEFAULT, endpoint_of, listen, listen_where_possible
from node.net.incoming.routes import answers
from node.net.relay.streams import Presence, RelayedStreams
from node.net.tls import by_relay, make_tls, protection, url
from node.net.traffic import Counts
from node.observe.access import Access, access_of, kept_token
from node.observe.choose import choose_output
from node.observe.health import health, missing_of
from node.observe.history_reader import Rounds
from node.observe.journal import PAGE, Journal
from node.observe.kept_view import KeptView
from node.observe.log_observer import LogObserver
from node.observe.page import Page
from node.observe.prometheus import Figures, RoundFigures, new_registry, node_families
from node.observe.reporters.choose import reporting
from node.observe.run_folder import MODEL
from node.observe.sd_notify import READY, notify
from node.observe.view_sources import NodeViewSource
from node.options import NodeOptions
from node.rejoin.electors import elector_name, endpoints_of
from node.relay.relaying import CARRIES, SEES, Relaying
from node.relay.word_file import file_beside, own_word
from node.runtime.contributions.learning import Learning
from node.runtime.contributions.loss_gate import loss_gate_words
from node.runtime.engine import Engine
from node.runtime.known_tracker import KnownTracker
from node.runtime.plan import Plan, last_step
from node.runtime.privacy.budget import introduction, terms_of
from node.runtime.privacy.group_guarantees import (
    Withstands,
    check_length,
    liars_of,
    masked_settings,
    withstands,
)
from node.runtime.privacy.spent_before import count_as_spent
from node.runtime.record.artifacts import Folder
from node.runtime.record.ending import exit_status
from node.runtime.record.events import Finished, Lingering, Observer, Observers, Started, Warned
from node.runtime.record.own_figures import OwnBook
from node.storage.file_shelf import FileShelves
from node.storage.folder_lock import HISTORY, KEY, PAGE_TOKEN, TRACKER, VIEW, Lock, check_folder, tidy_folder
from node.storage.key_file import held, new_seed, write_key
from node.storage.locks import InUse
from node.storage.runs_aside import finish_setting_aside
from node.storage.spend_file import SpendFile
from node.storage.state import Owner, State
from node.system.addresses import is_loopback
from node.system.clock import SteadyClock
from node.system.errors import ConfigError, counted, shown
from node.system.streams import BoundAddress
from node.system.system import SYSTEM, System
from node.task.data_schema import TableSchema
from node.task.parameters import canonical_parameters, former_parameters
from node.training.alone import Lone
from node.training.frozen_body import FEATURES
from node.training.trainer import VectorModel
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.participant import SessionTimeouts
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import Electorate, of_names
from protocol.swarm.node import Node
from protocol.swarm.node_state import (
    Aggregation,
    Contacts,
    QuorumRules,
    Settings,
    SharedTask,
    Timeouts,
)
from protocol.vectors.shelf import MakeShelf
from protocol.wire.endpoints import of_key
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.signing import parameters_hash

Agreed = Callable[[], nn.Module | None]
"""Returns a copy of the torch module with the agreed base in it; None if there is none."""
Live = Callable[[Engine, Agreed], Awaitable[None]]
"""Runs an engine to its end (`node.app.signals`)."""


@dataclass(frozen=True)
class Prepared:
    """The inputs of a node, read and checked before it writes anything."""

    options: NodeOptions
    about: About
    folder: Callable[[Path], Folder]
    plan: Plan
    learning: Learning[VectorModel]
    allow: frozenset[bytes] | None
    system: System = SYSTEM
    """The computer on which the node runs."""
    lone: Lone | None = None
    """Trains a model of this node's rows alone, to compare; None: nobody does."""
    there: Callable[[], Mapping[Key, Presence]] = dict
    """Whether the members are there that relays lead to."""

    @property
    def sums_are_exact(self) -> bool:
        """Whether each sum is opened as it is, without noise, for a job."""
        return self.learning.job is not None and self.learning.mechanism.guarantee is None


@dataclass(frozen=True)
class Watched:
    """The observers of a node, the access to its page, and its metrics."""

    observers: Observers
    """All observers, including `journal`."""
    journal: Journal
    access: Access
    registry: CollectorRegistry


def run(options: NodeOptions, listener: BoundAddress | None = None) -> int:
    """Runs a node to its last round and returns the exit status.

    `listener` is an already listening socket, if any. Raises UserError, one line, for errors that the user
    can correct.
    """
    begin_again(options, affirmed)
    return run_prepared(prepare(options), listener)


def run_prepared(prepared: Prepared, listener: BoundAddress | None) -> int:
    """Runs a prepared node as `run` does."""
    options = prepared.options
    output = choose_output(options.json)

    async def live(engine: Engine, _: Agreed) -> None:
        await until_done_or_told(engine, options.drain_timeout_s, output.show)

    return run_as(prepared, listener, output.observer, live, options.linger_s)


def run_as(
    prepared: Prepared,
    listener: BoundAddress | None,
    observer: Observer,
    live: Live,
    linger_s: float = 0.0,
) -> int:
    """Runs a node with `live`, reports its events to `observer`, and returns the exit status.

    `linger_s`: how long the page stays up after the last round; a signal ends it (the main thread only).
    """
    begun()
    with opened(prepared, listener, observer) as life:
        return asyncio.run(life(live, linger_s))


Life = Callable[[Live, float], Coroutine[Any, Any, int]]
"""Runs a node as `run_as` does, in the caller's event loop."""


@contextmanager
def opened(prepared: Prepared, listener: BoundAddress | None, observer: Observer) -> Iterator[Life]:
    """Opens a node's address, key, folder and state, yields its life, and closes them. Raises UserError."""
    options, system = prepared.options, prepared.system
    seed = None if key_file_exists(options) else new_seed(system.entropy)
    key = NodeKey(seed) if seed is not None else existing_key(options)
    out = options.folder(key.public)
    key_file = options.key or out / KEY
    listening = listener or _listen(options, key)
    try:
        if prepared.sums_are_exact:
            check_members(options, _reached_at(options, key, listening))
        lock = Lock(out)
        try:
            finish_setting_aside(out, system.disk)
            check_folder(out, key_file, has_key=seed is None)
            tidy_folder(out, key_file, system.disk)
            if seed is not None:
                write_key(key_file, seed, system.disk)
            with (
                held(key_file, "node"),
                _opened_in(prepared, key, lock, key_file, listening, observer) as life,
            ):
                yield life
        except (ConfigError, InUse):
            lock.undo()
            raise
        finally:
            lock.release()
    finally:
        listening.close()


def prepare(options: NodeOptions, system: System = SYSTEM) -> Prepared:
    """Reads and checks data, model, allow-list and host names. Raises ConfigError for any fault."""
    if not options.task.learns:
        raise ConfigError(
            f"task {shown(options.task.task.name)} has no [model], so there is nothing to learn; murmuration "
            "stats computes its [statistics]"
        )
    check_others(options)
    check_rounds(options)
    return prepared_for(options, study(options, system), system)


def prepared_on(
    options: NodeOptions, dataset: Dataset, system: System = SYSTEM, split: Split = Split.ROW
) -> Prepared:
    """Prepares a node that learns from `dataset`, whatever data its options name. Raises ConfigError.

    `split`: how the rows of `dataset` were split.
    """
    return prepared_for(options, study_of_rows(options, dataset, system, split), system)


def prepared_for(options: NodeOptions, studied: Study, system: System = SYSTEM) -> Prepared:
    """Prepares a node that learns as `studied` says. Raises ConfigError."""
    task, learning = options.task, studied.learning
    steps, exact = task.step_plan, isinstance(learning.job, Cohort)
    rounds = options.rounds or task.train.rounds
    sums = rounds if steps is None else last_step(steps, options.rounds)
    report_every = None if steps is None else steps.report_every
    if learning.sums is not None:
        sums, report_every = learning.sums, learning.round_sums
        rounds = -(-sums // report_every)  # the last one may have fewer
    return Prepared(
        options=options,
        about=studied.about,
        folder=partial(Folder, card=studied.card, disk=system.disk, save=studied.save),
        plan=Plan(
            task=task,
            parameters=canonical_parameters(
                task,
                studied.named,
                learning.bound,
                studied.digests,
                learning.computed,
                options.roster,
                begun_again(options) if exact else 0,
            ),
            accuracy_of=studied.measured_on,
            rounds=rounds,
            sums=sums,
            tries=sums,
            report_every=report_every,
            cohort=exact,
            purposes=learning.purposes,
            waits=options.wait_s > 0,
            nicknames=nicknames(options),
            swarm_folder=options.swarm_folder,
        ),
        learning=learning,
        allow=allowed(options),
        system=system,
        lone=studied.lone,
    )


def _unread(options: NodeOptions) -> tuple[str, ...]:
    """Returns the columns of the owner's file that the task does not use."""
    schema = options.task.data.own_schema
    if not isinstance(options.data, Path) or not isinstance(schema, TableSchema):
        return ()
    from node.data.unread import unread_columns  # noqa: PLC0415 - pyarrow, which such a file has loaded

    return unread_columns(options.data, schema, options.task.data.person)


def _listen(options: NodeOptions, key: NodeKey) -> socket.socket:
    if options.listen is not None or options.swarm is not None:
        return listen(options.listen or DEFAULT)
    listener = listen_where_possible(options.peers, key.public)
    others = [peer.endpoint for peer in options.peers] + ([options.tracker] if options.tracker else [])
    far = next((endpoint for endpoint in others if not is_loopback(endpoint)), None)
    if far is not None and is_loopback(endpoint_of(listener, None)):
        listener.close()
        raise ConfigError(
            f"{far} is another machine: say where it can reach this node with --listen HOST:PORT"
        )
    return listener


def _reached_at(options: NodeOptions, key: NodeKey, listener: BoundAddress) -> str:
    """Returns where others reach this node: where it listens, or by its key."""
    return endpoint_of(listener, options.listen) if options.swarm is None else of_key(key.public)


def _pins(options: NodeOptions, tracker: KnownTracker) -> dict[str, Key]:
    """Returns the key that must answer at each pinned endpoint."""
    pins = {peer.endpoint: peer.key for peer in options.peers if peer.key is not None}
    pinned = None if options.tracker is None else tracker.key_at(options.tracker)
    return pins if options.tracker is None or pinned is None else {**pins, options.tracker: pinned}


def _settings(
    prepared: Prepared,
    key: NodeKey,
    endpoint: str,
    dimension: int,
    pins: Mapping[str, Key],
    shelf: MakeShelf,
) -> Settings:
    options, plan, learning = prepared.options, prepared.plan, prepared.learning
    section = options.task.aggregation
    return Settings(
        key=key,
        endpoint=endpoint,
        instance=prepared.system.entropy(16),
        task=SharedTask(
            name=options.task.task.name,
            parameters=plan.parameters,
            min_participants=section.min_participants,
            sums=plan.sums,
            by_steps=plan.report_every is not None,
            run_steps=plan.report_every or 1,
            leave_out=section.leave_out_rounds * (plan.report_every or 1),
            cohort=plan.cohort,
            budget="" if learning.mechanism.guarantee is None else learning.spends_for,
        ),
        contacts=Contacts(
            seeds=tuple(peer.endpoint for peer in options.peers if peer.endpoint != endpoint),
            tracker=options.tracker,
            pins=pins,
            allow=prepared.allow,
            vouches=vouches_of(options.swarm, options.swarm_folder),
        ),
        aggregation=Aggregation(
            dimension=dimension,
            shares=ShareSettings(section.shares, learning.bound, section.max_share_value),
            masked=masked_settings(
                section, learning.bound, options.task.privacy.honest, all_or_none=learning.job is not None
            ),
            offered=learning.offered,
            lengths=None if learning.job is None else learning.job.words,
        ),
        timeouts=Timeouts(
            group_s=section.group_timeout_s,
            session=SessionTimeouts(section.shares_timeout_s, section.sums_timeout_s, section.least_rate),
            wait_s=options.wait_s,
            wait_each_s=options.wait_s if plan.cohort or isinf(options.wait_s) else 0.0,
        ),
        quorum=QuorumRules(
            electorate=_first_electorate(options, endpoint),
            liars=liars_of(section),
            weak=section.weak and not plan.cohort,
            amnesty_s=section.amnesty_s,
        ),
        shelf=shelf,
    )


def _first_electorate(options: NodeOptions, endpoint: str) -> Electorate | None:
    """Returns the electors of the first model: any `quorum` nodes or the named peers; None: the tracker's."""
    least = options.task.aggregation.quorum
    if least is not None:
        return Electorate(least=least)
    named = named_members(options, endpoint)
    if options.swarm is not None:  # the same at all members, whoever came later or was removed by whom
        named = frozenset(of_key(member.key) for member in options.swarm.roster.members)
    return None if options.tracker else of_names(named, liars_of(options.task.aggregation))


def _expected(options: NodeOptions, endpoint: str) -> int:
    """Returns the expected size of a group: --peers and this node, and at least the minimum that it needs.

    --peers may name as many others as a group can have members.
    """
    members = min(len(named_members(options, endpoint)), MAX_MEMBERS)
    return max(options.task.aggregation.min_participants, members)


@contextmanager
def _opened_in(
    prepared: Prepared,
    key: NodeKey,
    lock: Lock,
    key_file: Path,
    listener: BoundAddress,
    observer: Observer,
) -> Iterator[Life]:
    options, learning, out = prepared.options, prepared.learning, lock.folder
    endpoint, section = _reached_at(options, key, listener), options.task.aggregation
    sums = withstands(section, _expected(options, endpoint), options.task.privacy.honest)
    check_length(section, sums.members, learning.offered)
    state = _open_state(prepared, key, out, key_file)
    if learning.torch is not None:
        learning.torch.keep_features(out / FEATURES)
    try:
        given, warning = options.spent_before, None
        if given is not None:  # books what the key has spent, on the word of its owner
            now_ms = int(prepared.system.clock.wall() * 1000)
            warning = count_as_spent(state, learning.mechanism, given, now_ms)
        bound = endpoint_of(listener, None)
        page = endpoint if options.swarm is None else bound
        access = access_of(
            page, bound, url(options.tls, page), lambda: kept_token(out / PAGE_TOKEN, prepared.system)
        )
        registry = new_registry()
        journal = Journal(SteadyClock(prepared.system.clock).now)
        owner = Observers((journal, observer, LogObserver(Log("node"))))
        shown = access.shown(out / PAGE_TOKEN, on_terminal=sys.stdout.isatty() and not options.json)
        name, warn = options.task.task.name, lambda text: owner.handle(Warned(text))
        with reporting(options.reports, name, key.public.hex(), warn) as reporters:
            observers = Observers((owner, RoundFigures(registry), *reporters))
            observers.handle(Started({**_introduction(prepared, sums, endpoint, out, state), PAGE: shown}))
            for text in (warning, _list_warning(prepared, key)):
                if text is not None:
                    observers.handle(Warned(text))
            watched = Watched(observers=observers, journal=journal, access=access, registry=registry)

            async def life(live: Live, linger_s: float) -> int:
                async with _reaching(prepared, key, watched) as (there, relayed):
                    return await _live(
                        there, relayed, sums, key, endpoint, state, out, listener, watched, live, linger_s
                    )

            yield life
    finally:
        if state.offers:
            lock.keep()
        state.close()


def _open_state(prepared: Prepared, key: NodeKey, out: Path, key_file: Path) -> State:
    """Opens the state and the spend file of the key, in which an offer without noise leaves its mark, too."""
    plan, learning, disk = prepared.plan, prepared.learning, prepared.system.disk
    spending = SpendFile(key_file, key.public, learning.spends_for, disk)
    spending.check_writable()
    former = former_parameters(plan.task, plan.parameters)
    formerly = {parameters_hash(text): remedy for text, remedy in former.items()}
    owner = Owner(plan.task.task.name, parameters_hash(plan.parameters), key.public, formerly)
    return State(out, owner, learning.trainer.vector(), spending, disk, terms_of(learning.mechanism))


def _list_warning(prepared: Prepared, key: NodeKey) -> str | None:
    """Returns the warning that this node's own key is not on its own list: others may have the same list."""
    where, allow = prepared.options.allow, prepared.allow
    if where is None or allow is None or key.public in allow:
        return None
    return (
        f"this node's own key {key.public.hex()} is not in {where}: if the others have the same list, they "
        "refuse this node; add it at all of them"
    )


def _introduction(
    prepared: Prepared, sums: Withstands, endpoint: str, out: Path, state: State
) -> dict[str, str]:
    """Returns the start-up lines for the owner."""
    options, task, about = prepared.options, prepared.options.task, prepared.about
    who = "keys on the list" if prepared.allow is not None else "anyone who reaches this address"
    at_least = "" if options.peers else f"with {sums.members} peers, "
    ended = prepared.plan.round(state.base)
    resumed = f", resumes after round {ended}" if ended else ""
    unknown = f"{counted(state.recovered, 'offer')} that this folder did not know of: counted"
    return {
        "node": f"{state.owner.key.hex()} at {endpoint}",
        "task": f"{task.task.name}, {about.what}{resumed}",
        "data": about.data,
        "may join": who,
        "links": _links(options, endpoint),
        **_relay_words(options, out),
        "sums": at_least + sums.text,
        **introduction(prepared.learning.mechanism, state.ledger),
        "lies": "any peer that sends wrong numbers can spoil the model: a sum shows none of them alone",
        **_wait_words(options),
        **({"spent before": unknown} if state.recovered else {}),  # it is an older copy or a new folder
        **_gone_words(state),
        **loss_gate_words(task),
        **about.notes,
        "out": str(out),
    }


def _links(options: NodeOptions, endpoint: str) -> str:
    """Returns what leads to the others, and what protects it."""
    swarm = options.swarm
    return protection(options.tls, endpoint) if swarm is None else by_relay(swarm.roster.relays)


def _relay_words(options: NodeOptions, out: Path) -> dict[str, str]:
    """Returns the line on what a relay carries, and by whose word."""
    if not options.relay:
        return {}
    return {"relays": f"{CARRIES}, in {file_beside(options.key or out / KEY)}; it sees {SEES}"}


def _wait_words(options: NodeOptions) -> dict[str, str]:
    """Returns the line about --wait; none if the first group is waited for as long as any other."""
    if options.wait_s <= options.task.aggregation.group_timeout_s:
        return {}
    until = f"up to {options.wait_s:g} s for the first group"
    until = "as long as it takes for each group" if isinf(options.wait_s) else until
    return {"wait": f"{until}; no round is spent meanwhile"}


def _gone_words(state: State) -> dict[str, str]:
    """Returns the line about the electors that the owner declared gone for good."""
    if not state.gone:
        return {}
    groups = [link.group for link in state.line.whole] + [kept.group for kept in state.sessions.values()]
    endpoints = endpoints_of(groups)
    names = ", ".join(elector_name(elector, endpoints) for elector in sorted(state.gone))
    return {"gone for good": f"{names}, declared by this owner; --gone none of node.rejoin withdraws it"}


@asynccontextmanager
async def _reaching(
    prepared: Prepared, key: NodeKey, watched: Watched
) -> AsyncIterator[tuple[Prepared, RelayedStreams | None]]:
    """Yields the node, and the streams that lead to the others by relays if its swarm has a list of members.

    Raises UserError if a relay has another key than the list says, or refuses.
    """
    swarm, system = prepared.options.swarm, prepared.system
    if swarm is None:
        yield prepared, None
        return
    streams = RelayedStreams(
        key,
        swarm.roster.admission,
        swarm.roster.relays,
        system.streams,
        system.entropy,
        swarm.roster.passes,
        swarm.removed,
        warn=lambda text: watched.observers.handle(Warned(text)),
    )
    await streams.start()
    try:
        there = replace(prepared, system=replace(system, streams=streams), there=lambda: streams.presence)
        yield there, streams
    finally:
        await streams.close()


def _relay(prepared: Prepared, key: NodeKey, counts: Counts, out: Path) -> Relaying | None:
    """Returns what makes this node a relay; None without --relay."""
    if not prepared.options.relay:
        return None
    word = own_word(file_beside(prepared.options.key or out / KEY), prepared.system)
    return Relaying(key, word, counts, system=prepared.system)


async def _live(
    prepared: Prepared,
    relayed: RelayedStreams | None,
    sums: Withstands,
    key: NodeKey,
    endpoint: str,
    state: State,
    out: Path,
    listener: BoundAddress,
    watched: Watched,
    live: Live,
    linger_s: float,
) -> int:
    options, learning, access = prepared.options, prepared.learning, watched.access
    tracker = KnownTracker(options.tracker_key, out / TRACKER, prepared.system.disk)
    settings = _settings(prepared, key, endpoint, state.dimension, _pins(options, tracker), FileShelves(out))
    state.begin_epoch()  # before the node announces anything
    node_state = state.node_state
    if learning.job is not None and learning.job.is_over(state.base_vector):
        node_state.last = state.base.generation
    node = Node(settings, node_state, state.past, prepared.system.entropy(32))
    folder = prepared.folder(out)
    torch = learning.torch
    if torch is not None and torch.own_names:
        torch.resume(folder.private())
    peer = Engine(
        plan=prepared.plan,
        node=node,
        state=state,
        learning=learning,
        folder=folder,
        observer=watched.observers,
        tls=make_tls(key, options.tls, endpoint, node.may_answer),
        tracker=tracker,
        key=key,
        sums=sums,
        system=prepared.system,
        own=OwnBook(secret=options.task.privacy.mechanism != "none", unread=_unread(options)),
        lone=prepared.lone and prepared.lone.keeping_features(out / FEATURES),
    )
    relay = _relay(prepared, key, peer.transport.counts, out)
    carried = None if relay is None else relay.view
    rounds = Rounds(out / HISTORY)
    source = NodeViewSource(
        peer.inspector,
        watched.journal,
        rounds,
        prepared.there,
        carried,
        curves=lambda: None if torch is None else torch.curves(state.base_vector, options.task),
        made=lambda: learning.trainer.made(state.base_vector),
    )
    page, kept = Page(source, access, out / MODEL, peer.own), KeptView(source, out / VIEW)
    figures = Figures(watched.registry, source.view, node_families, access)
    inspector = peer.inspector
    healthy = health(missing_of(inspector, peer.stopping), lambda: inspector.troubles)
    carrying = () if relay is None else relay.routes
    await peer.transport.start(listener, answers(healthy, figures.routes, page.routes, carrying))
    notify(READY)
    try:
        try:
            async with kept.while_running(), following(options, relayed, peer, prepared.plan.nicknames):
                await live(peer, lambda: None if torch is None else torch.module(state.base_vector))
        finally:
            page.tell_end()
            await peer.transport.leave()
        summary = await peer.summarise()
        watched.observers.handle(Finished(summary, peer.own.figures, prepared.plan.cohort))
        if linger_s and peer.end.is_over:
            watched.observers.handle(Lingering(linger_s))
            await kept.write()
            await until_told(linger_s)
    finally:
        await kept.write()
        await page.close()
        if relay is not None:
            await relay.close()
        await peer.transport.close()
    return exit_status(
        peer.end,
        prepared.plan,
        round=summary.rounds,
        aggregated=summary.aggregated,
        must_aggregate=options.require_aggregation,
        absent=peer.inspector.absent,
        other_versions=peer.other_versions,
        by_list=options.swarm is not None,
    )
