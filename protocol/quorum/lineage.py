"""The line of a base: which electors count, and how somebody who was away sees that they are the right ones.

Of each strong base the session that made it is kept: its GROUP, and the certificate that a quorum of the
electors before signed. Both together are a link. Who knows the electors of one anchor follows it from there:

    electors known --a quorum of them signed--> link --its members--> link ... --> the electors of the base

Where a quorum of the electors before the last link signed the new one, too, the last link is needless. So a
line is as long as its electors have changed, not as its generations. Who was away knows the electors of all
links that its line had then: from one of them, at least, the links of today lead on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from protocol.quorum.electorate import Electorate, ballot_of, of_keys
from protocol.wire.member_sets import members_in
from protocol.wire.messages import Certificate, Key, Link

MAX_LINKS = 64
"""Of a longer line the oldest links are forgotten."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where a base stands. `anchor`: the generation of its anchor.

    `electors`: of its anchor; None: that is a first base. `links`: the sessions that lead to the anchor, as
    far as they are needed. `weak`: the session that made the base, where it is not its own anchor.
    """

    anchor: int = 0
    electors: Electorate | None = None
    links: tuple[Link, ...] = ()
    weak: Link | None = None

    @property
    def whole(self) -> tuple[Link, ...]:
        """What somebody is shown who asks for it."""
        return self.links if self.weak is None else (*self.links, self.weak)


FIRST = Line()


def members_of(link: Link) -> tuple[Key, ...]:
    """The group of a session, in key order."""
    return tuple(ready.key for ready in link.group.readys)


def included_in(link: Link) -> tuple[Key, ...]:
    """Whose updates the base holds that a session made."""
    members, certificate = members_of(link), link.certificate
    if isinstance(certificate, Certificate):
        return members
    return members_in(certificate.included, members)


def signed_by(link: Link) -> tuple[Key, ...]:
    """Who signed the result."""
    certificate = link.certificate
    if isinstance(certificate, Certificate):
        return tuple(header.sender for header in certificate.sums)
    return tuple(head.sender for head in certificate.releases)


def is_signed_by(link: Link, electors: Electorate) -> bool:
    """Whether a quorum of these electors signed the result with votes that were free."""
    ballot = ballot_of(link.group.readys, link.group.excused, electors)
    return ballot.is_quorum(signed_by(link))


def after(line: Line, link: Link, generation: int, is_strong: bool, first: Electorate | None) -> Line:
    """The line of the base of this `generation`, which the session of `link` made on a base of `line`.

    `first`: the electors of the first base, if they are known.
    """
    if not is_strong:
        return replace(line, weak=link)
    links = list(line.links)
    while links:
        before = of_keys(included_in(links[-2])) if len(links) > 1 else first
        if before is None or not is_signed_by(link, before):
            break
        links.pop()
    links = [*links, link][-MAX_LINKS:]
    return Line(generation, of_keys(included_in(link)), tuple(links))


Anchored = tuple[int, Electorate]
"""An anchor's generation, and its electors."""


def passed_in(line: Line) -> tuple[Anchored, ...]:
    """The anchors that the links of a line made."""
    return tuple(_made_by(link) for link in line.links)


def follow(links: Iterable[Link], known: Iterable[Anchored]) -> Electorate | None:
    """The electors to which these links lead from any that are `known`; None: they lead from none of them.

    Electors have a say in what comes after their anchor alone: what the same nodes signed before is no link.
    """
    starts, reached = tuple(known), tuple[Anchored, ...]()
    for link in links:
        on = link.group.base.anchor
        from_here = (electors for anchor, electors in (*starts, *reached) if anchor <= on)
        is_signed = any(is_signed_by(link, electors) for electors in from_here)
        reached = (_made_by(link),) if is_signed else ()
    return reached[0][1] if reached else None


def _made_by(link: Link) -> Anchored:
    return link.group.base.generation + 1, of_keys(included_in(link))
