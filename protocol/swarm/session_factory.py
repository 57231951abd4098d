"""Builds the machine of a session, and translates members' announcements into its events."""

from __future__ import annotations

from collections.abc import Callable, Collection

from protocol.actions import Action, Fatal
from protocol.adaptive_timeouts import PhasePaces
from protocol.aggregation.additive.machine import Additive
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.participant import Participant, SessionTimeouts
from protocol.aggregation.session_machine import SessionMachine
from protocol.aggregation.size_limits import fits_additive, fits_masked, most_additive, most_masked
from protocol.crypto.sealing import Ephemeral
from protocol.quorum.electorate import Ballot
from protocol.swarm.node_state import Settings
from protocol.wire.limits import MAX_RUN
from protocol.wire.messages import Announce, Group, Key, Ready

Farewell = Callable[[Key, float], list[Action]]


def round_of(ready: Ready, group: Group) -> int:
    """Which round of its own a step is for the member with this READY: the next, and one for each step."""
    return ready.announce.round + 1 + group.step


def machine_for(
    group: Group,
    ephemeral: Ephemeral,
    settings: Settings,
    paces: PhasePaces,
    ballot: Ballot | None,
    disputes: Collection[tuple[Key, Key]] = (),
) -> SessionMachine:
    """The machine for a group: masked sums from LEAST_MEMBERS members on, if enabled, else shares.

    `disputes`: pairs of members whose link may be cut, as one of the two said in the session before.
    """
    members, generation = len(group.readys), group.base.generation
    scheme = settings.aggregation.scheme(members, generation)
    mine = next(ready for ready in group.readys if ready.key == settings.key.public)
    participant = Participant(
        group=group,
        round=round_of(mine, group),
        key=settings.key,
        ephemeral=ephemeral,
        dimension=settings.aggregation.summed(generation),
        timeouts=SessionTimeouts(
            paces.shares_s,
            paces.sums_s if scheme is None else paces.views_s,
            settings.timeouts.session.least_rate,
        ),
        ballot=ballot,
        shelf=settings.shelf,
    )
    if scheme is None:
        here = (pair for pair in disputes if set(pair) <= set(participant.others))
        first = frozenset(key for pair in here for key in pair)
        return Additive(participant, settings.aggregation.shares.for_group(members), first)
    return DoubleMasked(participant, scheme, steps_of(group, settings, ballot))


def steps_of(group: Group, settings: Settings, ballot: Ballot | None) -> int:
    """How many steps this group takes: to the end of the round, if it may take more than one.

    All members compute the same number, from the group and the parameters that they share.
    """
    tolerance = settings.aggregation.tolerance(len(group.readys))
    is_bound = any(ready.announce.open for ready in group.readys)
    if tolerance is None or not tolerance.all_or_none or ballot is None or is_bound:
        return 1
    return min(settings.task.run_steps - group.base.generation % settings.task.run_steps, MAX_RUN)


def threshold(group: Group, settings: Settings) -> int:
    """How many members must release for a group to have a result: all of them if it sums shares."""
    members = len(group.readys)
    tolerance = settings.aggregation.tolerance(members)
    return members if tolerance is None else tolerance.threshold


def too_long(settings: Settings, members: int) -> list[Action]:
    """Fatal if this node's vectors are too long for a group of this many members, else nothing.

    A node checks this at its start for the group that it expects; with a tracker, or with peers that it was
    not configured with, a group may be larger.
    """
    summed, masked = settings.aggregation.longest, settings.aggregation.masked_for(members)
    if fits_additive(summed, members) if masked is None else fits_masked(summed, members, masked.ring):
        return []
    kind = "additive shares" if masked is None else "masked sums"
    most = most_additive(members) if masked is None else most_masked(members, masked.ring)
    why = (
        f"a group of {members} peers was formed, and {summed} parameters are too many for {kind} of "
        f"so many; allowed: at most {most}; share fewer of them (train.parameters), or have fewer peers come"
    )
    return [Fatal(why)]


def has_left_run(participant: Participant, announce: Announce) -> bool:
    """Whether a member that took a run's first step announces that it is no longer in the run.

    An announcement that it made before the GROUP reached it names no run, either, and shows nothing.
    """
    ready, group = participant.ready_of(announce.key), participant.group
    if ready is None or announce.order <= ready.announce.order or announce.run == participant.run_sid:
        return False
    return announce.base.generation > group.first_base.generation or announce.round > ready.announce.round


def farewell(machine: SessionMachine, announce: Announce, is_ready: bool) -> Farewell | None:
    """The event that a member's newer announcement means for its session; None: no event.

    Either the member has the base that this session made; or it restarted, fell back, or (`is_ready`) is
    READY again on the old base, and sends nothing more in this session. In a later step of a run, it may also
    have left the run.
    """
    participant = machine.participant
    ready = participant.ready_of(announce.key)
    if ready is None or announce.order <= ready.announce.order:
        return None
    if announce.base.sid == participant.sid:
        return machine.finished
    began_anew = announce.instance != ready.announce.instance
    if announce.run == participant.run_sid and not began_anew:
        return None  # it says so itself: it is still in this run
    has_left = participant.group.step > 0 and has_left_run(participant, announce)
    has_ended = announce.round >= round_of(ready, participant.group)
    is_over = is_ready or has_ended
    if not (began_anew or has_left or (is_over and announce.base == participant.group.base)):
        return None
    fell_back = (has_left or has_ended) and not began_anew
    return machine.gave_up if fell_back else machine.unreachable
