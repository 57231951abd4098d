"""Both sides of matchmaking in one node: seeking a group for its offer, and coordinating for others.

Without a tracker, the candidates take turns (`turns`). A tracker is the only candidate; nodes then collect no
READYs. Neither does a follower.
"""

from __future__ import annotations

from collections.abc import Collection

from protocol.actions import Action, Note, Notice, Send
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Ballot, Electorate, of_message
from protocol.swarm.meeting import presence
from protocol.swarm.meeting.coordinator_turns import Turns
from protocol.swarm.meeting.discovery import Discovery
from protocol.swarm.meeting.group_seeker import GroupSeeker
from protocol.swarm.meeting.matchmaker import Matchmaker
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.meeting.suspicion import Suspicion
from protocol.swarm.meeting.vouching import Vouching
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire import signing
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import (
    Announce,
    Electors,
    Group,
    Key,
    LeftOut,
    Message,
    Ready,
    Redirect,
    Stalled,
)


class Coordination:
    """Chooses who gets this node's READY, and processes the READYs it gets. Sends go to node keys."""

    def __init__(
        self,
        settings: Settings,
        state: NodeState,
        discovery: Discovery,
        patience: Patience,
        suspicion: Suspicion,
        vouching: Vouching,
    ) -> None:
        self._settings = settings
        self._state = state
        self._discovery = discovery
        self._members = discovery.members
        self._patience = patience
        self._suspicion = suspicion
        self._vouching = vouching
        self._me = settings.key.public
        self.matchmaker = Matchmaker(settings.key, settings.task.min_participants)
        self.seeker = GroupSeeker(settings, state, patience)
        self._turns = Turns(settings, state, discovery.members)

    @property
    def _collects(self) -> bool:
        """Whether this node collects READYs: there is no tracker, and it does not follow."""
        return not self._settings.contacts.tracker and not self._state.following

    @property
    def known(self) -> int:
        """The number of known members that offer, this node included: a weak group needs more than half.

        1 with a tracker, which itself counts the peers announced to it.
        """
        return 1 + (len(self._members.offering) if self._collects else 0)

    @property
    def unready(self) -> frozenset[Key]:
        """The peers whose READYs this node waits for as coordinator; none while another coordinates."""
        if self.seeker.coordinator != self._me:
            return frozenset()
        return self.matchmaker.unready(self._settings.task.swarm) - {self._me}

    @property
    def deadline(self) -> float | None:
        """When tick should be called at the latest; None: never."""
        times = (self.seeker.deadline, self._overdue_at, self.matchmaker.deadline)
        return min((at for at in times if at is not None), default=None)

    # -- coordinating ------------------------------------------------------------------------------

    def announce(self, announce: Announce, now: float) -> None:
        """Register an accepted peer's announcement, or this node's own: groups wait for it."""
        if self._collects:
            self.matchmaker.announce(announce, now)

    def ready(self, ready: Ready, by: Key | None, now: float) -> list[Action]:
        """Process a READY; one for another coordinator withdraws the READY that this node holds.

        Raises RemoteProtocolError unless it comes on its sender's link and this node collects it.
        """
        if by != ready.key:
            raise RemoteProtocolError("a READY on the link of another")
        if self._settings.contacts.tracker or not self._discovery.accepts(ready.announce):
            raise RemoteProtocolError("a READY that this node does not collect")
        signing.verify(ready.announce, ready.key)
        signing.verify(ready, ready.key)
        cohort = self._state.cohort(self._settings)
        if cohort and ready.key not in cohort and ready.announce.base == self._state.base:
            raise RemoteProtocolError("a READY of one that was not in the first sum")
        self._members.learn(ready.announce, now, live=True)
        if not self._collects:  # this node follows: it answers a READY with its announcement
            is_asked = ready.coordinator == self._me
            return self._discovery.show(ready.announce.endpoint, (), now) if is_asked else []
        if ready.coordinator != self._me:
            self.matchmaker.announce(ready.announce, now)
            self.matchmaker.withdraw(ready.key, ready.announce.order)
            return []
        actions = self.matchmaker.ready(ready, now)
        elsewhere = self._members.get(self._turns.coordinator)
        if elsewhere is not None and elsewhere.key != ready.key:
            actions.append(Send(ready.key, (Redirect(ready.nonce, elsewhere),)))
        outranking = self.matchmaker.outranking(ready)
        shown = self._discovery.show(ready.announce.endpoint, outranking, now) if outranking else []
        return [*actions, *shown]

    def retire(self) -> None:
        """This node follows from now on: it collects no READYs, and those that it holds are void."""
        self.matchmaker = Matchmaker(self._settings.key, self._settings.task.min_participants)

    def close_groups(self, now: float) -> list[Action]:
        """Send the GROUPs that are due. This node's own READY is in one only if it is the current one."""
        if self.seeker.coordinator != self._me:
            self.matchmaker.void(self._me)
        electorate = self._state.electorate(self._settings)
        if electorate is not None:
            self.matchmaker.learn(self._settings.task.swarm, electorate)
        return self.matchmaker.close_groups(now, self.known)

    def electors(self, electors: Electors, by: Key | None) -> list[Action]:
        """Process the electors that a peer on another base counts with.

        Raises RemoteProtocolError if this node does not coordinate or does not accept the peer.
        """
        self.matchmaker.learn(self._asking(by, "electors").swarm, of_message(electors))
        return []

    def leave_out(self, asked: LeftOut, by: Key | None) -> list[Action]:
        """Process whom a peer asks this node, as its coordinator, to leave out of its group.

        From this node's own coordinator, about its own READY: who had it left out. Raises RemoteProtocolError
        if this node does not coordinate or does not accept the peer.
        """
        if by is not None and by == self.seeker.coordinator and self.seeker.holds(asked.nonce):
            self._suspicion.left_out_by(asked.keys)
            return []
        announce = self._asking(by, "whom to leave out")
        self.matchmaker.leave_out(announce.swarm, announce.key, asked)
        return []

    def _asking(self, by: Key | None, what: str) -> Announce:
        """Who asks this node as its coordinator; RemoteProtocolError about `what` if it may not."""
        if not self._collects:
            raise RemoteProtocolError(f"{what}, for a node that does not coordinate")
        return self._discovery.accepted(by, what)

    # -- seeking -----------------------------------------------------------------------------------

    def seek(self, now: float) -> list[Action]:
        """Send READY to the candidate whose turn it is, or to the tracker, if an offer waits for that."""
        offer = self.seeker.offer
        if offer is None or offer.tries >= offer.most_tries:
            return []
        if self._settings.contacts.tracker:
            endpoint, tracker = self._settings.contacts.tracker, self._discovery.tracker_key
            if tracker is None:
                return []
            if self.seeker.coordinator == tracker:
                return self._asked_anew(endpoint)
            ready = self.seeker.ask(tracker, now, self._apart)
            return [Send(endpoint, (*self._electors(), *self._asked(ready)))]
        coordinator, before = self._turns.coordinator, self.seeker.coordinator
        if self.seeker.has_turned_down(coordinator):
            return []
        if coordinator == before:
            return self._asked_anew(coordinator)
        ready = self.seeker.ask(coordinator, now, self._apart)
        told = {key for key in (coordinator, before) if key is not None and key != self._me}
        if coordinator == self._me:
            self.matchmaker.leave_out(ready.announce.swarm, self._me, LeftOut(ready.nonce, self._apart))
            self.matchmaker.ready(ready, now)
            self.seeker.accepted(ready.nonce, now)
        return [Send(key, self._told(key, ready)) for key in sorted(told)]

    def _told(self, key: Key, ready: Ready) -> tuple[Message, ...]:
        """The READY, preceded by this node's electors if the coordinator is on another base."""
        there = self._members.get(key)
        is_known = there is not None and there.base == self._state.base
        return (*(() if is_known else self._electors()), *self._asked(ready))

    def _asked(self, ready: Ready) -> tuple[Message, ...]:
        """The READY, preceded by whom this node would leave out."""
        apart = self._apart
        return (LeftOut(ready.nonce, apart), ready) if apart else (ready,)

    def _asked_anew(self, coordinator: Key | str) -> list[Action]:
        """Tell the coordinator of the current READY if this node would leave out others by now."""
        nonce = self.seeker.asks_anew(self._apart)
        if nonce is None:
            return []
        asked = LeftOut(nonce, self._apart)
        if coordinator != self._me:
            return [Send(coordinator, (asked,))]
        self.matchmaker.leave_out(self._settings.task.swarm, self._me, asked)
        return []

    @property
    def _apart(self) -> tuple[Key, ...]:
        """With whom this node would be in no group: who withholds, to whom its link may be cut, strangers."""
        apart = {*self._suspicion.left_out, *self._members.silent, *self._vouching.strangers}
        return tuple(sorted(apart))[:MAX_MEMBERS]

    def _electors(self) -> tuple[Electors, ...]:
        """The electors that this node counts with; those that a tracker names, if it must know of liars."""
        mine = self._state.electorate(self._settings) or Electorate(liars=self._settings.quorum.liars)
        return () if mine == Electorate() else (Electors(mine.members, mine.least, mine.liars),)

    def redirect(self, redirect: Redirect, now: float) -> list[Action]:
        """The coordinator names a better candidate: learn it, so that this node may ask it."""
        if not self.seeker.holds(redirect.nonce):
            raise RemoteProtocolError("a redirection of a READY that is not the current one")
        return self._discovery.news((redirect.coordinator,), now)

    def lost(self, key: Key) -> None:
        """A peer cannot be reached: stop waiting for it, and void a READY that it holds."""
        self.matchmaker.unreachable(key)
        if self.seeker.coordinator == key:
            self.seeker.void()

    def tick(self, now: float) -> list[Action]:
        """Ask the coordinator again if its answer is overdue; tell all if the group is."""
        if self._settings.contacts.tracker:
            if self.seeker.silent(now) is None:
                return []
            self.seeker.void()
            return self._discovery.greet(self._settings.contacts.tracker, now)
        overdue_at = self._overdue_at
        overdue = self._stall() if overdue_at is not None and now >= overdue_at else []
        ready = self.seeker.unanswered(now)
        if ready is None:
            return overdue
        announce = self._members.get(ready.coordinator)
        who = announce.endpoint if announce else ready.coordinator.hex()[:8]
        told = (Notice(Note.COORDINATOR, who),) if overdue else ()
        return [*overdue, *told, Send(ready.coordinator, self._told(ready.coordinator, ready))]

    @property
    def _overdue_at(self) -> float | None:
        """When this node has waited too long in this turn; None if it does not wait, or has said so."""
        if self._settings.contacts.tracker or self.seeker.coordinator is None or self._turns.has_stalled:
            return None
        is_over = self._turns.is_unfair or self.seeker.coordinator in self._suspicion.left_out
        return self.seeker.overdue_at(self._turns.number, is_over)

    def _stall(self) -> list[Action]:
        """Tell all that this node has waited too long in this turn."""
        self._turns.keep()
        return self._to_candidates(self._turns.stall())

    def repeated(self) -> list[Action]:
        """What this node has said of the turns on its base, for those who may not have heard it."""
        return self._to_candidates(self._turns.mine)

    def _to_candidates(self, stalled: Stalled | None) -> list[Action]:
        if stalled is None:
            return []
        return [Send(key, (stalled,)) for key in self._members.candidates]

    def stalled(self, stalled: Stalled, by: Key | None) -> list[Action]:
        """Process that a peer has waited too long in a turn; answer if this node has waited in a later one.

        Raises RemoteProtocolError if it comes from nobody who might coordinate.
        """
        if self._settings.contacts.tracker:
            raise RemoteProtocolError("a STALLED, where a tracker coordinates")
        announce = self._discovery.accepted(by, "a STALLED")
        answer = self._turns.heard(stalled, announce.key)
        return [] if answer is None else [Send(announce.key, (answer,))]

    def check(self, group: Group) -> Ballot | None:
        """How a GROUP that this node's offer may join counts votes. Raises RemoteProtocolError otherwise."""
        ballot = self.seeker.check(group, self.known)
        if not all(self._discovery.accepts(announce) for announce in self._others(group)):
            raise RemoteProtocolError("a GROUP with a member that this node does not accept")
        for announce in self._others(group):
            held = self._members.get(announce.key)
            if held is not None and held.epoch > announce.epoch:
                raise RemoteProtocolError("a GROUP with a READY of a start that is over")
        return ballot

    def turned_down(self, group: Group) -> list[Action] | None:
        """What to do if this valid GROUP is to be turned down: wait for the next turn. None: join it.

        A tracker may want larger groups than this node knows of: its groups are not turned down.
        """
        if self._settings.contacts.tracker or not self.seeker.could_do_without(group):
            return None
        return self.pass_over(group)

    def pass_over(self, group: Group) -> list[Action]:
        """Turn a GROUP down, and wait for the turn of another than its coordinator."""
        self.seeker.turn_down(group.coordinator)
        return self._stall()

    def learn(self, group: Group, now: float) -> None:
        """Learn the other members' announcements from the GROUP's READYs."""
        for announce in self._others(group):
            self._members.learn(announce, now, live=False)

    def _others(self, group: Group) -> list[Announce]:
        return [ready.announce for ready in group.readys if ready.key != self._me]

    def heard(self, key: Key, now: float) -> None:
        """End this node's wait with that of a peer, if no group can come before that one is back.

        So they train at the same time, and wait at the same time: none misses the others again and again.
        """
        since = self.seeker.waits_in_vain(self._members.alone_at(key))
        if since is None:
            return
        here = self._members.candidates
        waiting = tuple(each for each in here if self._members.alone_at(each) < since)
        if self._may_group(here, now) and not self._may_group(waiting, now):
            self.seeker.cut_short(now)

    def _may_group(self, others: Collection[Key], now: float) -> bool:
        """Whether this node and these may be a group, as far as it knows."""
        electorate, count = self._state.electorate(self._settings), 1 + len(others)
        known = 1 + len(self._members.offering)
        if count < self._state.least(self._settings):
            return False
        is_most = 2 * count > known
        if electorate is None or (self._patience.is_willing(now) and is_most):
            return is_most
        here = self._members.announced(others)
        voters = presence.voters(self._settings, self._state, electorate, here)
        without = presence.resigned(self._state, electorate, self._members) | {*self._patience.gone(now)}
        return electorate.is_quorum(voters, without - voters)

    def adopted(self) -> None:
        """This node has another base; its READY for the one before is not void yet."""
        apart, last = self._apart, self._state.line.whole[-1:]
        is_kept_apart = any(ready.key in apart for link in last for ready in link.group.readys)
        self._turns.adopted(self.seeker.is_accepted and not is_kept_apart, apart)
