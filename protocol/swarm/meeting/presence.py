"""Which electors are here, as this node sees it: whose votes count, and whom a quorum does not need."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.quorum.electorate import Electorate
from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire.messages import Announce


def voters(
    settings: Settings, state: NodeState, electorate: Electorate, others: Iterable[Announce]
) -> frozenset[bytes]:
    """The electors with free votes among these peers and this node."""
    mine = electorate.elector_at(settings.key.public, settings.endpoint)
    here = {electorate.elector(announce) for announce in others if not announce.open}
    return frozenset(one for one in here | (set() if state.votes else {mine}) if one is not None)


def resigned(state: NodeState, electorate: Electorate, members: Members) -> frozenset[bytes]:
    """The electors that say they resigned, of the live peers on this node's anchor."""
    live = members.announced(members.live)
    return electorate.resigned(each for each in live if each.base.anchor == state.base.anchor)
