"""The end of a masked session: acknowledgements, one release for each member, and the secrets that t open.

The table `STEPS` governs what a member sends: one ACK and one RELEASE at most, and no RELEASE before t
members' ACKs for the same (members, totals). t RELEASEs open the secrets.

They open the self mask's secret of a member that is included, and the mask key of one that is not. An honest
member releases once in a session, so that both are never open for one member (protocol, Part II, P1, P2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum

from protocol.actions import Evidence
from protocol.aggregation.equivocation import caught
from protocol.aggregation.masked.mask_keys import Kind
from protocol.aggregation.masked.step_keys import StepKeys
from protocol.aggregation.masked.thresholds import Scheme
from protocol.aggregation.masked.unmasking import release_digest, secret_fits, totals_digest
from protocol.aggregation.masked.view_change import Choice
from protocol.aggregation.participant import Participant
from protocol.crypto import shamir
from protocol.errors import RemoteProtocolError
from protocol.transitions import Course, Step, Table
from protocol.wire import signing
from protocol.wire.ids import Key
from protocol.wire.masked_messages import Ack, AckVote, MaskedHead, Release, ReleaseHead, ResultCertificate

WRONG_SHARE = "a share that was not dealt to it"
WRONG_SECRET = "shares that do not open what it committed to"  # noqa: S105 - words


class Phase(Enum):
    """What this member has sent."""

    SILENT = "silent"
    ACKNOWLEDGED = "acknowledged"
    RELEASED = "released"
    BOTH = "both"


class Event(Enum):
    """What allows a member to send an ACK or a RELEASE."""

    CHECKED = "totals, checked"
    QUORUM = "t Acks alike"


STEPS: Table[Phase, Event] = {
    (Phase.SILENT, Event.CHECKED): Step(
        Phase.ACKNOWLEDGED, "Keep the totals; Ack to all, which locks this member"
    ),
    (Phase.SILENT, Event.QUORUM): Step(Phase.RELEASED, "Release to all, for totals that others have"),
    (Phase.ACKNOWLEDGED, Event.QUORUM): Step(Phase.BOTH, "Release to all"),
    (Phase.RELEASED, Event.CHECKED): Step(Phase.BOTH, "Keep the totals; Ack to all"),
}
"""There are no other steps: no member acknowledges or releases twice."""


class SecretRelease:
    """The acknowledgements and releases of one session."""

    def __init__(
        self, participant: Participant, scheme: Scheme, keys: StepKeys, heads: dict[Key, ReleaseHead]
    ) -> None:
        """`heads`: filled with the signed head of the first release of each other member."""
        self._participant = participant
        self._tolerance, self._layout = scheme.tolerance, scheme.layout
        self._keys = keys
        self._acks: dict[Key, Ack] = {}
        self._alike: dict[Choice, dict[Key, Ack]] = {}
        """The same acknowledgements, by what they are for."""
        self._releases: dict[Key, Release] = {}
        self._heads = heads
        self._course = Course(STEPS, Phase.SILENT)

    # -- acknowledgements --------------------------------------------------------------------------

    @property
    def lock(self) -> Ack | None:
        """This member's acknowledgement, if it has sent one."""
        return self._acks.get(self._participant.me)

    @property
    def acknowledged(self) -> frozenset[Key]:
        """The members whose acknowledgement is here."""
        return frozenset(self._acks)

    @property
    def may_acknowledge(self) -> bool:
        """Whether this member has not acknowledged yet."""
        return self._course.allows(Event.CHECKED)

    def acknowledge(self, choice: Choice, digests: tuple[bytes, ...], inputs: tuple[MaskedHead, ...]) -> Ack:
        """Make this member's acknowledgement, the only one of this session."""
        self._course.step(Event.CHECKED)
        participant = self._participant
        vote = AckVote(participant.sid, participant.me, choice.included, choice.totals)
        ack = Ack(signing.sign(vote, participant.key), digests, inputs)
        self._put(ack)
        return ack

    def _put(self, ack: Ack) -> None:
        vote = ack.vote
        self._acks[vote.sender] = ack
        self._alike.setdefault(Choice(vote.included, vote.totals), {})[vote.sender] = ack

    def take_ack(self, ack: Ack) -> Evidence | None:
        """Process another member's acknowledgement; evidence if it sent two.

        Raises RemoteProtocolError if it is invalid.
        """
        vote = ack.vote
        signing.verify(vote, vote.sender)
        if len(ack.digests) != self._layout.chunks or vote.totals != _digest(ack):
            raise RemoteProtocolError("an acknowledgement of other totals than it shows")
        known = self._acks.get(vote.sender)
        if known is not None and known.vote != vote:
            return caught(known.vote, vote)
        self._put(ack)
        return None

    def quorum(self) -> Choice | None:
        """The choice that t members have acknowledged; None if there is none."""
        needed = self._tolerance.threshold
        return next((choice for choice, acks in self._alike.items() if len(acks) >= needed), None)

    def digests_of(self, choice: Choice) -> tuple[tuple[bytes, ...], tuple[Key, ...]] | None:
        """(the totals' digests, the members that acknowledged them); None if no member did."""
        acks = self._alike.get(choice)
        return (next(iter(acks.values())).digests, tuple(acks)) if acks else None

    @property
    def answered(self) -> frozenset[Key]:
        """Whose Release for what t have acknowledged is here; before that, whose Ack for what most have."""
        choice = self.quorum()
        if choice is None:
            return frozenset(max(self._alike.values(), key=len, default=()))
        return frozenset(key for key, release in self._releases.items() if _choice(release) == choice)

    # -- releases ----------------------------------------------------------------------------------

    @property
    def released(self) -> frozenset[Key]:
        """The members whose release is here."""
        return frozenset(self._releases)

    @property
    def own(self) -> Release | None:
        """This member's release, if it has sent one."""
        return self._releases.get(self._participant.me)

    @property
    def may_release(self) -> bool:
        """Whether this member has not released yet."""
        return self._course.allows(Event.QUORUM)

    def release(self, choice: Choice) -> Release:
        """Make this member's release, the only one of this session."""
        self._course.step(Event.QUORUM)
        participant = self._participant
        pairs = (self._keys.shares[key] for key in participant.members)
        shares = tuple(pair[0 if choice.included >> n & 1 else 1] for n, pair in enumerate(pairs))
        head = ReleaseHead(
            sid=participant.sid,
            sender=participant.me,
            included=choice.included,
            totals=choice.totals,
            joins=self._keys.joins,
            shares=release_digest(shares),
        )
        release = Release(signing.sign(head, participant.key), shares)
        self._releases[participant.me] = release
        return release

    def take_release(self, release: Release) -> Evidence | None:
        """Process another member's release; evidence if it sent two, or shares that it was not dealt.

        Raises RemoteProtocolError if it is invalid.
        """
        head = release.head
        signing.verify(head, head.sender)
        if (
            len(release.shares) != len(self._participant.members)
            or release_digest(release.shares) != head.shares
        ):
            raise RemoteProtocolError("a release of other shares than its head names")
        known = self._heads.get(head.sender)
        if known is not None:
            return caught(known, head) if known != head else None
        if head.joins != self._keys.joins:
            raise RemoteProtocolError("a release for other joins")
        self._heads[head.sender] = head
        if not self._is_dealt(release):
            return Evidence(head.sender, WRONG_SHARE, (head,))
        self._releases[head.sender] = release
        return None

    def _is_dealt(self, release: Release) -> bool:
        """Whether each share matches the hash that its dealer sent to all members."""
        number, members = self._participant.numbers[release.head.sender], self._participant.members
        for dealer_number, (dealer, share) in enumerate(zip(members, release.shares, strict=True)):
            included = bool(release.head.included >> dealer_number & 1)
            kind, offset = (Kind.SELF, 0) if included else (Kind.PAIR, len(members))
            if not self._keys.is_dealt(dealer, kind, share, offset + number, number):
                return False
        return True

    def opened(self) -> ResultCertificate | Evidence | None:
        """The certificate that t releases of one choice open, or evidence against a dealer of wrong shares.

        None while there are too few releases, or no quorum among them.
        """
        releases = tuple(self._releases.values())
        if len(releases) < self._tolerance.threshold:
            return None
        for choice in dict.fromkeys(_choice(release) for release in releases):
            alike = [release for release in releases if _choice(release) == choice]
            enough = len(alike) >= self._tolerance.threshold
            if (
                enough
                and self.digests_of(choice)
                and self._participant.suffices(each.head.sender for each in alike)
            ):
                unopened = self.unopened(choice)
                return open_secrets(unopened, alike, self._participant.numbers, self._tolerance.threshold)
        return None

    def unopened(self, choice: Choice) -> ResultCertificate:
        """The certificate of this choice without its secrets, with only this member's release."""
        known, own = self.digests_of(choice), self.own
        return ResultCertificate(
            sid=self._participant.sid,
            included=choice.included,
            digests=known[0] if known else (),
            dealt=self._keys.dealt,
            secrets=(),
            releases=() if own is None else (own.head,),
        )


