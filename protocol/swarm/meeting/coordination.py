"""Both sides of matchmaking in one node: seeking a group for its offer, and coordinating for others.

Among peers the candidates are the live ones that offer and oneself, lowest key first: the first coordinates.
With a tracker it is the only candidate, and this node collects no READY; neither does one that follows.
"""

from __future__ import annotations

from protocol.actions import Action, Note, Notice, Send
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Electorate
from protocol.swarm.meeting.discovery import Discovery
from protocol.swarm.meeting.group_seeker import MAX_TRIES, GroupSeeker
from protocol.swarm.meeting.matchmaker import Matchmaker
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire import codec
from protocol.wire.messages import Accepted, Announce, Electors, Group, Key, Message, Ready, Redirect


class Coordination:
    """Who gets this node's READY, and what it does with the READYs it gets. Sends go to node keys."""

    def __init__(
        self, settings: Settings, state: NodeState, discovery: Discovery, patience: Patience
    ) -> None:
        self._settings = settings
        self._state = state
        self._discovery = discovery
        self._members = discovery.members
        self._me = settings.key.public
        self._matchmaker: Matchmaker | None = None
        if not settings.tracker and not state.following:
            self._matchmaker = Matchmaker(settings.key, settings.min_participants)
        self.seeker = GroupSeeker(settings, state, patience)
        self._silent: Key | None = None
        """Who did not answer: the READY may have got there all the same, and is taken back."""

    @property
    def known(self) -> int:
        """The known members that offer, oneself included: a weak group is more than half of them.

        1 with a tracker, which counts those that are announced to it.
        """
        return 1 + (len(self._members.offering(self._state.round)) if self._matchmaker else 0)

    @property
    def deadline(self) -> float | None:
        """When something is due here at the latest."""
        times = (self.seeker.deadline, self._matchmaker.deadline if self._matchmaker else None)
        return min((at for at in times if at is not None), default=None)

    # -- coordinating ------------------------------------------------------------------------------

    def announce(self, announce: Announce, now: float) -> None:
        """An accepted peer's announcement, or one's own: groups wait for it."""
        if self._matchmaker:
            self._matchmaker.announce(announce, now)

    def ready(self, ready: Ready, by: Key | None, now: float) -> list[Action]:
        """Take in a READY on a link of its own; one for another coordinator takes back what was sent here."""
        if by != ready.key:
            raise RemoteProtocolError("a READY on the link of another")
        if self._settings.tracker or not self._discovery.accepts(ready.announce):
            raise RemoteProtocolError("a READY that this node does not collect")
        codec.verify(ready.announce, ready.key)
        codec.verify(ready, ready.key)
        self._members.learn(ready.announce, self._state.round, now, live=True)
        if self._matchmaker is None:  # this node follows, and tells who asks it all the same
            is_asked = ready.coordinator == self._me
            return self._discovery.show(ready.announce.endpoint, (), now) if is_asked else []
        if ready.coordinator != self._me:
            self._matchmaker.announce(ready.announce, now)
            self._matchmaker.withdraw(ready.key, ready.announce.order)
            return []
        actions = self._matchmaker.ready(ready, now)
        elsewhere = self._members.get(self._first_candidate() or b"")
        if elsewhere is not None and elsewhere.key != ready.key:
            actions.append(Send(ready.key, (Redirect(ready.nonce, elsewhere),)))
        outranking = self._matchmaker.outranking(ready)
        shown = self._discovery.show(ready.announce.endpoint, outranking, now) if outranking else []
        return [*actions, *shown]

    def retire(self) -> None:
        """This node follows from now on: it collects nothing, and the READYs that it holds are void."""
        self._matchmaker = None

    def close_groups(self, now: float) -> list[Action]:
        """The GROUPs that are due."""
        if self._matchmaker is None:
            return []
        electorate = self._state.electorate(self._settings)
        if electorate is not None:
            self._matchmaker.learn((self._settings.task, self._settings.parameters_hash), electorate)
        return self._matchmaker.close_groups(now, self.known)

    def electors(self, electors: Electors, by: Key | None) -> list[Action]:
        """Whom a peer counts with that stands on another base than this node."""
        announce = self._members.get(by or b"")
        if self._matchmaker is None or announce is None or not self._discovery.accepts(announce):
            raise RemoteProtocolError("electors that this node does not count with")
        self._matchmaker.learn(announce.swarm, Electorate(electors.members, electors.least))
        return []

    def drop(self, key: Key) -> None:
        """The READY that is held of this node, or of a banned peer, does not count."""
        if self._matchmaker:
            self._matchmaker.void(key)

    # -- seeking -----------------------------------------------------------------------------------

    def _first_candidate(self) -> Key | None:
        """Whom this node would ask to coordinate now; None for itself."""
        offer = self.seeker.offer
        skipped = offer.skipped if offer else set()
        asked = [key for key in self._members.candidates(self._state.round) if key not in skipped]
        return asked[0] if asked and asked[0] < self._me else None

    def seek(self, now: float) -> list[Action]:
        """READY to the first candidate, if an offer waits and that is not the one that has it."""
        offer = self.seeker.offer
        if offer is None or offer.tries >= MAX_TRIES:
            return []
        if self._settings.tracker:
            return self._seek_at_tracker(self._settings.tracker, now)
        coordinator, before = self._first_candidate() or self._me, self.seeker.coordinator
        if coordinator == before:
            return []
        ready = self.seeker.ask(coordinator, now)
        told = {key for key in (coordinator, before, self._silent) if key is not None and key != self._me}
        self._silent = None
        if before == self._me:
            self.drop(self._me)
        mine = self._matchmaker if coordinator == self._me else None
        if mine is not None:
            mine.ready(ready, now)
            self.seeker.accepted(ready.nonce, now)
        return [Send(key, self._told(key, ready)) for key in sorted(told)]

    def _told(self, key: Key, ready: Ready) -> tuple[Message, ...]:
        """The READY; before it, to a coordinator that stands elsewhere, whom this node counts with."""
        there = self._members.get(key)
        is_known = there is not None and there.base == self._state.base
        return (ready,) if is_known else (*self._electors(), ready)

    def _electors(self) -> tuple[Electors, ...]:
        electorate = self._state.electorate(self._settings)
        return () if electorate is None else (Electors(electorate.members, electorate.least),)

    def _seek_at_tracker(self, endpoint: str, now: float) -> list[Action]:
        tracker = self._discovery.tracker_key
        if tracker is None or self.seeker.coordinator == tracker:
            return []
        return [Send(endpoint, (*self._electors(), self.seeker.ask(tracker, now)))]

    def accepted(self, accepted: Accepted, now: float) -> list[Action]:
        """The coordinator holds the READY."""
        self.seeker.accepted(accepted.nonce, now)
        return []

    def redirect(self, redirect: Redirect, now: float) -> list[Action]:
        """The coordinator sends its own READY elsewhere: perhaps this node should, too."""
        if not self.seeker.holds(redirect.nonce):
            raise RemoteProtocolError("a redirection of a READY that is not the current one")
        return self._discovery.news((redirect.coordinator,), now)

    def lost(self, key: Key) -> None:
        """A peer can not be reached: not waited for, and not asked until it is heard again."""
        if self._matchmaker:
            self._matchmaker.unreachable(key)
        if self.seeker.coordinator == key:
            self.seeker.void()

    def tick(self, now: float) -> list[Action]:
        """Go on to the next candidate if the coordinator's answer is overdue."""
        silent = self.seeker.silent(now)
        if silent is None:
            return []
        if self._settings.tracker:
            self.seeker.void()
            return self._discovery.greet(self._settings.tracker, now)
        self._members.suspect(silent)
        self.seeker.skip(silent)
        self._silent = silent
        announce = self._members.get(silent)
        who = announce.endpoint if announce else silent.hex()[:8]
        return [Notice(Note.COORDINATOR, who, "does not answer; the next one is asked")]

    def check(self, group: Group) -> None:
        """RemoteProtocolError unless this node's offer may join the GROUP."""
        self.seeker.check(group, self.known)
        if not all(self._discovery.accepts(announce) for announce in self._others(group)):
            raise RemoteProtocolError("a GROUP with a member that this node does not accept")
        for announce in self._others(group):
            held = self._members.get(announce.key)
            if held is not None and held.epoch > announce.epoch:
                raise RemoteProtocolError("a GROUP with a READY of a start that is over")

    def learn(self, group: Group, now: float) -> None:
        """What its READYs say of the other members."""
        for announce in self._others(group):
            self._members.learn(announce, self._state.round, now, live=False)

    def _others(self, group: Group) -> list[Announce]:
        return [ready.announce for ready in group.readys if ready.key != self._me]

    def expired(self, now: float) -> bool:
        """Whether T_group is over; the offer and its READY are dropped."""
        if not self.seeker.expired(now):
            return False
        self.drop(self._me)
        return True

    def give_up(self) -> None:
        """Wait for no group any more; the READY is void."""
        self.seeker.give_up()
        self.drop(self._me)
