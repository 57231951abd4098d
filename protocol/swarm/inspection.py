"""Whom a node knows, and how it stands with each, in a form for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from protocol.swarm.meeting.clock_skew import Clocks
from protocol.swarm.meeting.discovery import Greeting, Introductions
from protocol.swarm.meeting.membership import Member
from protocol.wire.messages import Key


class Contact(StrEnum):
    """How a node stands with somebody."""

    REACHABLE = "reachable"
    UNREACHABLE = "unreachable"
    """It could not be reached, or did not answer when it was due."""
    SILENT = "silent"
    """Not heard for so many rounds that it no longer counts."""
    LEFT = "left"
    """It said goodbye."""
    NOT_MET = "not met"
    """It has not answered a greeting yet."""
    REFUSES = "refuses"
    """It does not let this node in."""


@dataclass(frozen=True, slots=True)
class Acquaintance:
    """Somebody at an endpoint; `key` and `round` (the last one it told of) are None if it was never met."""

    endpoint: str
    key: Key | None
    contact: Contact
    round: int | None
    follows: bool
    """Whether it offers nothing more: its privacy budget is spent."""
    is_tracker: bool
    why: str
    """Why it can not be reached, or refuses, as far as that is known."""
    ahead_s: float | None
    """By how much its clock is ahead of this machine's; None where that is not worth telling."""


def acquaintances_of(hellos: Introductions, round: int, tracker: str | None) -> tuple[Acquaintance, ...]:
    """The members in the order of their keys, then whom this node has only greeted, the tracker first.

    An endpoint that answered and is nobody's any more (its node has moved) is left out.
    """
    greetings = hellos.greetings
    known = hellos.members.known(round)
    members = hellos.members.every
    ends = {member.announce.endpoint for member in members}
    clocks = hellos.clocks
    met = (_met(each, each.announce.key in known, greetings, clocks) for each in members)
    ahead_s = clocks.ahead_s(hellos.tracker_key or b"")
    asked = (end for end, greeting in greetings.items() if end == tracker or not greeting.answered)
    others = sorted(set(asked) - ends, key=lambda end: (end != tracker, end))
    greeted = (_greeted(end, greetings[end], end == tracker) for end in others)
    return (*met, *(replace(each, ahead_s=ahead_s) if each.is_tracker else each for each in greeted))


def _met(member: Member, is_known: bool, greetings: dict[str, Greeting], clocks: Clocks) -> Acquaintance:
    announce = member.announce
    greeting = greetings.get(announce.endpoint)
    contact = Contact.REACHABLE
    if announce.leaving:
        contact = Contact.LEFT
    elif not is_known:
        contact = Contact.SILENT
    elif member.suspect:
        contact = Contact.UNREACHABLE
    why = greeting.why if greeting is not None and contact is Contact.UNREACHABLE else ""
    standing = (contact, announce.round, announce.following)
    ahead_s = clocks.ahead_s(announce.key)
    return Acquaintance(announce.endpoint, announce.key, *standing, False, why, ahead_s)


def _greeted(endpoint: str, greeting: Greeting, is_tracker: bool) -> Acquaintance:
    if greeting.refused is not None:
        contact, why = Contact.REFUSES, greeting.refused.reason
    elif greeting.answered:
        contact, why = Contact.REACHABLE, ""
    else:
        contact, why = (Contact.UNREACHABLE if greeting.why else Contact.NOT_MET), greeting.why
    return Acquaintance(endpoint, None, contact, None, False, is_tracker, why, None)
