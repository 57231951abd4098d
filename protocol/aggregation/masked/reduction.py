"""Adding up masked vectors: chunks in, totals out, and the check that totals are right.

If a vector is long, each chunk has a reducer, which gets all members' MASKED and sends the TOTAL of its chunk
to all. Each member sends random products of its own chunks in a CHECK, and the total's products must be the
sum of the members' (`linear_check`). If they are not, a DISPUTE makes all members publish that chunk, which
is as safe as any masked word, and every member sees who lied. If a vector is short, there is one chunk: every
member sends it to every other, and adds up for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from protocol.actions import Action, Evidence, Send
from protocol.aggregation.equivocation import caught
from protocol.aggregation.masked import linear_check
from protocol.aggregation.masked.chunks import Chunks, MaskedVector, SomeChunks, is_signed
from protocol.aggregation.masked.disputes import check_inputs, inputs_digest, of_chunk, wrong_checks
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.totals import Totals, added_up, product_bytes
from protocol.aggregation.masked.view_change import NotYet, View
from protocol.aggregation.participant import Participant
from protocol.crypto.bulk_digest import bulk_digest
from protocol.errors import RemoteProtocolError
from protocol.vectors.shelf import Place, Shelf
from protocol.wire import signing
from protocol.wire.bulk import Bulk, Held
from protocol.wire.ids import Key
from protocol.wire.masked_messages import (
    Check,
    CheckVote,
    Dispute,
    Masked,
    MaskedHead,
    Proof,
    Total,
    TotalHead,
    TotalPiece,
)
from protocol.wire.member_sets import members_in
from protocol.wire.messages import Message

WRONG_TOTAL = "a total that is not the sum of what it names"


def _total(head: TotalHead, inputs: tuple[MaskedHead, ...], place: Place) -> Total:
    return Total(head, inputs, place())


class Reduction:
    """One member's part in each view in turn. `verified`: the totals are complete and checked."""

    def __init__(
        self, participant: Participant, layout: Layout, vector: MaskedVector, view: View, shelf: Shelf
    ) -> None:
        self._participant = participant
        self._layout = layout
        self._shelf = shelf
        self.chunks = Chunks(participant.me, layout, vector, shelf)
        self.caught: Key | None = None
        self._enter(view)
        self._begin(view)

    def _enter(self, view: View) -> None:
        self.view = view
        self.included = members_in(view.included, self._participant.members)
        """The members that this view's sum includes, in key order."""

    def _begin(self, view: View) -> None:
        self.totals = Totals(self._participant.sid, view.included, self._layout, None, self._shelf)
        self._heads: list[TotalHead | None] = [None] * self._layout.chunks
        self._shown: dict[int, TotalHead] = {}
        self._inputs: dict[int, tuple[MaskedHead, ...]] = {}
        self._products: list[linear_check.Products] = []
        self.disputed: set[int] = set()
        self._published: set[int] = set()
        self._cleared: set[int] = set()
        self.verified = False

    @property
    def _is_included(self) -> bool:
        return bool(self.view.included >> self._participant.number & 1)

    def reducer(self, index: int) -> Key | None:
        """The reducer of chunk `index`; None if every member adds it up."""
        reducers = self.view.reducers
        return self._participant.members[reducers[index]] if reducers else None

    def _adds_up(self, index: int) -> bool:
        return self.reducer(index) in (None, self._participant.me)

    def _to_all(self, messages: tuple[Message, ...] | Bulk[Message], bulk: bool) -> list[Action]:
        return [Send(key, messages, bulk) for key in self._participant.others]

    # -- views -------------------------------------------------------------------------------------

    def open(self) -> list[Action]:
        """Send this member's chunks to their reducers in view 0."""
        sends: list[Action] = [
            Send(key, self._own(self._chunks_of(key)), bulk=True) for key in self._participant.others
        ]
        return [*sends, *self._progress()]

    def enter(self, view: View, holds: Callable[[Key, Key, int], bool]) -> list[Action]:
        """Enter a view and send chunks to the members that lack them. `holds`: whether a member has a chunk.

        If the view proposes a lock again, locked members pass on what others lack: without reducers, the
        chunks of members that are silent now; with reducers, the totals (`_enter_proved`).
        """
        if view.proofs:
            return self._enter_proved(view, view.proofs[0])
        locked = self.verified and view.included == self.view.included and bool(view.locks)
        if not locked:
            self._begin(view)
        self._enter(view)
        owners: tuple[Key, ...] = (self._participant.me,) if self._is_included else ()
        if locked:
            owners = self.included
        sends: list[Action] = []
        for key in self._participant.others:
            lacks = [
                (o, i) for o in owners for i in self._chunks_of(key) if not holds(key, o, i) and o != key
            ]
            if lacks:
                sends.append(Send(key, self.chunks.of(lacks), bulk=True))
        return [*sends, *self._progress()]

    def _enter_proved(self, view: View, proof: Proof) -> list[Action]:
        """Enter a view with proved totals: keep those of their chunks that are here, and want the rest."""
        if view.included != self.view.included:
            self._begin(view)
        self._enter(view)
        return [*self.want(view.included, proof.digests, proof.checks), *self._progress()]

    def _own(self, indices: Iterable[int]) -> SomeChunks:
        return self.chunks.of((self._participant.me, index) for index in indices)

    def _chunks_of(self, reducer: Key) -> tuple[int, ...]:
        return tuple(c for c in range(self._layout.chunks) if self.reducer(c) in (None, reducer))

    # -- chunks ------------------------------------------------------------------------------------

    def take_chunk(self, masked: Masked) -> list[Action]:
        """Process a chunk of another member's vector.

        Raises NotYet if another member adds it up, RemoteProtocolError if it is invalid.
        """
        evidence = self.chunks.check(masked)
        if evidence is not None:
            return self._caught(evidence)
        if not self._adds_up(masked.head.index) and masked.head.index not in self.disputed:
            raise NotYet(f"chunk {masked.head.index} of a masked vector is another member's to add up")
        self.chunks.put(masked)
        return self._progress()

    def _progress(self) -> list[Action]:
        """Add up, judge and check whatever is possible by now."""
        actions: list[Action] = []
        for index in () if self.view.proofs else self.totals.missing:
            if self._adds_up(index) and self._is_whole(index):
                actions += self._add_up(index)
        for index in self._doubted:
            if self._is_whole(index):
                actions += self._find_liar(index)
        is_of_view = self.totals.included == self.view.included
        if not self.totals.missing and self.caught is None and is_of_view:
            actions += self._settle()
        return actions

    @property
    def _doubted(self) -> tuple[int, ...]:
        """The disputed chunks whose total is not cleared yet."""
        return tuple(sorted(self.disputed - self._cleared))

    def _is_whole(self, index: int) -> bool:
        return all(self.chunks.holds(key, index) for key in self.included)

    def lacking(self, index: int) -> tuple[Key, ...]:
        """The included members whose chunk `index` is missing."""
        return tuple(key for key in self.included if not self.chunks.holds(key, index))

    def _parts(self, index: int) -> list[Masked]:
        return list(self.chunks.of((key, index) for key in self.included))

    def _sum(self, parts: list[Masked], index: int) -> bytes:
        return added_up([part.payload for part in parts], self._layout, index)

    def _add_up(self, index: int) -> list[Action]:
        """Add up a chunk; its reducer, if it has one, sends the total to all."""
        parts = self._parts(index)
        payload = self._sum(parts, index)
        inputs = tuple(part.head for part in parts)
        digest = bulk_digest(payload)
        if self.totals.wanted is not None and self.totals.wanted[index] != digest:
            return []  # others acknowledged another total: this member fetches and checks that one
        self._inputs[index] = inputs
        self.totals.take(index, payload, digest)
        if not self.view.reducers:
            return []
        participant = self._participant
        head = TotalHead(
            participant.sid, participant.me, self.view.included, index, inputs_digest(inputs), digest
        )
        self._heads[index] = head = signing.sign(head, participant.key)
        return self._to_all(Held((partial(_total, head, inputs, self.totals.place(index)),)), bulk=True)

    # -- totals ------------------------------------------------------------------------------------

    def take_total(self, total: Total) -> list[Action]:
        """Process a chunk of the total from its reducer.

        Raises NotYet if it is for another view, RemoteProtocolError if it is invalid.
        """
        head = total.head
        if head.included != self.view.included or head.index >= self._layout.chunks:
            raise NotYet("a total of another view")
        if head.sender != self.reducer(head.index):
            raise NotYet("a total of a member that does not add it up")
        known = self._heads[head.index]
        if known == head:
            raise RemoteProtocolError("a total that is here already")
        signing.verify(head, head.sender)
        check_inputs(total, self._participant.sid, self.included)
        known = known or self._shown.get(head.index, head)
        if known != head:
            return self._caught(caught(known, head))
        if bulk_digest(total.payload) != head.digest:
            raise RemoteProtocolError("a total that is not what its head names")
        self.totals.take(head.index, total.payload, head.digest)
        self._heads[head.index], self._inputs[head.index] = head, total.inputs
        return self._progress()

    def take_piece(self, piece: TotalPiece) -> list[Action]:
        """Process a chunk of the totals that others voted for; RemoteProtocolError if nobody asked for it."""
        if self.totals.wanted is None or piece.index >= self._layout.chunks:
            raise RemoteProtocolError("a piece of a total that was not asked for")
        if piece.index not in self.totals.missing:
            return []  # its reducer sent it between request and answer
        digest = bulk_digest(piece.payload)
        self.totals.take(piece.index, piece.payload, digest)
        return self._progress()

    def want(self, included: int, digests: tuple[bytes, ...], checks: Iterable[CheckVote]) -> list[Action]:
        """Make these the wanted totals, with the known check votes on them."""
        if self.totals.included != included or self.totals.digests != digests:
            self.totals = self.totals.wanting(included, digests)
            self._products = []
            self._heads = [None] * self._layout.chunks
            self.disputed, self._cleared = set(), set()
            self.verified = False
        self.totals.forget_other_checks()
        return [action for vote in checks for action in self._note(vote)]

    # -- the check ---------------------------------------------------------------------------------

    def _settle(self) -> list[Action]:
        """The totals are complete: send this member's products, and compare all products."""
        if not self.view.reducers:
            self.verified = True
            return []
        said: list[Action] = []
        if not self._products:
            coefficients = self.totals.coefficients
            self._products = [self.totals.products(coefficients, c) for c in range(self._layout.chunks)]
            said = self._say(coefficients) if self._is_included and not self.view.proofs else []
        return [*said, *self._compare()]

    def _say(self, coefficients: linear_check.Coefficients) -> list[Action]:
        participant = self._participant
        chunks = range(self._layout.chunks)
        own = [coefficients.products(c, self.chunks.own.words(c)) for c in chunks]
        packed = np.array(own, dtype="<u4").tobytes()
        vote = CheckVote(participant.sid, participant.me, self.view.included, self.totals.digest, packed)
        vote = signing.sign(vote, participant.key)
        self.totals.checks[participant.me] = vote
        check = Check(vote, tuple(head for head in self._heads if head is not None))
        return self._to_all((check,), bulk=False)

    def take_check(self, check: Check) -> list[Action]:
        """Process another member's products and the heads of the totals that they are for.

        Raises NotYet if they are for another view, RemoteProtocolError if they are invalid.
        """
        signing.verify(check.vote, check.vote.sender)
        if check.vote.included != self.view.included:
            raise NotYet("a check of another view")
        for head in check.heads:
            evidence = self._compare_heads(head)
            if evidence is not None:
                return self._caught(evidence)
        return [*self._note(check.vote), *self._progress()]

    def _compare_heads(self, head: TotalHead) -> Evidence | None:
        """Evidence if a reducer signed two totals of a chunk. Keeps the first head that a check shows."""
        named = (self._participant.sid, self.view.included)
        if head.index >= self._layout.chunks or (head.sid, head.included) != named:
            return None
        known = self._heads[head.index] or self._shown.get(head.index)
        if head.sender != self.reducer(head.index) or known == head:
            return None
        signing.verify(head, head.sender)
        self._shown.setdefault(head.index, head)
        return None if known is None else caught(known, head)

    def _note(self, vote: CheckVote) -> list[Action]:
        known = self.totals.checks.get(vote.sender)
        if vote.included != self.totals.included or vote.sender not in self._participant.numbers:
            raise RemoteProtocolError("a check of other members' totals")
        if len(vote.products) != product_bytes(self._layout):
            raise RemoteProtocolError(f"a check of {len(vote.products)} bytes of products")
        if known is None:
            self.totals.checks[vote.sender] = vote
        elif known != vote and known.totals == vote.totals:
            return [caught(known, vote)]
        return []

    @property
    def unchecked(self) -> tuple[Key, ...]:
        """The included members whose products for these totals are missing."""
        if not self.view.reducers or self.totals.missing:
            return ()
        votes, digest = self.totals.checks, self.totals.digest
        return tuple(key for key in self.included if key not in votes or votes[key].totals != digest)

    def _compare(self) -> list[Action]:
        if self.unchecked or self.verified:
            return []
        coefficients = self.totals.coefficients
        votes = [self.totals.checks[key].products for key in self.included]
        bad = [
            c
            for c in range(self._layout.chunks)
            if c not in self._cleared
            and not coefficients.agree([of_chunk(products, c) for products in votes], self._products[c])
        ]
        if not bad:
            self.verified = True
            return []
        return [action for c in bad if c not in self.disputed for action in self._dispute(c)]

    # -- disputes ----------------------------------------------------------------------------------

    def _dispute(self, index: int) -> list[Action]:
        """A chunk's products do not match its total: ask all members to publish their part."""
        self.disputed.add(index)
        participant = self._participant
        unsigned = Dispute(participant.sid, participant.me, self.view.included, index)
        dispute = signing.sign(unsigned, participant.key)
        return [*self._to_all((dispute,), bulk=False), *self._publish(index), *self._progress()]

    def take_dispute(self, dispute: Dispute) -> list[Action]:
        """Process a dispute: publish this member's part of the chunk. Raises NotYet for another view."""
        signing.verify(dispute, dispute.sender)
        if dispute.included != self.view.included or dispute.index >= self._layout.chunks:
            raise NotYet("a dispute of another view")
        return self._publish(dispute.index)

    def _publish(self, index: int) -> list[Action]:
        if index in self._published or not self._is_included:
            return []
        self._published.add(index)
        return self._to_all(self._own((index,)), bulk=True)

    def _find_liar(self, index: int) -> list[Action]:
        """Find the liar: all parts of a disputed chunk are here."""
        parts = self._parts(index)
        if bulk_digest(self._sum(parts, index)) != self.totals.digest_of(index):
            return self._false_total(parts, index)
        self._cleared.add(index)
        return self._wrong_checks(parts, index)

    def _wrong_checks(self, parts: list[Masked], index: int) -> list[Action]:
        """Blame those whose products are wrong. Pass their votes on: others may have different ones."""
        found = wrong_checks(parts, index, self.totals.checks, self.totals.coefficients)
        shown = tuple(Check(self.totals.checks[one.sender], ()) for one in found)
        return [*found, *(self._to_all(shown, bulk=False) if shown else [])]

    def _false_total(self, parts: list[Masked], index: int) -> list[Action]:
        """Either a member sent the reducer another chunk than it published, or the reducer added up wrongly.

        If the total came from a member locked on it, no reducer's signature is here: either wrong products
        show who lied, or there is evidence against nobody.
        """
        for named, part in zip(self._inputs.get(index, ()), parts, strict=False):
            if named != part.head and is_signed(named):
                return self._caught(caught(named, part.head))
        head = self._heads[index]
        if head is not None:
            return self._caught(Evidence(head.sender, WRONG_TOTAL, (head,)))
        self._cleared.add(index)
        self.caught = next((lock.sender for lock in self.view.locks), None)
        return self._wrong_checks(parts, index)

    def inputs(self) -> tuple[MaskedHead, ...]:
        """The heads of the chunks that this member added up; empty if chunks have reducers."""
        return self._inputs.get(0, ()) if not self.view.reducers else ()

    def compare_inputs(self, heads: tuple[MaskedHead, ...]) -> list[Action]:
        """Compare the heads that another member added up: each sender's must be the same here."""
        if heads == self._inputs.get(0):
            return []
        evidence = self.chunks.contradicted(heads)
        return [] if evidence is None else self._caught(evidence)

    def _caught(self, evidence: Evidence) -> list[Action]:
        """Record a lie that ends this session."""
        self.caught = evidence.sender
        return [evidence]

    @property
    def vectors_lacking(self) -> tuple[Key, ...]:
        """The members whose chunks this member should add up in this view, and has not got."""
        if self.view.proofs:
            return ()
        mine = (index for index in self.totals.missing if self._adds_up(index))
        return tuple(sorted({key for index in mine for key in self.lacking(index)}))

    @property
    def totals_lacking(self) -> tuple[tuple[int, Key], ...]:
        """(index, reducer) of each missing total that another member should have sent in this view."""
        if self.view.proofs:
            return ()
        due = ((index, self.reducer(index)) for index in self.totals.missing)
        return tuple((index, key) for index, key in due if key is not None and key != self._participant.me)

    def waiting_for(self) -> tuple[Key, ...]:
        """The members whose part in this view is missing."""
        if self.verified:
            return ()
        missing = self.totals.missing
        if missing and self.view.locks:
            return tuple(lock.sender for lock in self.view.locks)
        late = {key for index in missing if self._adds_up(index) for key in self.lacking(index)}
        late |= {
            key
            for index in missing
            if (key := self.reducer(index)) not in (None, self._participant.me) and key
        }
        doubted = {key for index in self._doubted for key in self.lacking(index)}
        return tuple(sorted(late)) or self.unchecked or tuple(sorted(doubted))