def open_secrets(
    unopened: ResultCertificate, alike: Iterable[Release], numbers: Mapping[Key, int], threshold: int
) -> ResultCertificate | Evidence:
    """The certificate that these releases complete, or evidence against a dealer of wrong shares.

    All releases are for the same choice and count as votes; `threshold` of them open the secrets.
    """
    votes = sorted(alike, key=lambda release: release.head.sender)
    chosen = votes[:threshold]
    weights = shamir.weights([numbers[release.head.sender] for release in chosen])
    secrets: list[bytes] = []
    for number, dealt in enumerate(unopened.dealt):
        shares = [shamir.from_bytes(release.shares[number]) for release in chosen]
        secret = shamir.to_bytes(shamir.combine(shares, weights))
        if not secret_fits(secret, dealt, bool(unopened.included >> number & 1)):
            shown = tuple(release.head for release in chosen)
            return Evidence(dealt.head.sender, WRONG_SECRET, (dealt.head, *shown))
        secrets.append(secret)
    heads = tuple(release.head for release in votes)
    return replace(unopened, secrets=tuple(secrets), releases=heads)


def _choice(release: Release) -> Choice:
    return Choice(release.head.included, release.head.totals)


def _digest(ack: Ack) -> bytes:
    return totals_digest(ack.vote.sid, ack.vote.included, ack.digests)
