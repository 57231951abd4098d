"""Finishing a session late: all members ended it without a result, and votes are still bound to it.

A member that released keeps its release with the open vote. Two members that show the same open session send
each other the messages that they sent in it. With t releases, and a quorum of votes among them, a member
opens the secrets and fetches the totals; in an additive session, the n sums give the mean. The votes are then
free: there is a base of a higher anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from protocol.actions import Action, Evidence, Healed, Keep, OpenVote, Send
from protocol.aggregation.additive.machine import check_piece
from protocol.aggregation.additive.total import Total
from protocol.aggregation.masked.release import open_secrets
from protocol.aggregation.masked.unmasking import release_digest
from protocol.aggregation.transfer import additive_bytes, transfer_s
from protocol.crypto import shamir
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Ballot
from protocol.swarm.node_state import Settings
from protocol.swarm.session_factory import threshold
from protocol.wire import signing
from protocol.wire.masked_messages import Release, ResultCertificate
from protocol.wire.messages import Announce, Certificate, Group, Key, Sid, Sum

AGAIN_S = 20.0
"""A node repeats its messages to the same member after this time at the earliest, and that for its bulk."""


class LateFinish:
    """One open vote, and what the other members have sent for it since."""

    def __init__(self, vote: OpenVote, group: Group, ballot: Ballot, settings: Settings) -> None:
        self._vote = vote
        self._group = group
        self._ballot = ballot
        self._settings = settings
        self._members = tuple(sorted(ready.key for ready in group.readys))
        self._given: dict[Key, float] = {}
        self._releases: dict[Key, Release] = {}
        self._sums: dict[Key, Sum] = {}
        self._summed = settings.aggregation.summed(group.base.generation)
        shares = settings.aggregation.shares.for_group(len(self._members))
        self._total = Total(shares, self._summed, self._members)
        if vote.release is not None:
            self._releases[settings.key.public] = vote.release
        self.certificate: ResultCertificate | None = None
        """The certificate that the releases opened; None until there are enough."""

    @property
    def sources(self) -> tuple[Key, ...]:
        """The members that may hold the totals: those that released."""
        return tuple(key for key in sorted(self._releases) if key != self._settings.key.public)

    def give(self, announce: Announce, runs: bool, now: float) -> list[Action]:
        """Send this node's messages of the session to a member that shows it open; at most every AGAIN_S.

        While the session `runs` here, its sum is on its way already.
        """
        key, vote = announce.key, self._vote
        if runs and vote.parts:
            return []
        if key not in self._members or vote.sid not in announce.open or now < self._given.get(key, now):
            return []
        size = additive_bytes(self._summed, len(self._members)) if vote.parts else 0
        self._given[key] = now + AGAIN_S + transfer_s(size, self._settings.timeouts.session.least_rate)
        if vote.release is not None:
            return [Send(key, (vote.release,))]
        return [Send(key, vote.parts, bulk=True)] if vote.parts else []

    def take_release(self, release: Release) -> list[Action]:
        """Process a release of this session; RemoteProtocolError unless it is for this node's choice."""
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
        signing.verify(head, head.sender)
        self._releases[head.sender] = release
        needed = threshold(self._group, self._settings)
        if len(self._releases) < needed or not self._ballot.is_quorum(self._releases):
            return []
        numbers = {key: number for number, key in enumerate(self._members)}
        opened = open_secrets(proof, self._releases.values(), numbers, needed)
        if isinstance(opened, Evidence):
            return []  # here nobody can tell whose share was wrong; the session reported what it could
        self.certificate = opened
        return []

    def take_sum(self, message: Sum) -> list[Action]:
        """Process and keep a piece of a sum of this session; the last piece ends with Healed.

        Raises RemoteProtocolError for a stranger's sum, or one that contradicts those held.
        """
        header, known = message.header, self._sums.get(message.sender)
        if message.sender not in self._members:
            raise RemoteProtocolError("a late sum of somebody who is not in this session")
        if header != known:
            signing.verify(message, message.sender)
            if known is not None or message.contributors != signing.contributors_hash(self._members):
                raise RemoteProtocolError("a late sum that contradicts what is here")
        check_piece(message, self._summed)
        self._total.add(message.sender, message.index, message.payload)
        self._sums[message.sender] = header
        for own in self._vote.parts if self._settings.key.public not in self._sums else ():
            self._total.add(own.sender, own.index, own.payload)
            self._sums[own.sender] = own.header
        kept = Keep((message,))
        if self._total.missing():
            return [kept]
        certificate = Certificate(self._vote.sid, tuple(self._sums[key] for key in self._members))
        result = self._total.result()
        return [kept, Healed(self._group, result, self._members, certificate, message.sender)]


class LateFinishes:
    """The late finishes of those open votes that other members show or send for, as long as they are open.

    `votes` are the votes open now. `ballot_of` returns how a group counts votes.
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
        """Forget the late finishes of votes that are no longer open."""
        for sid in [sid for sid in self._of if sid not in self._votes]:
            del self._of[sid]

    def get(self, sid: Sid) -> LateFinish | None:
        """The late finish of a session; None if this node has no vote that could finish it."""
        vote = self._votes.get(sid)
        if sid not in self._of and vote is not None and vote.group is not None:
            ballot = self._ballot_of(vote.group)
            if ballot is not None:
                self._of[sid] = LateFinish(vote, vote.group, ballot, self._settings)
        return self._of.get(sid)

    def give(self, announce: Announce, running: Sid | None, now: float) -> list[Action]:
        """Send this node's messages to a member that shows the same open sessions; one may run here."""
        shown = [(late, sid == running) for sid in announce.open if (late := self.get(sid)) is not None]
        return [action for late, runs in shown for action in late.give(announce, runs, now)]

    @property
    def opened(self) -> tuple[tuple[ResultCertificate, tuple[Key, ...]], ...]:
        """(certificate, sources of its totals) of each session that releases opened."""
        lates = self._of.values()
        return tuple((late.certificate, late.sources) for late in lates if late.certificate is not None)
