"""What a node is doing, which peers it knows and reaches, and what it sees of the swarm: as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isinf

from protocol.aggregation.session_machine import SessionMachine
from protocol.swarm.last_rounds import Closing
from protocol.swarm.lateness import Late, Lateness
from protocol.swarm.meeting.clock_skew import Clocks, Skew
from protocol.swarm.meeting.discovery import Discovery, Greeting
from protocol.swarm.meeting.group_seeker import Offer
from protocol.swarm.meeting.membership import Member
from protocol.swarm.meeting.suspicion import Suspicion
from protocol.swarm.recovery.catch_up import CatchUp
from protocol.swarm.votes.obstacle import Obstacle
from protocol.wire.messages import Base, Key, Parting


class Contact(StrEnum):
    """Whether a node can reach a peer and work with it."""

    REACHABLE = "reachable"
    UNREACHABLE = "unreachable"
    """It could not be reached, or did not answer in time."""
    SILENT = "silent"
    """It was not heard for so many rounds that it no longer counts."""
    LEFT = "left"
    """It announced that it leaves."""
    NOT_MET = "not met"
    """It has not answered a greeting yet."""
    REFUSES = "refuses"
    """It refuses this node."""


@dataclass(frozen=True, slots=True)
class Remarks:
    """What there is to say of a peer, for people."""

    why: str = ""
    """Why it cannot be reached, or why it refuses this node; empty if not known."""
    ahead_s: float | None = None
    """By how much its clock is ahead of this machine's; None if not known."""
    parting: Parting | None = None
    """Why it left, if it did and said so."""
    late: tuple[Late, ...] = ()
    """Whether it is slow or has fallen behind; empty if it is on time."""
    strikes: int = 0
    """How many sums failed or waited for its messages; a few good ones take one back."""
    rounds_out: int = 0
    """For how many rounds this node leaves it out; 0 if it does not."""


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """A peer at an endpoint; `key` and `sums` (those that led to its base) are None if it was never met."""

    endpoint: str
    key: Key | None
    contact: Contact
    sums: int | None
    follows: bool
    """Whether it no longer makes offers: its privacy budget is spent."""
    is_tracker: bool
    remarks: Remarks


def known_peers_of(
    discovery: Discovery, lateness: Lateness, suspicion: Suspicion, tracker: str | None
) -> tuple[KnownPeer, ...]:
    """The members in the order of their keys, then the endpoints only greeted so far, the tracker first.

    The result leaves out an endpoint that answered once and that no node announces any more.
    """
    greetings = discovery.greetings
    known = discovery.members.known
    members = discovery.members.every
    ends = {member.announce.endpoint for member in members}
    clocks = discovery.clocks
    met = (_met(each, each.announce.key in known, greetings, clocks, lateness, suspicion) for each in members)
    asked = (end for end, greeting in greetings.items() if end == tracker or not greeting.answered)
    others = sorted(set(asked) - ends, key=lambda end: (end != tracker, end))
    ahead_s = _ahead_s(clocks, discovery.tracker_key or b"")
    return (*met, *(_greeted(end, greetings[end], end == tracker, ahead_s) for end in others))


def _met(
    member: Member,
    is_known: bool,
    greetings: dict[str, Greeting],
    clocks: Clocks,
    lateness: Lateness,
    suspicion: Suspicion,
) -> KnownPeer:
    announce = member.announce
    greeting = greetings.get(announce.endpoint)
    contact = Contact.REACHABLE
    if greeting is not None and greeting.other_tls:
        contact = Contact.UNREACHABLE
    elif announce.leaving:
        contact = Contact.LEFT
    elif not is_known:
        contact = Contact.SILENT
    elif member.suspect:
        contact = Contact.UNREACHABLE
    return KnownPeer(
        endpoint=announce.endpoint,
        key=announce.key,
        contact=contact,
        sums=announce.base.generation,
        follows=announce.following,
        is_tracker=False,
        remarks=Remarks(
            why=greeting.why if greeting is not None and contact is Contact.UNREACHABLE else "",
            ahead_s=_ahead_s(clocks, announce.key),
            parting=member.parting if announce.leaving else None,
            late=lateness.of(announce) if contact is Contact.REACHABLE else (),
            strikes=suspicion.strikes(announce.key),
            rounds_out=suspicion.rounds_out(announce.key),
        ),
    )


def _ahead_s(clocks: Clocks, key: Key) -> float | None:
    skew = clocks.ahead.get(key)
    return None if skew is None else skew.ahead_s


def _greeted(endpoint: str, greeting: Greeting, is_tracker: bool, ahead_s: float | None) -> KnownPeer:
    """`ahead_s`: of the tracker's clock."""
    if greeting.refused is not None:
        contact, why = Contact.REFUSES, greeting.refused.reason
    elif greeting.answered:
        contact, why = Contact.REACHABLE, ""
    else:
        contact, why = (Contact.UNREACHABLE if greeting.why else Contact.NOT_MET), greeting.why
    remarks = Remarks(why, ahead_s if is_tracker else None)
    return KnownPeer(endpoint, None, contact, None, follows=False, is_tracker=is_tracker, remarks=remarks)


@dataclass(frozen=True, slots=True)
class Picture:
    """What a node knows that its owner may be told of: a notice is the difference of two pictures."""

    base: Base
    obstacle: Obstacle | None
    """What prevents a group, as of the last look."""
    hindered: Obstacle | None
    """What did so when an offer had last waited long, or its round failed."""
    late: tuple[Late, ...]
    clocks: Mapping[Key, Skew]
    set_s: float
    """By how much somebody set this machine's clock, since the start."""
    left_out: tuple[Key, ...]
    """The members that this node leaves out for a while."""
    out_by: tuple[Key, ...]
    """The members that have this node left out, as its coordinator says."""
    led_by: Key | None = None
    """Who coordinated the group of the base, if it is nobody with whom this node learns."""


@dataclass(frozen=True)
class Status:
    """What a node is doing, for people: the phase, whom it waits for, and until when (Unix s)."""

    phase: str
    waiting_for: tuple[str, ...]
    deadline: float | None


def status_of(
    machine: SessionMachine | None,
    catch_up: CatchUp,
    discovery: Discovery,
    offer: Offer | None,
    following_until: float | None,
    closing: Closing,
    name: Callable[[Key], str],
) -> Status:
    """The status of the innermost machine that is active; `name` returns a member's endpoint."""
    if machine is not None:
        return Status(machine.stage, tuple(name(key) for key in machine.waiting_for()), machine.deadline)
    if catch_up.busy:
        return Status("catching up", (), catch_up.deadline)
    if discovery.joining:
        return Status("joining", discovery.awaited(), discovery.deadline)
    if offer is not None:
        until = offer.wait.until
        return Status("group", discovery.awaited(), None if isinf(until) else until)
    if following_until is not None:
        return Status("following", (), following_until)
    if closing.until is None:
        return Status("idle", (), None)
    return Status("closing", tuple(each.endpoint for each in closing.lacking), closing.until)
