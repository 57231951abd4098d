"""What a node that comes late, or comes back, learns from who is there, and from nobody being there.

    a round --the others ended the last one, and too few are left for a group--> Failed, as the last round

The last round has ended for everybody when it has ended for somebody (protocol, Rounds). Where too few are
left for a group, an offer would wait for nothing; what the others agreed on is fetched first.
"""

from __future__ import annotations

from protocol.swarm.meeting.discovery import Introductions
from protocol.swarm.node_state import Settings, Standing


class Lateness:
    """Whether there is anything left to wait for."""

    def __init__(self, settings: Settings, standing: Standing, hellos: Introductions) -> None:
        self._settings = settings
        self._standing = standing
        self._hellos = hellos

    @property
    def is_over(self) -> bool:
        """Whether others ended the last round, those left make no group, and none has a better base.

        To be asked when everybody was heard who will be. A member's word is enough, also a goodbye: it could
        as well keep away, where it is needed for a group.
        """
        members, mine, last = self._hellos.members, self._standing, self._settings.last_round
        if not any(member.announce.round >= last for member in members.every):
            return False
        announces = (members.get(key) for key in members.candidates(mine.round))
        left = sum(announce is not None and announce.round < last for announce in announces)
        enough = left + (not mine.following) >= self._settings.min_participants
        return not enough and not members.anyone_above(mine.round, mine.base)

    @property
    def is_deserted(self) -> bool:
        """Whether nobody was heard since this start, and the system says that nobody listens anywhere.

        A tracker that answers is nobody: it stays when a swarm has ended.
        """
        if any(member.live for member in self._hellos.members.every):
            return False
        tracker = self._settings.tracker if self._hellos.tracker_key else None
        named = [greeting for end, greeting in self._hellos.greetings.items() if end != tracker]
        return bool(named or tracker) and all(greeting.is_refused for greeting in named)
