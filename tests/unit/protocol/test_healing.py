"""Which base is fetched, from whom, and for whom one's own is served."""

from dataclasses import replace

import pytest

from protocol import codec
from protocol.actions import Adopted, Serve
from protocol.errors import RemoteProtocolError
from protocol.healing import REMEMBERED_SESSIONS, RETRY_S, Healer
from protocol.masked_messages import ResultCertificate
from protocol.membership import Members
from protocol.messages import BasePiece, Certificate, CertificateRequest, PieceRequest
from protocol.names import LINEAGE
from protocol.recovery import PATIENCE_S, Past
from protocol.standing import Standing
from protocol.tolerance import MaskedSettings
from protocol.vectors import raw
from tests.parts import (
    NOW,
    announce,
    base,
    base_of,
    endpoint,
    group,
    members,
    no_line,
    only,
    patience,
    settings,
    standing,
    stranger,
    vector,
)

KEYS = members(4)
ONE, TWO, THREE, FOUR = (key.public for key in KEYS)
HELD = vector(1)
BETTER = base_of(HELD, 1, sid=b"S" * 32)
PAST = Past(group(KEYS[:3]), base(), {})


def healer(**places) -> Healer:
    """A healer of member one; `places`: which bases the others show, by `two`, `three`, `four`."""
    known = Members()
    for name, key in zip(("two", "three", "four"), KEYS[1:], strict=True):
        if name in places:
            known.learn(announce(key, base=places[name]), 0, NOW, live=True)
    return healing(known)


def healing(known: Members, where: Standing | None = None, **changes) -> Healer:
    own, here = settings(KEYS[0], **changes), where or standing()
    return Healer(own, here, known, patience(own, here, known))


def requests(actions) -> list:
    return [(action.to, message) for action in actions for message in action.messages]


def whole(held: Healer) -> list:
    held.receive(no_line(BETTER), NOW + 1)
    return held.receive(BasePiece(BETTER.digest, 0, bytes(raw(HELD, slice(0, 5)))), NOW + 1)


def test_nothing_is_fetched_while_nobody_shows_a_better_base():
    held = healer(two=base(), three=base(0, 9))

    assert held.look(NOW) == []
    assert (held.busy, held.deadline) == (False, None)


def test_a_base_of_a_session_one_was_in_is_fetched_by_its_certificate():
    held = healer(two=BETTER, three=base())
    held.remember(BETTER.sid, PAST)
    ((to, request),) = requests(held.look(NOW))

    assert (to, type(request), request.sid) == (TWO, CertificateRequest, BETTER.sid)
    assert (held.busy, held.deadline) == (True, NOW + PATIENCE_S)


@pytest.mark.parametrize(("count", "kind"), [(3, Certificate), (4, ResultCertificate)])
def test_what_a_session_made_decides_which_certificate_is_taken(count, kind):
    """Groups of three have no masked sums."""
    known = Members()
    known.learn(announce(KEYS[1], base=BETTER), 0, NOW, live=True)
    held = healing(known, masked=MaskedSettings(4.0, 1))
    held.remember(BETTER.sid, Past(group(KEYS[:count]), base(), {}))
    held.look(NOW)
    masked = ResultCertificate(BETTER.sid, 0, (), (), (), ())
    plain = Certificate(BETTER.sid, ())
    other = plain if kind is ResultCertificate else masked

    with pytest.raises(RemoteProtocolError, match=f"a {type(other).__name__} that was not asked for"):
        held.receive(other, NOW)
    with pytest.raises(RemoteProtocolError, match=r"a certificate (over too few|with other senders)"):
        held.receive(masked if kind is ResultCertificate else plain, NOW)


def test_a_certificate_on_another_base_than_ones_own_is_of_no_use():
    held = healer(two=BETTER, three=base())
    held.remember(BETTER.sid, Past(group(KEYS[:3]), base(0, 8), {}))

    assert held.look(NOW) == []


