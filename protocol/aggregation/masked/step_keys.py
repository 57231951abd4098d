"""What a member holds for one step of a run: its secrets, its shares of all secrets, all commitments.

Each step has keys of its own, drawn and dealt when the run begins (protocol.aggregation.masked.key_setup). A
self mask's secret is opened after its step. A pair key may be opened in its step, too: it must mask nothing
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.mask_keys import Kind
from protocol.crypto import merkle, shamir
from protocol.wire.ids import Key, Sid
from protocol.wire.masked_messages import Deal, Dealt, JoinHead


def leaf(deal: Deal) -> bytes:
    """The leaf of a deal in its dealer's tree: its three fields, 96 bytes."""
    return deal.mask_key + deal.commitment + deal.shares


def deals_root(deals: tuple[Deal, ...]) -> bytes:
    """The digest of a member's deals, one for each step, as its head names them."""
    return merkle.root([leaf(deal) for deal in deals])


def dealt_in(step: int, head: JoinHead, deals: tuple[Deal, ...]) -> Dealt:
    """A member's deal for a step, with the proof that its head holds it."""
    return Dealt(head, deals[step], merkle.path([leaf(deal) for deal in deals], step))


def is_dealt_in(step: int, dealt: Dealt) -> bool:
    """Whether the head of a deal holds it for this step."""
    head = dealt.head
    return merkle.proves(leaf(dealt.deal), step, head.steps, dealt.path, head.deals)


@dataclass(frozen=True)
class StepKeys:
    """One member's keys for one step of the run `sid`.

    `dealt`: all members' deals, in key order. `joins`: the digest of all heads. `pair_seeds`: the seed of the
    mask that this member shares with each other one. `shares`: by dealer, this member's share of its self
    mask's secret and of its mask key. `hashes`: by dealer, the 2 n hashes of all shares of this step.
    """

    sid: Sid
    self_secret: int
    pair_seeds: Mapping[Key, bytes]
    shares: Mapping[Key, tuple[bytes, bytes]]
    hashes: Mapping[Key, tuple[bytes, ...]]
    dealt: tuple[Dealt, ...]
    joins: bytes

    def is_dealt(self, dealer: Key, kind: Kind, share: bytes, place: int, number: int) -> bool:
        """Whether this is the share of member `number` whose hash the dealer put at `place` of its hashes."""
        if int.from_bytes(share, "little") >= shamir.PRIME:
            return False
        return mask_keys.share_digest(share, self.sid, dealer, kind, number) == self.hashes[dealer][place]
