"""Ending a session late: it is over for everybody without a result, and votes are still bound to it.

Who released in it keeps that release beside the open vote. Two that show the same open session give each
other what they said in it. With t releases, and a quorum of votes among them, the secrets are open and the
totals are fetched; where shares were summed, the n sums make the mean. The votes are free then: there is a
base of a higher anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from protocol.actions import Action, Evidence, Healed, Keep, OpenVote, Send
from protocol.aggregation.additive.machine import check_piece
from protocol.aggregation.additive.total import Total
from protocol.aggregation.masked.release import open_secrets
from protocol.aggregation.masked.unmasking import release_digest
from protocol.crypto import shamir
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Ballot
from protocol.swarm.node_state import Settings
from protocol.swarm.session_factory import threshold
from protocol.wire import codec
from protocol.wire.masked_messages import Release, ResultCertificate
from protocol.wire.messages import Announce, Certificate, Group, Key, Sid, Sum

AGAIN_S = 20.0
"""What was said is not said to the same member again before that."""


class LateFinish:
    """One open vote, and what the others of its session said of it since."""

    def __init__(self, vote: OpenVote, group: Group, ballot: Ballot, settings: Settings) -> None:
        self._vote = vote
        self._group = group
        self._ballot = ballot
        self._settings = settings
        self._members = tuple(sorted(ready.key for ready in group.readys))
        self._given: dict[Key, float] = {}
        self._releases: dict[Key, Release] = {}
        self._sums: dict[Key, Sum] = {}
        self._total = Total(settings.shares.for_group(len(self._members)), settings.summed, self._members)
        if vote.release is not None:
            self._releases[settings.key.public] = vote.release
        self.certificate: ResultCertificate | None = None
        """What the releases opened."""

    @property
    def sources(self) -> tuple[Key, ...]:
        """Who may have the totals: those who released."""
        return tuple(key for key in sorted(self._releases) if key != self._settings.key.public)

    def give(self, announce: Announce, now: float) -> list[Action]:
        """What this node said in the session, to a member that shows it as open; not again for a while."""
        key, vote = announce.key, self._vote
        if key not in self._members or vote.sid not in announce.open or now < self._given.get(key, now):
            return []
        self._given[key] = now + AGAIN_S
        if vote.release is not None:
            return [Send(key, (vote.release,))]
        return [Send(key, vote.parts, bulk=True)] if vote.parts else []

    def take_release(self, release: Release) -> list[Action]:
        """A release of this session; RemoteProtocolError unless it is for what this node released for."""
        head, proof = release.head, self._vote.proof
        mine = self._vote.release
        if mine is None or not isinstance(proof, ResultCertificate) or head.sender not in self._members:
            raise RemoteProtocolError("a late release of somebody else's session")
        alike = (head.included, head.totals, head.joins)
        if alike != (mine.head.included, mine.head.totals, mine.head.joins):
            raise RemoteProtocolError("a late release for something else")
        if len(release.shares) != len(self._members) or release_digest(release.shares) != head.shares:
            raise RemoteProtocolError("a late release of other shares than its head names")
        for share in release.shares:
            shamir.from_bytes(share)
        codec.verify(head, head.sender)
        self._releases[head.sender] = release
        needed = threshold(self._group, self._settings)
        if len(self._releases) < needed or not self._ballot.is_quorum(self._releases):
            return []
        numbers = {key: number for number, key in enumerate(self._members)}
        opened = open_secrets(proof, self._releases.values(), numbers, needed)
        if isinstance(opened, Evidence):
            return []  # whose share was wrong nobody can say here: the session told what it could
        self.certificate = opened
        return []

    def take_sum(self, message: Sum) -> list[Action]:
        """A piece of a sum of this session, which is kept for those that miss it; ends with Healed."""
        header, known = message.header, self._sums.get(message.sender)
        if message.sender not in self._members:
            raise RemoteProtocolError("a late sum of somebody who is not in this session")
        if header != known:
            codec.verify(message, message.sender)
            if known is not None or message.contributors != codec.contributors_hash(self._members):
                raise RemoteProtocolError("a late sum that contradicts what is here")
        check_piece(message, self._settings.summed)
        self._total.add(message.sender, message.index, message.payload)
        self._sums[message.sender] = header
        for own in self._vote.parts if self._settings.key.public not in self._sums else ():
            self._total.add(own.sender, own.index, own.payload)
            self._sums[own.sender] = own.header
        kept = Keep((message,))
        if self._total.missing():
            return [kept]
        certificate = Certificate(self._vote.sid, tuple(self._sums[key] for key in self._members))
        mean = self._total.mean()
        return [kept, Healed(self._group, self._vote.sid, mean, self._members, certificate, message.sender)]


class LateFinishes:
    """Those of the open votes that somebody else shows, or said something of; they go with the votes.

    `votes` are those that are open now. `ballot_of`: how votes are counted in a group.
    """

    def __init__(
        self,
        settings: Settings,
        votes: Mapping[Sid, OpenVote],
        ballot_of: Callable[[Group], Ballot | None],
    ) -> None:
        self._settings = settings
        self._votes = votes
        self._ballot_of = ballot_of
        self._of: dict[Sid, LateFinish] = {}

    def forget_closed(self) -> None:
        """The votes that are open no more need no end."""
        for sid in [sid for sid in self._of if sid not in self._votes]:
            del self._of[sid]

    def get(self, sid: Sid) -> LateFinish | None:
        """The one of a session; None where this node has no vote in it that could end it."""
        vote = self._votes.get(sid)
        if sid not in self._of and vote is not None and vote.group is not None:
            ballot = self._ballot_of(vote.group)
            if ballot is not None:
                self._of[sid] = LateFinish(vote, vote.group, ballot, self._settings)
        return self._of.get(sid)

    def give(self, announce: Announce, now: float) -> list[Action]:
        """What this node said, to a member that shows the same open sessions."""
        shown = [self.get(sid) for sid in announce.open]
        return [action for late in shown if late is not None for action in late.give(announce, now)]

    @property
    def opened(self) -> tuple[tuple[ResultCertificate, tuple[Key, ...]], ...]:
        """What the releases opened, and who has the totals that it is for."""
        lates = self._of.values()
        return tuple((late.certificate, late.sources) for late in lates if late.certificate is not None)
