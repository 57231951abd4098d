"""Links of a line with valid signatures, and the bases that they lead to, without running sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.crypto.node_key import NodeKey
from protocol.quorum.lineage import included_in
from protocol.wire import signing
from protocol.wire.messages import Base, Certificate, Group, Link, Sum
from tests.parts import base, group_of, ready


def session_of(keys: Sequence[NodeKey], on: Base, **changes: Any) -> Group:
    """Makes a group of these members on this base, closed by the first one; `changes` go to each READY."""
    return group_of((ready(key, keys[0].public, base=on, **changes) for key in keys), keys[0])


def link_of(group: Group, keys: Sequence[NodeKey], pieces: int = 1) -> Link:
    """Makes the link of this group for a sum of shares; `keys`: its members', in key order."""
    sid, contributors = (
        signing.session_id(group),
        signing.contributors_hash(tuple(key.public for key in keys)),
    )
    sums = (Sum(sid, key.public, contributors, (bytes(32),) * pieces, b"", 0) for key in keys)
    signed = tuple(signing.sign(one, key) for one, key in zip(sums, keys, strict=True))
    return Link(group, (), (Certificate(sid, signed),))


def link(keys: Sequence[NodeKey], on: Base, **changes: Any) -> Link:
    """Makes a session of these members on this base, and its certificate."""
    return link_of(session_of(keys, on, **changes), keys)


def made(by: Link, strong: bool = True, digest: bytes = b"\1" * 32) -> Base:
    """Returns the base that this session made."""
    before = by.group.readys[0].announce.base
    generation = before.generation + 1
    anchor = generation if strong else before.anchor
    return Base(generation, digest, len(included_in(by)), by.certificate.sid, anchor)


def chain(groups: Sequence[Sequence[NodeKey]]) -> tuple[list[Link], list[Base]]:
    """Makes successive strong bases from the first base on, each by one of these groups."""
    links: list[Link] = []
    bases = [base()]
    for keys in groups:
        links.append(link(keys, bases[-1]))
        bases.append(made(links[-1]))
    return links, bases
