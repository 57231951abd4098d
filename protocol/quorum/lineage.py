"""The line of a base: it proves the electors of the base to a node that was away.

For each strong base, nodes keep the session that made it: its GROUP, and the certificate that a quorum of the
preceding electors signed. Both together are a link. A node that knows the electors of one anchor follows the
links from there:

    electors known --a quorum of them signed--> link --its members--> link ... --> the electors of the base

If a quorum of the electors before the last link signed the new link, too, the last link is redundant. So the
length of a line grows with the changes of its electors, not with its generations. A node that was away knows
the electors of all links that its line had then: the present links continue from at least one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from protocol.quorum.electorate import BY_SIZE, Electorate, ballot_of, of_keys
from protocol.wire.member_sets import members_in
from protocol.wire.messages import Certificate, Key, Link

MAX_LINKS = 64
"""A longer line drops its oldest links."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line of a base. `anchor`: the generation of its anchor.

    `electors`: those of its anchor; None: the anchor is a first base. `links`: the sessions that lead to the
    anchor, as far as they are needed. `weak`: the session that made the base, if the base is not its own
    anchor.
    """

    anchor: int = 0
    electors: Electorate | None = None
    links: tuple[Link, ...] = ()
    weak: Link | None = None

    @property
    def whole(self) -> tuple[Link, ...]:
        """All links, as a node serves them."""
        return self.links if self.weak is None else (*self.links, self.weak)


FIRST = Line()


def is_opened(line: Line) -> bool:
    """Whether members opened the base by their releases: a masked session made it."""
    return any(link.result for link in line.whole[-1:])


def members_of(link: Link) -> tuple[Key, ...]:
    """The members of the link's session, in key order."""
    return tuple(ready.key for ready in link.group.readys)


def included_in(link: Link) -> tuple[Key, ...]:
    """The members whose updates are in the base that the link made."""
    members, certificate = members_of(link), link.certificate
    if isinstance(certificate, Certificate):
        return members
    return members_in(certificate.included, members)


def signed_by(link: Link) -> tuple[Key, ...]:
    """The members that signed the result."""
    certificate = link.certificate
    if isinstance(certificate, Certificate):
        return tuple(header.sender for header in certificate.sums)
    return tuple(head.sender for head in certificate.releases)


def is_signed_by(link: Link, electors: Electorate) -> bool:
    """Whether a quorum of these electors signed the result with free votes."""
    ballot = ballot_of(link.group.readys, link.group.excused, electors)
    return ballot.is_quorum(signed_by(link))


def after(
    line: Line, link: Link, generation: int, is_strong: bool, first: Electorate | None, liars: int = BY_SIZE
) -> Line:
    """The line of the base of this `generation` that the session of `link` made on a base of `line`.

    `first`: the electors of the first base, if they are known. `liars`: how many electors may lie.
    """
    if not is_strong:
        return replace(line, weak=link)
    links = list(line.links)
    while links:
        before = of_keys(included_in(links[-2]), liars) if len(links) > 1 else first
        if before is None or not is_signed_by(link, before):
            break
        links.pop()
    links = [*links, link][-MAX_LINKS:]
    return Line(generation, of_keys(included_in(link), liars), tuple(links))


Anchored = tuple[int, Electorate]
"""An anchor's generation, and its electors."""


def passed_in(line: Line) -> tuple[Anchored, ...]:
    """The anchors that the links of a line made."""
    liars = BY_SIZE if line.electors is None else line.electors.liars
    return tuple(_made_by(link, liars) for link in line.links)


def follow(links: Iterable[Link], known: Iterable[Anchored]) -> Electorate | None:
    """The electors to which these links lead from any that are `known`; None: they lead from none of them.

    Electors decide only what comes after their anchor: what the same nodes signed before it is no link.
    """
    starts, reached = tuple(known), tuple[Anchored, ...]()
    for link in links:
        on = link.group.base.anchor
        from_here = (electors for anchor, electors in (*starts, *reached) if anchor <= on)
        signed = next((electors for electors in from_here if is_signed_by(link, electors)), None)
        reached = () if signed is None else (_made_by(link, signed.liars),)
    return reached[0][1] if reached else None


def _made_by(link: Link, liars: int) -> Anchored:
    return link.group.base.generation + 1, of_keys(included_in(link), liars)
