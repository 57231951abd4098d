"""A swarm of mixed versions: the peers of another version without which no group can form.

Only peers count that the owner named and this node itself dialled. They are needed if all others that may
still come are fewer than a group takes, or hold no quorum of the electors. Then no round ends for want of a
group: the nodes wait for the upgrade of the others.
"""

from __future__ import annotations

from protocol.quorum.electorate import Electorate
from protocol.swarm.meeting.discovery import Discovery
from protocol.swarm.meeting.patience import Patience
from protocol.swarm.node_state import NodeState, Settings
from protocol.wire.messages import Announce


class MixedVersions:
    """Decides whether this node waits for peers of another version."""

    def __init__(
        self, settings: Settings, state: NodeState, discovery: Discovery, patience: Patience
    ) -> None:
        self._settings = settings
        self._state = state
        self._discovery = discovery
        self._members = discovery.members
        self._patience = patience

    def needed(self, now: float) -> tuple[str, ...]:
        """The endpoints of the named peers of another version, if no group can form without them; else none.

        A tracker of another version is needed always.
        """
        others = self._discovery.other_versions
        if not others or not (self._settings.contacts.tracker in others or self._lacks(others, now)):
            return ()
        return tuple(others)

    def _lacks(self, others: dict[str, str], now: float) -> bool:
        """Whether those who may come, without the `others`, are no group or hold no quorum."""
        settings, electorate = self._settings, self._state.electorate(self._settings)
        here, unmet = self._here(others), self._unmet(others)
        count = len(here) + len(unmet) + (not self._state.following)
        least = self._state.least(settings)
        if electorate is None or count < least:
            return count < least
        if electorate.least:
            return count < electorate.least
        on_anchor = (each for each in self._members.latest if each.base.anchor == self._state.base.anchor)
        without = {*self._patience.gone(now), *electorate.resigned(on_anchor)}
        return not electorate.is_quorum(self._electors(electorate, here, unmet), without)

    def _here(self, others: dict[str, str]) -> list[Announce]:
        """The known peers that offer, as they announced themselves."""
        offering = self._members.announced(self._members.offering)
        return [each for each in offering if each.endpoint not in others]

    def _unmet(self, others: dict[str, str]) -> list[str]:
        """The endpoints of the named peers that were not heard lately and may still come."""
        known = self._members.known
        heard = {
            member.announce.endpoint
            for member in self._members.every
            if member.announce.leaving or member.announce.key in known
        }
        not_awaited = {self._settings.endpoint, *others, *heard}
        return [end for end in self._discovery.seeds if end not in not_awaited]

    def _electors(self, electorate: Electorate, here: list[Announce], unmet: list[str]) -> set[bytes]:
        """The electors that may come; which key holds an endpoint that was not met is not known."""
        mine = electorate.elector_at(self._settings.key.public, self._settings.endpoint)
        met = {mine, *(electorate.elector(announce) for announce in here)}
        if self._state.line.electors is None:
            met |= {end.encode() for end in unmet}
        else:
            known = {self._settings.key.public, *(each.key for each in self._members.latest)}
            met |= set([key for key in electorate.members if key not in known][: len(unmet)])
        return {elector for elector in met if elector is not None}
