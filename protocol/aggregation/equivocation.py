"""Equivocation: two records of one signer that nobody signs both of who keeps to the protocol.

Who holds both can prove it to anybody. Whoever catches a member at it bans it, and shows the proof to the
others in an EQUIVOCATION. Else that member would stay in their sums, and who banned it could not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from protocol.actions import Evidence
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.limits import MAX_EVIDENCE_BYTES
from protocol.wire.masked_messages import (
    AckVote,
    CheckVote,
    JoinHead,
    MaskedHead,
    ProposalHead,
    ReleaseHead,
    TotalHead,
    ViewVote,
)
from protocol.wire.messages import Equivocation, Sum

Once = Sum | JoinHead | MaskedHead | TotalHead | CheckVote | AckVote | ReleaseHead | ViewVote | ProposalHead
"""The records of which a member signs only one in a session, or one of each chunk, totals or view."""


@dataclass(frozen=True)
class Rule:
    """`what` it is to break it, and the fields besides session and sender in which two such records agree."""

    what: str
    fields: tuple[str, ...] = ()


RULES: Mapping[type[Once], Rule] = {
    Sum: Rule("two different sums in one session"),
    JoinHead: Rule("two different joins in one session"),
    MaskedHead: Rule("two different masked vectors in one session", ("index",)),
    TotalHead: Rule("two different totals of one chunk", ("included", "index")),
    CheckVote: Rule("two different checks of the same totals", ("totals",)),
    AckVote: Rule("two different acknowledgements in one session"),
    ReleaseHead: Rule("two different releases in one session"),
    ViewVote: Rule("two different votes in one view", ("view",)),
    ProposalHead: Rule("two different proposals for one view", ("view",)),
}


def caught(known: Once, other: Once) -> Evidence:
    """The evidence that two records are, which contradict each other and whose signatures are checked."""
    return Evidence(other.sender, RULES[type(other)].what, (known, other))


def proof(records: tuple[bytes, ...]) -> tuple[Equivocation, ...]:
    """The message that shows evidence to others; none if others could not check it, or it is too large."""
    if len(records) != 2 or max(map(len, records)) > MAX_EVIDENCE_BYTES:
        return ()
    return (Equivocation(*records),)


def _contradict(known: Once, other: Once, rule: Rule) -> bool:
    names = ("sid", "sender", *rule.fields)
    agree = all(getattr(known, name) == getattr(other, name) for name in names)
    return agree and replace(known, signature=b"") != replace(other, signature=b"")


def proven(message: Equivocation) -> Evidence:
    """The evidence that an EQUIVOCATION is. Raises RemoteProtocolError if it proves nothing."""
    known, other = (signing.record_of(each) for each in (message.first, message.second))
    rule = RULES.get(type(known)) if type(known) is type(other) else None
    if rule is None or not _contradict(known, other, rule):
        raise RemoteProtocolError("an EQUIVOCATION of two records that do not contradict each other")
    for record in (known, other):
        signing.verify(record, record.sender)
    return caught(known, other)
