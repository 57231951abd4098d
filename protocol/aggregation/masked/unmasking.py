"""From the total of masked vectors to the result, and the certificate that proves it.

    X = T - sum over i in U of G(b_i) - sum over i in U, k not in U of +-G(K_ik)   mod 2^w

with words of w bits (Bonawitz et al. 2017, section 4). The last 32 bits of X count U: each of their words is
|U| unless some member's masks were not those of the protocol. A certificate holds the reconstructed secrets
and at least t signed releases for these totals: an honest member releases only totals that t acknowledged,
and acknowledges only totals that it checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from protocol.aggregation.encoding import Encoding
from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.key_setup import joins_digest
from protocol.aggregation.masked.step_keys import is_dealt_in
from protocol.aggregation.masked.thresholds import Scheme
from protocol.crypto import shamir
from protocol.crypto.prg import Stream
from protocol.errors import RemoteProtocolError
from protocol.vectors.pieces import Vector, Words
from protocol.wire import signing
from protocol.wire.ids import Key, Sid
from protocol.wire.masked_messages import Dealt, ResultCertificate
from protocol.wire.member_sets import everybody
from protocol.wire.messages import Group

_PART_WORDS = 1 << 17
"""The size of a part: all its masks are removed before the next one, so that it stays in a core's cache."""


def totals_digest(sid: Sid, included: int, digests: Sequence[bytes]) -> bytes:
    """SHA-256 of the included set and every chunk's digest, as votes name the totals."""
    whole = hashlib.sha256(b"murmuration/1/totals" + sid + included.to_bytes(8, "little"))
    for digest in digests:
        whole.update(digest)
    return whole.digest()


def secret_fits(secret: bytes, dealt: Dealt, included: bool) -> bool:
    """Whether a reconstructed secret is the one that its dealer committed to."""
    value, head = shamir.from_bytes(secret), dealt.head
    if included:
        return mask_keys.commitment(value, head.sid, head.sender) == dealt.deal.commitment
    return mask_keys.public_key(value) == dealt.deal.mask_key


def check_result(certificate: ResultCertificate, group: Group, scheme: Scheme) -> None:
    """Raises RemoteProtocolError unless the certificate proves a total of this group's step."""
    included, run = certificate.included, signing.session_id(group.run)
    members = tuple(sorted(ready.key for ready in group.readys))
    if included > everybody(len(members)) or included.bit_count() < scheme.tolerance.least_included:
        raise RemoteProtocolError("a certificate over too few members, or strangers")
    if certificate.sid != signing.session_id(group):
        raise RemoteProtocolError("a certificate of another session")
    dealers = tuple(dealt.head.sender for dealt in certificate.dealt)
    if dealers != members or len(certificate.secrets) != len(members):
        raise RemoteProtocolError("a certificate of another group")
    if len(certificate.digests) != scheme.layout.chunks:
        raise RemoteProtocolError("a certificate over vectors of another length")
    _check_releases(certificate, members, scheme.tolerance.threshold)
    for number, (dealt, secret) in enumerate(zip(certificate.dealt, certificate.secrets, strict=True)):
        if dealt.head.sid != run or not is_dealt_in(group.step, dealt):
            raise RemoteProtocolError("a certificate with a deal of another run or step")
        if not secret_fits(secret, dealt, bool(included >> number & 1)):
            raise RemoteProtocolError("a certificate with a secret that was not committed to")


def _check_releases(certificate: ResultCertificate, members: tuple[Key, ...], threshold: int) -> None:
    sid, included = certificate.sid, certificate.included
    named = (
        sid,
        included,
        totals_digest(sid, included, certificate.digests),
        joins_digest(tuple(dealt.head for dealt in certificate.dealt)),
    )
    senders = {head.sender for head in certificate.releases}
    if len(senders) < max(threshold, len(certificate.releases)) or not senders <= set(members):
        raise RemoteProtocolError("a certificate with too few releases")
    for head in certificate.releases:
        if (head.sid, head.included, head.totals, head.joins) != named:
            raise RemoteProtocolError("a certificate with a release for something else")
        signing.verify(head, head.sender)


def release_digest(shares: Iterable[bytes]) -> bytes:
    """The digest of its shares that a release's head names."""
    return hashlib.sha256(b"murmuration/1/released" + b"".join(shares)).digest()


def _masks(certificate: ResultCertificate) -> tuple[list[Stream], list[Stream]]:
    """(masks still added to the total, masks still subtracted from it)."""
    plus: list[Stream] = []
    minus: list[Stream] = []
    numbered = tuple(enumerate(certificate.dealt))
    included = [each for each in numbered if certificate.included >> each[0] & 1]
    secrets = [shamir.from_bytes(secret) for secret in certificate.secrets]
    for number, dealt in numbered:
        run, sender = dealt.head.sid, dealt.head.sender
        if certificate.included >> number & 1:
            plus.append(Stream(mask_keys.self_seed(secrets[number], run, sender)))
            continue
        private = mask_keys.private_key(secrets[number])
        for other, partner in included:
            mask_key = partner.deal.mask_key
            seed = mask_keys.pair_seed(private, mask_key, run, sender, partner.head.sender)
            (plus if other < number else minus).append(Stream(seed))
    return plus, minus


def result_of(
    chunks: Iterable[Words], dimension: int, certificate: ResultCertificate, encoding: Encoding
) -> Vector | None:
    """What a total in chunks decodes to, (dimension,); None if its count, behind these words, is wrong.

    Part after part loses its masks and is decoded while it is in a core's cache: there is no memory but that
    of the result.
    """
    plus, minus = _masks(certificate)
    summands = certificate.included.bit_count()
    result, start = np.empty(dimension, dtype=encoding.result), 0
    for chunk in chunks:
        for first in range(0, len(chunk), _PART_WORDS):
            part = chunk[first : first + _PART_WORDS].copy()
            for mask in plus:
                mask.subtract_from(part, start)
            for mask in minus:
                mask.add_to(part, start)
            own = max(0, min(len(part), dimension - start))
            encoding.decode(part[:own], summands, result[start : start + own])
            if (part[own:] != summands).any():
                return None
            start += len(part)
    return result