def test_a_certificate_on_the_base_before_ones_own_is_used():
    known = Members()
    known.learn(announce(KEYS[1], base=BETTER), 0, NOW, live=True)
    mine = base(1, 255, size=2)
    held = healing(known, standing(1, mine, previous=base()))
    held.remember(BETTER.sid, PAST)

    assert isinstance(requests(held.look(NOW))[0][1], CertificateRequest)


def test_a_base_of_a_session_one_was_not_in_is_adopted_only_from_a_majority():
    assert healer(two=BETTER, three=base()).look(NOW) == []

    held = healer(two=BETTER, three=BETTER)
    ((to, request),) = requests(held.look(NOW))
    assert (to, type(request), request.of) == (TWO, PieceRequest, LINEAGE)
    adopted = only(whole(held), Adopted)
    assert (adopted.base, adopted.trusted, held.busy) == (BETTER, (TWO, THREE), False)


def test_a_majority_with_a_lower_base_changes_nothing():
    known = Members()
    for key in KEYS[1:]:
        known.learn(announce(key, base=base()), 0, NOW, live=True)

    assert healing(known, standing(1, BETTER)).look(NOW) == []


def test_one_thing_is_fetched_at_a_time():
    held = healer(two=BETTER, three=BETTER)
    held.look(NOW)

    assert held.look(NOW) == []


def test_a_source_that_is_gone_is_followed_by_another():
    held = healer(two=BETTER, three=BETTER)
    held.look(NOW)
    held.unreachable(THREE, NOW)
    assert held.busy
    held.unreachable(TWO, NOW)
    assert not held.busy

    ((to, _),) = requests(held.look(NOW))
    assert to == THREE


def test_a_silent_source_is_followed_by_another_and_asked_again_later():
    held = healer(two=BETTER, three=BETTER)
    for now, asked in ((NOW, TWO), (NOW + 1, THREE)):
        ((to, _),) = requests(held.look(now))
        assert to == asked
        held.unreachable(to, now)
    assert held.look(NOW + 1) == []
    assert held.deadline == NOW + 1 + RETRY_S

    held.tick(NOW + 3)
    ((to, _),) = requests(held.look(NOW + 3))
    assert to == TWO


def test_a_source_without_an_answer_is_given_up():
    held = healer(two=BETTER, three=BETTER)
    held.look(NOW)
    held.tick(NOW + PATIENCE_S - 0.1)
    assert held.busy
    held.tick(NOW + PATIENCE_S)

    assert (held.busy, held.deadline) == (False, NOW + PATIENCE_S + RETRY_S)
    held.tick(NOW + PATIENCE_S + RETRY_S)
    assert held.deadline is None


def test_a_source_of_a_certificate_that_failed_is_not_asked_at_once_again():
    held = healer(two=BETTER, three=base())
    held.remember(BETTER.sid, PAST)
    held.look(NOW)
    held.unreachable(TWO, NOW)

    assert held.look(NOW + 1) == []
    held.tick(NOW + 3)
    assert held.look(NOW + 3)


def test_a_base_with_a_wrong_digest_ends_the_fetch():
    held = healer(two=BETTER, three=BETTER)
    held.look(NOW)
    held.receive(no_line(BETTER), NOW)

    assert held.receive(BasePiece(BETTER.digest, 0, bytes(20)), NOW) == []
    assert not held.busy


def test_a_suspect_is_no_source():
    held = healer(two=BETTER, three=BETTER)
    held._members.suspect(TWO)

    assert requests(held.look(NOW))[0][0] == THREE


def test_what_was_not_asked_for_is_refused():
    with pytest.raises(RemoteProtocolError, match="was not asked for"):
        whole(healer())


def test_a_fetch_is_abandoned_when_a_session_starts_and_taken_up_later():
    held = healer(two=BETTER, three=BETTER)
    held.abandon(NOW)
    held.look(NOW)
    held.abandon(NOW)

    assert not held.busy
    assert held.look(NOW)


