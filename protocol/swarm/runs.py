"""Runs of steps: one group, and one JOIN of each member, for several sums one after another.

Where each sum is one step of the model, and counts only with every member in it, the same members take the
next step. A run saves them READY, GROUP, JOIN and JOINED. Each step keeps what protects an offer: keys of its
own, dealt in the run's JOIN, and a session id of its own.

    first step --its base is stored--> between two steps --an offer--> next step --...--> the last one
                                            |
                                            +--a member left, or this node did--> the run is over

A step builds on the base of the step before it. So a node takes part in a step only once it holds that base.
All members of the run made it, so it is strong, and they alone are its electors. A run begins only if no
member has an open vote. Any end of a run is an ordinary end: the node announces that it has left, and the
next offer seeks a group.
"""

from __future__ import annotations

from protocol.adaptive_timeouts import PhasePaces
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.session_machine import SessionMachine
from protocol.errors import LocalProtocolError
from protocol.quorum.electorate import Ballot
from protocol.swarm.node_state import NodeState, Settings
from protocol.swarm.session_factory import farewell, has_left_run
from protocol.swarm.votes.voting import Voting
from protocol.wire.ids import NO_SID
from protocol.wire.messages import Announce, Base, Key


class Runs:
    """This node's run, if it is in one; the one owner of `NodeState.run`."""

    def __init__(self, settings: Settings, state: NodeState, voting: Voting) -> None:
        self._settings = settings
        self._state = state
        self._voting = voting
        self._last: DoubleMasked | None = None
        """The machine of the last step, between two steps."""
        self._has_left = False
        """Whether a member left the run during a step, which may end well without it."""

    @property
    def between(self) -> DoubleMasked | None:
        """The machine of the last step, while another step may follow it and has not begun."""
        return self._last

    def begin(self, machine: SessionMachine) -> None:
        """A session begins; it is the first step of a run if its group takes more than one."""
        self._last, self._has_left = None, False
        is_run = isinstance(machine, DoubleMasked) and machine.steps_left > 0
        self._state.run = machine.participant.sid if is_run else NO_SID

    def completed(self, machine: SessionMachine) -> None:
        """A step has its result: the run goes on if it has more steps and nobody left."""
        if isinstance(machine, DoubleMasked) and machine.steps_left > 0 and not self._has_left:
            self._last = machine
        else:
            self.end()

    def adopted(self, base: Base) -> bool:
        """Whether the run goes on from the base that this node has stored; if not, the run is over."""
        last = self._last
        if last is None:
            return False
        if base.sid == last.participant.sid and base.is_strong and self._ballot_on(last, base) is not None:
            return True
        self.end()
        return False

    def _ballot_on(self, last: DoubleMasked, base: Base) -> Ballot | None:
        return self._voting.ballot(last.participant.group.later(base))

    def end(self) -> bool:
        """The run is over for this node; whether it was in one."""
        was_in = self._state.run != NO_SID
        self._last, self._state.run = None, NO_SID
        return was_in

    def next(self, paces: PhasePaces) -> DoubleMasked:
        """The machine of the next step, on this node's base."""
        last, base = self._last, self._state.base
        ballot = None if last is None else self._ballot_on(last, base)
        if last is None or ballot is None:
            raise LocalProtocolError("no run that goes on from this base")
        self._last = None
        summed = self._settings.aggregation.summed(base.generation)
        return last.following(last.participant.at(base, ballot, summed, paces.views_s))

    # -- the other members -------------------------------------------------------------------------

    def _step(self, running: SessionMachine | None) -> SessionMachine | None:
        """The machine of the run's step: the running one, or else the last one; None without a run."""
        return None if self._state.run == NO_SID else running or self._last

    def lost(self, key: Key, machine: SessionMachine | None) -> bool:
        """A member cannot be reached. Whether this ended the run; a running step decides for itself."""
        step = self._step(machine)
        if step is None or key not in step.participant.others:
            return False
        self._has_left = True
        return machine is None and self.end()

    def heard(self, announce: Announce, is_ready: bool, machine: SessionMachine | None) -> bool:
        """Note a member that left the run, by its announcement. Whether this ended the run."""
        step = self._step(machine)
        if step is None:
            return False
        event = farewell(step, announce, is_ready)
        has_ended = event is not None and event != step.finished
        has_left = has_ended or has_left_run(step.participant, announce)
        return has_left and self.lost(announce.key, machine)

    def is_ahead(self, by: Key, machine: SessionMachine | None) -> bool:
        """Whether `by` may be in a later step than this node: one of the run's members."""
        step = self._step(machine)
        return step is not None and by in step.participant.others
