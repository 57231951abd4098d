r"""The life of a node: in each round it trains, offers, and adds the group's mean or goes on alone.

train --> offer --> Completed: base += mean, spent := 0  --> next round
              \---> Failed: one's own update, go on      --> next round
follow (the privacy budget is spent) --> Failed: the others' base, fetched --> next round

If the owner has a loss gate (`contributions.loss_gate`), it judges a new base before the node trains on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from mechanisms.mechanism import Memory
from node.net.outgoing.link import BULK_TIMEOUT_S
from node.net.tls import Tls
from node.net.transport import Callbacks, Transport
from node.runtime import wall_clock
from node.runtime.contributions.contribution import NO_TRAINING, Training
from node.runtime.contributions.learning import Learning
from node.runtime.contributions.loss_gate import make_loss_gate
from node.runtime.contributions.weighting import WRONG_WEIGHTS
from node.runtime.known_tracker import KnownTracker
from node.runtime.meter import Meter
from node.runtime.notices import Notices, vouch_text
from node.runtime.plan import Plan
from node.runtime.privacy.group_guarantees import Withstands, withstands
from node.runtime.privacy.spent_before import behind_text
from node.runtime.record.artifacts import Folder
from node.runtime.record.ending import End, Stopping, given_up, others_count_on
from node.runtime.record.events import (
    CaughtUp,
    Comparing,
    Draining,
    GroupResized,
    Noticed,
    Observer,
    Outpaced,
    RoundStarted,
    Warned,
)
from node.runtime.record.figures import Summary
from node.runtime.record.history import RoundHistory, ending_of
from node.runtime.record.own_figures import OwnBook
from node.runtime.serving import Serving, answer
from node.runtime.shell import Shell, is_heavy
from node.runtime.slow_upload import slow_upload_text
from node.runtime.snapshot import Inspector, Show
from node.runtime.waiting import names_of, without_text
from node.storage.records import Ended, SwarmFigure
from node.storage.state import Kept, State
from node.storage.vector_files import Floats
from node.storage.vouches import keep_vouch
from node.system.errors import ConfigError, OtherSwarm, UserError
from node.system.system import SYSTEM, System
from node.training.alone import Lone, yield_to_others
from node.training.trainer import Diverged, Interrupted, VectorModel
from protocol.actions import (
    Action,
    Adopted,
    Closed,
    Completed,
    Evidence,
    Failed,
    Fatal,
    Healed,
    Keep,
    KeepCharged,
    LedgerBehind,
    Notice,
    RaiseEpoch,
    Reason,
    Send,
    Serve,
    Spend,
    Strike,
    TakenIn,
    TrackerKnown,
    Unbind,
    Vote,
    Vouched,
    Waiting,
    WrongTracker,
)
from protocol.crypto.node_key import NodeKey
from protocol.errors import NotFiniteError
from protocol.quorum.lineage import FIRST, Line
from protocol.swarm.node import Node
from protocol.swarm.node_state import Vouches
from protocol.vectors.pieces import base_digest
from protocol.wire.messages import Base, Group, Key, Parting, Vouch
from protocol.wire.signing import parameters_hash

T = TypeVar("T")
Store = Spend | Vote | Unbind | Keep | RaiseEpoch | TrackerKnown | KeepCharged | Vouched
"""What is stored before anything after it is carried out."""

CUT_SHARE = 0.001

log = logging.getLogger("murmuration.alone")
log.addHandler(logging.NullHandler())


async def _at_once(call: Callable[..., T], *arguments: object) -> T:
    """Replaces asyncio.to_thread for a small vector, for which a thread costs more than the work."""
    return call(*arguments)


class Engine:
    """One node. It owns the session, the state and the trainer; `run` covers its whole life."""

    def __init__(
        self,
        plan: Plan,
        node: Node,
        state: State,
        learning: Learning[VectorModel],
        folder: Folder,
        observer: Observer,
        tls: Tls,
        tracker: KnownTracker,
        key: NodeKey,
        sums: Withstands,
        system: System = SYSTEM,
        own: OwnBook | None = None,
        lone: Lone | None = None,
    ) -> None:
        """`key` is this node's own; the node shows it when it dials and when it accepts a link.

        `sums`: what they withstand in the expected group, before the first one forms. `own` keeps the figures
        of its rows. `lone` trains a model of these rows alone; None: no such model.
        """
        self.own = own or OwnBook()
        self._lone = lone
        self._left: End | None = None
        """Why the node ended, once it has left."""
        self._leaving: asyncio.Future[None] | None = None
        """The event that ends a node that was told to end, as soon as nobody counts on it."""
        self._system = system
        heavy = is_heavy(state.dimension)
        self._aside = asyncio.to_thread if heavy else _at_once
        self._plan = plan
        self._node = node
        self._state = state
        self._contribution = learning.contribution(state)
        self._sums = sums
        self._tracker = tracker
        self._observer = observer
        self._history = RoundHistory(
            plan=plan,
            state=state,
            learning=learning,
            loss_gate=make_loss_gate(plan.task, learning.trainer, state),
            folder=folder,
            observer=observer,
            clock=system.clock,
            own=self.own,
        )
        named = node.addresses.named
        self._notices = Notices(node.picture(), plan.parameters, plan.nicknames, folder.path, named)
        self._shell = Shell(node, self._send, self._perform, heavy, node.is_light, system.clock, self._look)
        callbacks = Callbacks(
            receive=self._shell.receive,
            unreachable=self._shell.unreachable,
            reconnected=self._shell.reconnected,
            warn=self.warn,
            is_member=node.is_member,
            is_wanted=node.runs,
            look=partial(self._shell.feed, node.look_again, lambda: True),
            arriving=self._arriving,
        )
        bulk_s = max(BULK_TIMEOUT_S, node.bulk_s)
        self.transport = Transport(callbacks, heavy, tls, key, system=system, bulk_s=bulk_s)
        self._serving = Serving(partial(answer, state), self.transport.hand, self.transport.counts)
        self._outcome: asyncio.Future[Completed | Failed] | None = None
        self._told_of_upload = False
        """Whether the owner was told that this node's line is too slow."""
        self._closed = asyncio.Event()
        self.stopping = Stopping()
        self._had_a_swarm = state.base.generation > 0
        self._given_up: End | None = None
        """Why this node ends though its run is not over and nobody told it to end."""
        self._rounds_alone = 0
        """How many rounds in a row have ended without a base; -1: a base came in the running one."""
        self._first_round = state.round + 1
        self._meter = Meter(self.transport.counts, system.clock)
        self.inspector = Inspector(
            plan=plan,
            node=node,
            state=state,
            mechanism=learning.mechanism,
            shell=self._shell,
            meter=self._meter,
            out=folder.path,
            own=self.own,
        )
        self._training = NO_TRAINING
        self._number = 0
        """The last round whose start was announced."""
        self._aggregating_since = self._system.clock.monotonic()

    @property
    def round(self) -> int:
        """The last round that ended."""
        return self._plan.round(self._state.base)

    @property
    def end(self) -> End:
        """Why the node ended; valid once it has left."""
        if self._left is not None:
            return self._left
        if self._given_up is not None:
            return self._given_up  # even when it was told to end, too: its owner should know
        return End.TOLD if self.stopping.asked else End.DONE

    @property
    def other_versions(self) -> tuple[str, ...]:
        """A line about each named peer of another version; valid once the node has left."""
        return tuple(f"{endpoint} {what}" for endpoint, what in self._node.other_versions.items())

    # -- life --------------------------------------------------------------------------------------

    async def run(self, show: Show | None) -> None:
        """Runs all rounds, then the closing; `show` runs beside them. Raises UserError if it cannot go on."""
        async with asyncio.TaskGroup() as tasks:
            timer = tasks.create_task(self._shell.keep_time())
            clock = tasks.create_task(wall_clock.watch(self._set, self._system.clock))
            serving = tasks.create_task(self._serving.run())
            models = tasks.create_task(self._history.keep_models())
            shown = [] if show is None else [tasks.create_task(show(self.inspector.take))]
            rounds = tasks.create_task(self._rounds())
            await asyncio.wait((rounds, self._shell.broken), return_when=asyncio.FIRST_COMPLETED)
            for task in (timer, clock, serving, models, *shown, rounds):
                task.cancel()
        if self._shell.broken.done():
            self._shell.broken.result()

    async def _rounds(self) -> None:
        await self._history.begin()
        await self._shell.feed(self._node.open)
        while not await self._is_over() and not self.stopping.asked:
            await self._round()
            if await self._came_back_to_nobody():
                self._given_up = End.DESERTED
                return
        if not self.stopping.asked:
            await self._shell.feed(self._node.close)
            await self.stopping.unless(self._closed.wait())

    async def _is_over(self) -> bool:
        """Returns whether the run is over, or this node has given up."""
        return self._given_up is not None or await self._shell.look(lambda: self._node.is_over)

    async def _came_back_to_nobody(self) -> bool:
        """Returns whether this node's earlier swarm is gone, as a whole round has shown."""
        if not self._had_a_swarm or self._given_up is not None or self.stopping.asked:
            return False
        return await self._shell.look(lambda: not self._node.is_over and self._node.swarm_end.is_deserted)

    async def leave(self) -> None:
        """Says goodbye and completes what has begun, so that nothing stays half-stored or half-sent.

        If a round ended when no task waited for it, its line of history is written, too. Messages that come
        later change nothing.
        """
        await self._shell.finish(partial(self._node.leave, why=self._parting))
        self._left = self.end
        await self._history.end()

    async def compare(self) -> None:
        """Trains a model of this node's rows alone, once the run is over; a signal ends only that.

        By then nobody waits for this node. If the comparison fails, the node has not failed.
        """
        if self._lone is None or not self.end.is_over or not self._lone.has_rows:
            return
        self._observer.handle(Comparing(self._lone.within_s))
        with ThreadPoolExecutor(1, "alone", yield_to_others) as thread:
            loop = asyncio.get_running_loop()
            try:
                self.own.compared(await loop.run_in_executor(thread, self._lone, self.stopping.training))
            except Exception:
                log.exception("no model of the rows alone")

    @property
    def _parting(self) -> Parting:
        return Parting.STOPPED if self.stopping.asked else Parting.ENDED

    async def give_up(self, error: BaseException) -> None:
        """Tells the others that this node cannot go on, and why, unless its machine may be broken, too."""
        diverged = isinstance(error, Diverged | NotFiniteError)
        if self._shell.broken.done() and not diverged:
            return
        why = Parting.DIVERGED if diverged else Parting.FAILED
        with suppress(NotFiniteError):  # known: it is `error`
            await self._shell.finish(partial(self._node.leave, why=why))

    async def drain(self, within_s: float) -> None:
        """Ends the node soon: a session or closing that has begun may still finish within `within_s` s."""
        if self._left is not None:
            self.stopping.ask()
            return
        if await self._shell.look(lambda: self._node.stays_for_the_absent):
            self._closed.set()  # its run is over, and stays so
            return
        self._observer.handle(Draining(within_s))
        self.stopping.ask()
        asyncio.get_running_loop().call_later(within_s, self.stopping.at_once)
        await self._shell.feed(self._end_unless_in_the_midst, light=lambda: True)

    def _end_unless_in_the_midst(self, now: float) -> list[Action]:
        """Leaves in this same event if nobody counts on this node, before a group can form."""
        if others_count_on(self._node.status.phase):
            return []
        self.stopping.at_once()
        return self._shell.last(partial(self._node.leave, why=self._parting))(now)

    async def _round(self) -> None:
        self._meter.begin()
        self._training = NO_TRAINING
        ended, own = await self._shell.look(lambda: (self._plan.round(self._state.base), self._node.round))
        number = ended + 1
        if number != self._number:
            self._number = number
            self._observer.handle(RoundStarted(number))
        self._history.new_round()
        with suppress(Interrupted):
            since = self._system.clock.monotonic()
            self._training = await asyncio.to_thread(self._train, own + 1)
            self._warn_of_rows(self._training)
            if await self._is_over():
                return  # others finished the last sum meanwhile, and this node fetched it
            await self._tell_if_outpaced(ended, since)
            self._aggregating_since = self._system.clock.monotonic()
            begin = self._offer if self._training.offered else self._follow
            outcome = await self._outcome_of(begin)
            self._meter.enter("idle")
            if outcome is not None:
                await self._history.catch_up()
                if not await self._is_over():
                    is_first = outcome.round == self._first_round
                    alone, sums = self._alone(outcome), self._state.base.generation
                    self._given_up = given_up(outcome, alone, is_first, self._plan, sums)

    async def _tell_if_outpaced(self, ended: int, since: float) -> None:
        """Tells the owner if the others went on after round `ended` while this node trained, from `since` on.

        Where a sum is a step it says nothing: the words made for another base are no progress on this one.
        """
        rounds = await self._shell.look(lambda: self.round) - ended
        has_trained = self._training.loss is not None or self._training.seconds > 0
        if rounds > 0 and has_trained and self._plan.report_every is None:
            train_s = self._system.clock.monotonic() - since
            self._observer.handle(Outpaced(train_s, rounds, ended + rounds + 1))

    def _alone(self, outcome: Completed | Failed) -> int:
        """Returns how many rounds alone in a row have ended with this outcome; 0 if a base came in it."""
        return max(0, self._rounds_alone) if isinstance(outcome, Failed) else 0

    def _ending(self, outcome: Completed | Failed, swarm: SwarmFigure | None = None) -> Ended:
        """Returns the ending to store with what the sum changes; called once for each sum."""
        part_of = None if self._plan.report_every is None else self._number
        aggregate_s = self._system.clock.monotonic() - self._aggregating_since
        ending = ending_of(outcome, self._training, aggregate_s, self._meter, part_of, self._alone(outcome))
        without = () if isinstance(outcome, Failed) else names_of(outcome.without, self._plan.nicknames)
        tallied = self._history.tallied(replace(ending, swarm=swarm, without=without))
        return Ended(ending.own, tallied.to_ending())

    def _train(self, own: int) -> Training:
        """Has the loss gate judge the base, then prepares an offer for this node's own round, in a thread."""
        self._history.check_base()
        return self._contribution.prepare(own, self.stopping.training)

    def _warn_of_rows(self, training: Training) -> None:
        if training.warning:
            self.warn(training.warning)
        if training.not_finite:
            self.warn(
                f"the gradient of a row was not finite {training.not_finite} times in this round's steps; "
                "such a row counts as zero: look for missing or huge values in the data"
            )

    async def _offer(self) -> None:
        """Hands the offer to the session, which alone holds the vector when this returns."""
        offer = await asyncio.to_thread(self._contribution.offer)
        rand, made_for = self._system.entropy(32), self._training.made_for
        await self._shell.feed(lambda now: self._node.offer(offer, rand, now, made_for))

    async def _follow(self) -> None:
        """Offers nothing and takes the others' next base."""
        await self._shell.feed(self._node.follow)

    async def _outcome_of(self, begin: Callable[[], Awaitable[None]]) -> Completed | Failed | None:
        """Begins a round with a group. Returns its outcome; None if this node is interrupted meanwhile."""
        self._outcome = asyncio.get_running_loop().create_future()
        self.transport.uploads.restart()
        await begin()
        outcome = await self.stopping.unless(self._outcome)
        self._warn_of_late_upload(outcome)
        return outcome

    def _warn_of_late_upload(self, outcome: Completed | Failed | None) -> None:
        """Warns once, until a sum succeeds, if this node's part of a sum that failed came too late."""
        measured = self.transport.uploads.measured(asyncio.get_running_loop().time())
        if isinstance(outcome, Completed):
            self._told_of_upload = False
        elif isinstance(outcome, Failed) and measured is not None and not self._told_of_upload:
            others, rate = measured
            section, dimension = self._plan.task.aggregation, self._state.dimension
            text = slow_upload_text(section, dimension, others + 1, rate)
            if text is not None:
                self._told_of_upload = True
                self.warn(text)

    # -- actions -----------------------------------------------------------------------------------

    def _send(self, send: Send) -> None:
        self._meter.enter(self._node.phase)
        if isinstance(send.to, str):
            self.transport.send(send.to, send.messages, send.bulk)

    async def _perform(self, action: Action) -> list[Action]:
        """Carries out one action and returns the actions that follow from it."""
        self._meter.enter(self._node.phase)
        match action:
            case _ if isinstance(action, Store):
                await asyncio.to_thread(self._store, action)
                return self._node.charged(self._state.charged)
            case Completed() | Healed():
                return await self._take_mean(action)
            case Adopted():
                return await self._take_base(
                    action.base,
                    action.vector,
                    None,
                    self._state.memory,
                    action.line,
                    action,
                    self._node.round,
                )
            case Failed():
                await self._fall_back(action)
            case Serve():
                self._serving.ask(action.to, action.request)
            case Evidence():
                await asyncio.to_thread(self._state.ban, action.sender, action.records)
                self.warn(f"banned {self._called(action.sender)}: {action.what}")
            case Notice() | Waiting() | Strike() | TakenIn():
                self._tell(self._notices.of(action, self._node.picture()))
            case LedgerBehind():
                raise UserError(behind_text(action, self._plan.task.task.name))
            case WrongTracker(endpoint, text):
                raise ConfigError(self._tracker.changed(endpoint, text))
            case Fatal():
                raise self._refusal(action)
            case Closed():
                self._closed.set()
        return []

    def _refusal(self, fatal: Fatal) -> ConfigError:
        text = self._notices.of_fatal(fatal)
        return OtherSwarm(text, fatal.who, fatal.parameters) if fatal.parameters else ConfigError(text)

    async def change_members(self, allow: frozenset[Key], vouches: Vouches) -> None:
        """Learns with these keys from now on, and with no others (an invited swarm alone)."""
        await self._shell.feed(lambda now: self._node.change_members(allow, vouches, now))

    def _keep_vouch(self, vouch: Vouch) -> None:
        """Keeps a member's word for a newcomer, and tells the owner, who may accept it."""
        folder = self._plan.swarm_folder
        if folder is not None:
            keep_vouch(folder, vouch, self._system.disk)
            self.warn(vouch_text(vouch, self._plan.nicknames, folder))

    async def _arriving(self, key: Key) -> None:
        await self._shell.feed(lambda now: self._node.arriving(key, now), lambda: True)

    def warn(self, text: str) -> None:
        """Shows the owner a line."""
        self._observer.handle(Warned(text))

    def _look(self) -> None:
        self._tell(self._notices.since(self._node.picture()))
        is_leaving = self._leaving is not None and not self._leaving.done()
        if self.stopping.asked and not is_leaving and not others_count_on(self._node.phase):
            leaving = self._shell.feed(self._end_unless_in_the_midst, light=lambda: True)
            self._leaving = asyncio.ensure_future(leaving)

    def _tell(self, notices: Iterable[Noticed]) -> None:
        for notice in notices:
            self._observer.handle(notice)

    def _called(self, key: Key) -> str:
        return self._plan.nicknames.called(key.hex())

    def _store(self, action: Store) -> None:
        """Stores what must be on disk before the node carries out any later action."""
        match action:
            case Vote():
                ahead = action.goes_on and not self.stopping.asked  # a node that leaves pays for no step more
                self._contribution.vote(replace(action, goes_on=ahead), self._now_ms)
            case Unbind():
                self._state.unbind(action.sid)
            case Spend():
                self._spend(action)
            case Keep():
                self._state.keep_parts(action.parts)
            case RaiseEpoch():
                self._state.raise_epoch(action.above)
            case TrackerKnown():
                self._tracker.keep(action.endpoint, action.key)
            case KeepCharged():
                self._state.keep_charged(action.charged, action.instead_of)
            case Vouched():
                self._keep_vouch(action.vouch)

    async def _set(self, offset_s: float, asleep_s: float) -> None:
        """Tells the machine that somebody set this computer's clock, or that it slept."""
        await self._shell.feed(lambda _: self._node.clock(offset_s, asleep_s), light=lambda: True)

    @property
    def _now_ms(self) -> int:
        return int(self._shell.clock.now() * 1000)

    def _spend(self, spend: Spend) -> None:
        self._contribution.spend(spend, self._now_ms)
        self._meter.clipped = spend.clipped
        share = spend.clipped / self._state.dimension
        if share > CUT_SHARE:
            self.warn(
                f"{spend.clipped} of {self._state.dimension} coordinates were cut to the bound: "
                "raise aggregation.clip, or lower train.learning_rate"
            )

    async def _take_mean(self, action: Completed | Healed) -> list[Action]:
        """Adopts the base that a sum makes of its group's base; keeps the base if the sum is invalid."""
        self._tell_of(action.group)
        before = action.group.base
        vector = self._state.vector_of(before)
        if vector is None:
            raise UserError("the base that a certificate builds on is gone")
        following = await self._aside(self._contribution.following, before, vector, action)
        if following is None:
            # All members of the group keep the base; the sum does not show which of them lied.
            self.warn(WRONG_WEIGHTS)
            if isinstance(action, Completed):
                await self._fall_back(Failed(Reason.WRONG_WEIGHTS, action.round, (), action.sid))
            return self._node.adopted(self._state.base, self._shell.clock.now())
        line = action.line or FIRST
        members = len(action.contributors)
        generation, identity = before.generation + 1, parameters_hash(self._plan.parameters)
        digest = base_digest(identity, generation, following.vector)
        base = Base(generation, digest, members, action.sid, line.anchor)
        kept = Kept(action.group, before, action.certificate)
        ended = self._ending(action, following.swarm) if isinstance(action, Completed) else self._node.round
        return await self._take_base(base, following.vector, kept, following.memory, line, action, ended)

    def _tell_of(self, group: Group) -> None:
        """Reports what the sums withstand if the group has another size than the last one."""
        if len(group.readys) != self._sums.members:
            task = self._plan.task
            self._sums = withstands(task.aggregation, len(group.readys), task.privacy.honest)
            self._observer.handle(GroupResized(self._sums))

    async def _take_base(
        self,
        base: Base,
        vector: Floats,
        kept: Kept | None,
        memory: Memory,
        line: Line,
        why: Completed | Healed | Adopted,
        round: int | Ended,
    ) -> list[Action]:
        """`round`: the ending of the round that made the base, or only the last round's number."""
        durable = self._plan.report_every is None or kept is None
        await asyncio.to_thread(self._state.adopt, base, vector, round, kept, memory, line, durable)
        self._rounds_alone = 0 if isinstance(round, Ended) else -1
        if not isinstance(why, Adopted) and why.without:
            self.warn(without_text(base.generation, names_of(why.without, self._plan.nicknames)))
        match why:
            case Completed():
                self._settle(why)
            case Healed():
                how = f"proved by a certificate from {self._called(why.source)}"
                self._observer.handle(CaughtUp(base, how))
            case Adopted():
                trusted = ", ".join(map(self._called, why.trusted))
                how = f"on the word of {trusted}" if trusted else "proved by the sessions that led to it"
                self._observer.handle(CaughtUp(base, how))
        over = await self._aside(self._contribution.is_over, vector)
        return self._node.adopted(base, self._shell.clock.now(), over)

    async def _fall_back(self, failed: Failed) -> None:
        self._rounds_alone += 1
        await asyncio.to_thread(self._state.fell_back, self._ending(failed))
        self._settle(failed)

    def _settle(self, outcome: Completed | Failed) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(outcome)

    # -- figures -----------------------------------------------------------------------------------

    @property
    def agreed(self) -> tuple[Base, Floats]:
        """This node's base and its vector (d,)."""
        return self._state.base, self._state.base_vector

    async def summarise(self) -> Summary:
        """Returns the summary of the whole run, over restarts, and writes it to summary.json."""
        finished = self.end is End.SPENT or self._node.is_over
        own = self.own.figures.open
        alone = None if own is None else own.alone
        gone = () if finished else self.inspector.gone
        left_behind = not finished and self._notices.is_left_behind
        facts = self._sums.facts
        return await self._history.summarise(self.transport.counts, facts, finished, alone, gone, left_behind)