def test_sessions_are_remembered_up_to_a_number():
    held = healer()
    for number in range(REMEMBERED_SESSIONS + 2):
        held.remember(bytes([number]) * 32, PAST)

    assert [sid[0] for sid in held.past] == list(range(2, REMEMBERED_SESSIONS + 2))


# -- serving -------------------------------------------------------------------------------------------


def serving() -> Healer:
    held = healer(two=base(), three=base(), four=base())
    held.remember(BETTER.sid, PAST)
    return held


def serve(request, accepts: bool = True) -> list:
    return serving().serve(request, request.sender, lambda _: accepts)


def certificate_request(key, number: int = 1) -> CertificateRequest:
    return codec.sign(CertificateRequest(BETTER.sid, key.public, ONE, 1, number), key)


def piece_request(key, of: bytes = ONE, sid: bytes = BETTER.sid, number: int = 1) -> PieceRequest:
    return codec.sign(PieceRequest(sid, of, 0, key.public, ONE, 1, number), key)


@pytest.mark.parametrize("make", [certificate_request, piece_request])
def test_a_request_is_answered_once(make):
    """One of 144 bytes, said 5,000 times, was once answered 5,000 times."""
    held, request = serving(), make(KEYS[1], number=7)
    assert held.serve(request, KEYS[1].public, lambda _: True)
    with pytest.raises(RemoteProtocolError, match="came already"):
        held.serve(request, KEYS[1].public, lambda _: True)
    assert held.serve(make(KEYS[1], number=8), KEYS[1].public, lambda _: True)
    assert held.serve(make(KEYS[2], number=1), KEYS[2].public, lambda _: True)
    held._members.forget(KEYS[1].public)
    held.tick(NOW)
    assert set(held._answered) == {KEYS[2].public}


def test_a_request_names_whom_it_asks_and_comes_on_a_link_of_its_sender():
    request = certificate_request(KEYS[1])
    for_another = codec.sign(replace(request, to=KEYS[3].public), KEYS[1])
    for asked, by in ((request, None), (request, KEYS[2].public), (for_another, KEYS[1].public)):
        with pytest.raises(RemoteProtocolError, match="on the link of another, or meant for another"):
            serving().serve(asked, by, lambda _: True)


@pytest.mark.parametrize("make", [certificate_request, piece_request])
def test_members_of_a_session_are_served_its_certificate_and_sums(make):
    request = make(KEYS[1])

    assert serve(request) == [Serve(endpoint(KEYS[1]), request)]


@pytest.mark.parametrize("make", [certificate_request, piece_request])
def test_nobody_else_is(make):
    with pytest.raises(RemoteProtocolError, match="its sender was not in"):
        serve(make(KEYS[3]))
    with pytest.raises(RemoteProtocolError, match="not in this swarm"):
        serve(make(stranger()))
    with pytest.raises(RemoteProtocolError, match="not in this swarm"):
        serve(make(KEYS[1]), accepts=False)


def test_any_member_of_the_swarm_is_served_a_base():
    request = piece_request(KEYS[3], of=b"", sid=BETTER.digest)

    assert serve(request) == [Serve(endpoint(KEYS[3]), request)]


def test_a_session_that_is_not_remembered_is_not_served():
    with pytest.raises(RemoteProtocolError, match="its sender was not in"):
        serve(piece_request(KEYS[1], sid=bytes(32)))


@pytest.mark.parametrize("request_", [certificate_request(KEYS[1]), piece_request(KEYS[1])])
def test_a_request_in_somebody_elses_name_is_refused(request_):
    forged = type(request_)(
        *[getattr(request_, name) for name in request_.__slots__[:-1]], signature=bytes(64)
    )
    with pytest.raises(RemoteProtocolError, match="signature"):
        serve(forged)
