"""Which base a node fetches, from whom, and to whom it serves its own."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from protocol.actions import Adopted, Serve
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.membership import Members
from protocol.swarm.meeting.patience import TRUSTING_ROUNDS
from protocol.swarm.node_state import NodeState
from protocol.swarm.recovery.backoff import RETRY_S
from protocol.swarm.recovery.catch_up import REMEMBERED_SESSIONS, CatchUp
from protocol.swarm.recovery.fetch import PATIENCE_S, Past
from protocol.vectors.pieces import raw
from protocol.wire import signing
from protocol.wire.ids import LINEAGE
from protocol.wire.masked_messages import ResultCertificate
from protocol.wire.messages import (
    Announce,
    Base,
    BasePiece,
    Certificate,
    CertificateRequest,
    LineagePiece,
    Link,
    PieceRequest,
)
from tests.lines import chain, link, made
from tests.parts import (
    COUNTER,
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
    state,
    stranger,
    vector,
)

KEYS = members(4)
ONE, TWO, THREE, _ = (key.public for key in KEYS)
HELD = vector(1)
BETTER = base_of(HELD, 1, sid=b"S" * 32)
PAST = Past(group(KEYS[:3]), base(), {})


def catch_up(**places) -> CatchUp:
    """Makes a healer of member one; `places`: the bases that `two`, `three`, `four` show."""
    known = Members(state())
    for name, key in zip(("two", "three", "four"), KEYS[1:], strict=True):
        if name in places:
            known.learn(announce(key, base=places[name]), NOW, live=True)
    return healing(known)


def healing(known: Members, **changes) -> CatchUp:
    own, here = settings(KEYS[0], **changes), known._state
    return CatchUp(own, here, known, patience(own, here, known))


def requests(actions) -> list:
    return [(action.to, message) for action in actions for message in action.messages]


def whole(held: CatchUp) -> list:
    held.receive(no_line(BETTER), NOW + 1)
    return held.receive(BasePiece(BETTER.digest, 0, bytes(raw(HELD, slice(0, 5)))), NOW + 1)


def test_nothing_is_fetched_while_nobody_shows_a_better_base():
    held = catch_up(two=base(), three=base(0, 9))

    assert held.look(NOW) == []
    assert (held.busy, held.deadline) == (False, None)

    known = Members(state(1, BETTER, previous=base()))
    for key, held_there in ((KEYS[1], BETTER), (KEYS[2], base(5))):
        known.learn(announce(key, base=held_there), NOW, live=True)
    there = healing(known)
    there.remember(BETTER.sid, PAST)
    assert there.look(NOW) == [], "nor what is here, while one shows what nobody else has"


def test_a_base_of_a_session_one_was_in_is_fetched_by_its_certificate():
    held = catch_up(two=BETTER, three=base())
    held.remember(BETTER.sid, PAST)
    ((to, request),) = requests(held.look(NOW))

    assert (to, type(request), request.sid) == (TWO, CertificateRequest, BETTER.sid)
    assert (held.busy, held.deadline) == (True, NOW + PATIENCE_S)


@pytest.mark.parametrize(("count", "kind"), [(3, Certificate), (4, ResultCertificate)])
def test_what_a_session_made_decides_which_certificate_is_taken(count, kind):
    """Groups of three have no masked sums."""
    known = Members(state())
    known.learn(announce(KEYS[1], base=BETTER), NOW, live=True)
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
    held = catch_up(two=BETTER, three=base())
    held.remember(BETTER.sid, Past(group(KEYS[:3]), base(0, 8), {}))

    assert held.look(NOW) == []


def test_a_certificate_on_the_base_before_ones_own_is_used():
    known = Members(state(1, base(1, 255, size=2), previous=base()))
    known.learn(announce(KEYS[1], base=BETTER), NOW, live=True)
    held = healing(known)
    held.remember(BETTER.sid, PAST)

    assert isinstance(requests(held.look(NOW))[0][1], CertificateRequest)


def test_a_base_of_a_session_one_was_not_in_is_adopted_only_from_a_majority():
    assert catch_up(two=BETTER, three=base()).look(NOW) == []

    held = catch_up(two=BETTER, three=BETTER)
    ((to, request),) = requests(held.look(NOW))
    assert (to, type(request), request.of) == (TWO, PieceRequest, LINEAGE)
    adopted = only(whole(held), Adopted)
    assert (adopted.base, adopted.trusted, held.busy) == (BETTER, (TWO, THREE), False)


def test_a_majority_with_a_lower_base_changes_nothing():
    known = Members(state(1, BETTER))
    for key in KEYS[1:]:
        known.learn(announce(key, base=base()), NOW, live=True)

    assert healing(known).look(NOW) == []


def test_one_thing_is_fetched_at_a_time_and_a_source_that_is_gone_is_followed_by_another():
    held = catch_up(two=BETTER, three=BETTER)
    held.look(NOW)
    assert held.look(NOW) == []
    held.unreachable(THREE, NOW)
    assert held.busy
    held.unreachable(TWO, NOW)
    assert not held.busy

    ((to, _),) = requests(held.look(NOW))
    assert to == THREE


def test_a_silent_source_is_followed_by_another_and_asked_again_later():
    held = catch_up(two=BETTER, three=BETTER)
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
    held = catch_up(two=BETTER, three=BETTER)
    held.look(NOW)
    held.tick(NOW + PATIENCE_S - 0.1)
    assert held.busy
    held.tick(NOW + PATIENCE_S)

    assert (held.busy, held.deadline) == (False, NOW + PATIENCE_S + RETRY_S)
    held.tick(NOW + PATIENCE_S + RETRY_S)
    assert held.deadline is None


def test_a_source_of_a_certificate_that_failed_is_not_asked_at_once_again():
    held = catch_up(two=BETTER, three=base())
    held.remember(BETTER.sid, PAST)
    held.look(NOW)
    held.unreachable(TWO, NOW)

    assert held.look(NOW + 1) == []
    held.tick(NOW + 3)
    assert held.look(NOW + 3)


def test_a_suspect_is_no_source():
    held = catch_up(two=BETTER, three=BETTER)
    held._members.suspect(TWO)

    assert requests(held.look(NOW))[0][0] == THREE


def test_what_was_not_asked_for_is_refused():
    with pytest.raises(RemoteProtocolError, match="was not asked for"):
        whole(catch_up())


def test_a_fetch_is_abandoned_when_a_session_starts_and_taken_up_later():
    held = catch_up(two=BETTER, three=BETTER)
    held.abandon(NOW)
    held.look(NOW)
    held.abandon(NOW)

    assert not held.busy
    assert held.look(NOW)


def test_sessions_are_remembered_up_to_a_number():
    held = catch_up()
    for number in range(REMEMBERED_SESSIONS + 2):
        held.remember(bytes([number]) * 32, PAST)

    assert [sid[0] for sid in held.past] == list(range(2, REMEMBERED_SESSIONS + 2))


# -- lines ---------------------------------------------------------------------------------------------

MORE = members(8)
NAMES = of_names(endpoint(key) for key in MORE[:3])


class Shown:
    """Member one of eight: some show it the last base of a chain, all others the first one."""

    def __init__(self, wanted: Base, links: Sequence[Link], *by: NodeKey, failed: int = 0, **changes) -> None:
        self.wanted = wanted
        self.links = tuple(links)
        where = changes.pop("where", None) or state()
        known = Members(where)
        for key in MORE[1:]:
            known.learn(announce(key, base=wanted if key in by else base()), NOW, live=True)
        own = settings(MORE[0], **{"electorate": NAMES, **changes})
        waited = patience(own, where, known)
        for _ in range(failed):
            waited.failed(NOW)
        self.catch_up = CatchUp(own, where, known, waited)

    def judged(self) -> bool:
        """Returns whether the node requests the vector once the line has arrived."""
        actions = self.catch_up.look(NOW)
        for index, each in enumerate(self.links):
            ((_, request),) = requests(actions)
            assert (request.sid, request.of, request.index) == (self.wanted.digest, LINEAGE, index)
            piece = LineagePiece(self.wanted.digest, index, len(self.links), (each,))
            actions = self.catch_up.receive(piece, NOW)
        if not self.links:
            actions = self.catch_up.receive(no_line(self.wanted), NOW)
        assert self.catch_up.busy == bool(actions)
        return bool(actions)

    def adopted(self) -> Adopted:
        return only(self.catch_up.receive(BasePiece(self.wanted.digest, 0, HELD.tobytes()), NOW), Adopted)


def strong(*groups: Sequence[NodeKey]) -> tuple[Base, list[Link]]:
    """Makes a base at the end of a line, with the vector HELD."""
    links, bases = chain(groups)
    return digested(bases[-1]), links


def digested(last: Base) -> Base:
    return replace(last, digest=base_of(HELD, last.generation).digest)


def test_a_base_whose_line_is_proved_is_taken_from_more_than_half_of_those_it_holds():
    """For any number of others: three of eight, two of whom show it."""
    wanted, links = strong(MORE[1:4])
    shown = Shown(wanted, links, MORE[1], MORE[2])
    assert shown.judged()

    found = shown.adopted()
    assert (found.base, found.trusted) == (wanted, ())
    assert found.line == Line(1, of_keys(key.public for key in MORE[1:4]), tuple(links))


def test_before_two_rounds_failed_one_that_shows_a_proved_base_is_not_enough():
    wanted, links = strong(MORE[1:4])

    assert Shown(wanted, links, MORE[1], failed=1).catch_up.look(NOW) == []
    assert Shown(replace(wanted, members=1), links, MORE[1]).judged() is False, "whatever it says of its size"


def test_after_two_failed_rounds_one_that_shows_a_proved_base_is_enough():
    wanted, links = strong(MORE[1:4])
    shown = Shown(wanted, links, MORE[1], failed=TRUSTING_ROUNDS)

    assert shown.judged()
    assert shown.adopted().trusted == (MORE[1].public,)


def test_a_line_that_leads_from_nobody_known_is_taken_on_the_word_of_a_majority_alone():
    wanted, links = strong(MORE[4:7])
    assert not Shown(wanted, links, *MORE[4:7], failed=TRUSTING_ROUNDS).judged()
    shown = Shown(wanted, links, *MORE[3:])

    assert shown.judged()
    assert shown.adopted().trusted == tuple(key.public for key in MORE[3:])


def test_a_longer_line_is_followed_over_electors_that_changed():
    wanted, links = strong(MORE[1:4], MORE[2:6], MORE[3:7])
    shown = Shown(wanted, links, *MORE[3:7])
    assert shown.judged()

    assert shown.adopted().line == Line(3, of_keys(key.public for key in MORE[3:7]), tuple(links))
    assert not Shown(wanted, links[1:], *MORE[3:6]).judged(), "its beginning is what this node could check"


def test_who_stood_in_the_line_follows_it_from_there():
    links, bases = chain([MORE[1:4], MORE[2:6], MORE[3:7]])
    line = Line(1, of_keys(key.public for key in MORE[1:4]), (links[0],))
    where = state(1, bases[1], line=line)

    assert Shown(digested(bases[3]), links[1:], *MORE[3:7], where=where).judged()
    assert not Shown(digested(bases[3]), links[2:], *MORE[3:6], where=where).judged()


def weak_after(links: Sequence[Link], last: Base) -> tuple[Base, Link]:
    """Adds a base by three that are no quorum to the last base of a line."""
    hanging = link(MORE[4:7], last)
    return digested(made(hanging, strong=False)), hanging


def test_a_weak_base_is_taken_with_the_line_of_its_anchor():
    links, bases = chain([MORE[1:5]])
    wanted, hanging = weak_after(links, bases[-1])
    shown = Shown(wanted, [*links, hanging], *MORE[4:6])
    assert shown.judged()

    assert shown.adopted().line == Line(1, of_keys(key.public for key in MORE[1:5]), tuple(links), hanging)


def test_a_weak_base_on_the_first_one_has_no_other_link():
    wanted, hanging = weak_after([], base())
    shown = Shown(wanted, [hanging], *MORE[4:6])
    assert shown.judged()

    assert shown.adopted().line == Line(0, None, (), hanging)


def test_a_weak_base_on_ones_own_anchor_is_proved_by_the_anchor():
    """Nobody need know who the electors were before: a tracker named them."""
    links, bases = chain([MORE[1:5]])
    wanted, hanging = weak_after(links, bases[-1])
    where = state(1, bases[-1], line=Line(1, of_keys(key.public for key in MORE[1:5]), tuple(links)))
    other = chain([MORE[1:4]])[0]
    own = {"where": where, "electorate": None}

    assert Shown(wanted, [*links, hanging], *MORE[4:6], **own).judged()
    assert not Shown(wanted, [*other, hanging], *MORE[4:6], **own).judged()


def test_a_weak_base_on_the_first_anchor_is_proved_to_who_stands_on_that_alone():
    _, bases = chain([MORE[1:5]])
    line = Line(0, None, (), None)
    wanted, hanging = weak_after([], base())
    above = replace(base(), generation=0)

    assert Shown(wanted, [hanging], *MORE[4:6], where=state(0, above, line=line)).judged()
    assert bases[-1].rank > wanted.rank
    assert Shown(wanted, [hanging], *MORE[4:6], where=state(1, bases[-1])).catch_up.look(NOW) == []


def lies() -> dict[str, tuple[Base, list[Link]]]:
    """Makes bases that one liar shows, with lines of links that honest members signed."""
    links, bases = chain([MORE[1:5]])
    weak, hanging = weak_after(links, bases[-1])
    true = digested(bases[-1])
    two, two_bases = chain([MORE[1:5], MORE[2:5]])
    return {
        "another session": (replace(true, sid=b"x" * 32), links),
        "another generation": (replace(true, generation=2, anchor=2), links),
        "fewer members": (replace(true, members=3), links),
        "a higher anchor of a weak base": (replace(weak, anchor=90), [*links, hanging]),
        "a weak base without its anchor": (weak, [hanging]),
        "an anchor without a line": (replace(weak, anchor=90), []),
        "links in the wrong order": (digested(two_bases[-1]), two[::-1]),
        "a link twice": (digested(two_bases[-1]), [*two, two[-1], two[0]]),
    }


def test_an_upgraded_node_takes_a_base_without_links_on_the_word_of_the_majority_alone():
    """The upgrade deleted the links, its own and the others'."""
    wanted = digested(base(4, anchor=4))

    def upgraded(*by: NodeKey, **changes) -> Shown:
        return Shown(wanted, [], *by, where=state(held=base(3, anchor=3)), **changes)

    few = upgraded(*MORE[1:4], failed=TRUSTING_ROUNDS)
    assert not few.judged()
    many = upgraded(*MORE[1:6])
    assert many.judged()
    taken = many.adopted()
    assert (taken.trusted, taken.line) == (tuple(key.public for key in MORE[1:6]), Line(4))


@pytest.mark.parametrize("lie", lies())
def test_a_base_that_its_line_does_not_lead_to_is_not_taken(lie):
    """Neither if one trusted member shows it, nor if many do."""
    wanted, links = lies()[lie]

    assert not Shown(wanted, links, MORE[1], failed=TRUSTING_ROUNDS).judged()
    assert not Shown(wanted, links, *MORE[1:7]).judged()


def test_a_weak_base_that_is_shown_as_a_strong_one_is_not_proved():
    links, bases = chain([MORE[1:5]])
    weak, hanging = weak_after(links, bases[-1])
    first, hanging_on_first = weak_after([], base())
    for wanted, shown in (
        (replace(weak, anchor=2), [*links, hanging]),
        (replace(first, anchor=1), [hanging_on_first]),
        (replace(first, anchor=1), [*links, hanging_on_first]),
    ):
        assert not Shown(wanted, shown, MORE[1], failed=TRUSTING_ROUNDS).judged()


@pytest.mark.parametrize("is_ever_new", [False, True])
def test_who_shows_what_it_does_not_give_is_asked_ever_more_rarely(is_ever_new):
    """Otherwise a liar with a base above all others would be asked all the time, and nobody else."""
    above = Base(1, bytes(32), 1, b"x" * 32, anchor=10**6)
    wanted, links = strong(MORE[1:4])
    shown = Shown(wanted, links, *MORE[1:4])
    now, asked = NOW, []
    for number in range(12):
        news = replace(above, digest=bytes([number]) * 32) if is_ever_new else above
        liar = announce(MORE[7], base=news, counter=COUNTER + 1 + number)
        shown.catch_up._members.learn(liar, now, live=True)
        actions = shown.catch_up.look(now)
        ((to, _),) = requests(actions) or [(None, None)]
        asked.append(to)
        now += PATIENCE_S
        shown.catch_up.tick(now)

    assert asked.count(MORE[7].public) <= 5
    assert asked.count(MORE[1].public) >= 2


def test_who_failed_often_is_believed_again_once_it_gives_what_it_shows():
    wanted, links = strong(MORE[1:4])
    shown = Shown(wanted, links, MORE[1], failed=TRUSTING_ROUNDS)
    now = NOW
    for wait_s in (RETRY_S, 2 * RETRY_S, 4 * RETRY_S):
        assert shown.catch_up.look(now)
        shown.catch_up.unreachable(MORE[1].public, now)
        assert shown.catch_up.look(now + wait_s - 0.1) == []
        now += wait_s
    assert shown.catch_up.look(now)
    for index, each in enumerate(links):
        shown.catch_up.receive(LineagePiece(wanted.digest, index, len(links), (each,)), now)
    assert shown.adopted()
    shown.catch_up.unreachable(MORE[1].public, now)
    shown.catch_up._sources.failed(MORE[1].public, now)
    assert not shown.catch_up._sources.waits(MORE[1].public, now), "as if for the first time"


def test_until_two_rounds_failed_fewer_than_half_of_those_it_holds_are_not_enough():
    """Two of four, which is why it was fetched at all: one of them has left since."""
    wanted, links = strong(MORE[1:5])
    shown = Shown(wanted, links, *MORE[1:4])
    for key in MORE[2:4]:
        (request,) = [message for _, message in requests(shown.catch_up.look(NOW))] or [None]
        back = announce(key, base=base(), counter=COUNTER + 1)
        shown.catch_up._members.learn(back, NOW, live=True)
        assert request is None or request.of == LINEAGE

    assert shown.catch_up.receive(LineagePiece(wanted.digest, 0, 1, tuple(links)), NOW) == []
    assert not shown.catch_up.busy


# -- what was opened late ------------------------------------------------------------------------------


def opening(where: NodeState) -> tuple[CatchUp, ResultCertificate]:
    """Makes a healer of a session's member, and its certificate; nothing else is being fetched."""
    held = healing(Members(where), masked=MaskedSettings(4.0, None))
    held.remember(BETTER.sid, Past(group(KEYS), base(), {}))
    return held, ResultCertificate(BETTER.sid, 0, (), (), (), ())


def test_without_a_source_that_did_not_just_fail_no_total_is_fetched():
    held, certificate = opening(state())
    assert held.finish(certificate, (), NOW) == []
    held._tries.failed((base().digest, TWO, True), NOW)

    assert held.finish(certificate, (TWO,), NOW) == []
    assert held.deadline == NOW + RETRY_S


def test_totals_on_another_base_are_not_fetched():
    held, certificate = opening(state(2, base(2), previous=base(1)))

    assert held.finish(certificate, (TWO,), NOW) == []
    assert held.finish(replace(certificate, sid=bytes(32)), (TWO,), NOW) == []


# -- serving -------------------------------------------------------------------------------------------


def serving() -> CatchUp:
    held = catch_up(two=base(), three=base(), four=base())
    held.remember(BETTER.sid, PAST)
    return held


def serve(request, accepts: bool = True) -> Serve | Announce:
    return serving().serve(request, request.sender, lambda _: accepts)


def certificate_request(key, number: int = 1) -> CertificateRequest:
    return signing.sign(CertificateRequest(BETTER.sid, key.public, ONE, 1, number), key)


def piece_request(key, of: bytes = ONE, sid: bytes = BETTER.sid, number: int = 1) -> PieceRequest:
    return signing.sign(PieceRequest(sid, of, 0, key.public, ONE, 1, number), key)


@pytest.mark.parametrize("make", [certificate_request, piece_request])
def test_a_request_is_answered_once(make):
    """A request of 144 bytes, repeated 5,000 times, was once answered 5,000 times."""
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
    for_another = signing.sign(replace(request, to=KEYS[3].public), KEYS[1])
    for asked, by in ((request, None), (request, KEYS[2].public), (for_another, KEYS[1].public)):
        with pytest.raises(RemoteProtocolError, match="on the link of another, or meant for another"):
            serving().serve(asked, by, lambda _: True)


@pytest.mark.parametrize("make", [certificate_request, piece_request])
def test_members_of_a_session_are_served_its_certificate_and_sums(make):
    request = make(KEYS[1])

    assert serve(request) == Serve(endpoint(KEYS[1]), request)


@pytest.mark.parametrize("make", [certificate_request, piece_request])
def test_nobody_else_is(make):
    for request in (make(KEYS[3]), piece_request(KEYS[1], sid=bytes(32))):
        with pytest.raises(RemoteProtocolError, match="its sender was not in"):
            serve(request)
    with pytest.raises(RemoteProtocolError, match="not in this swarm"):
        serve(make(stranger()))
    with pytest.raises(RemoteProtocolError, match="not in this swarm"):
        serve(make(KEYS[1]), accepts=False)


@pytest.mark.parametrize("of", [b"", LINEAGE])
def test_any_member_of_the_swarm_is_served_the_base_that_is_here_and_the_one_before(of):
    held = serving()
    held._state.previous = base(0, 9)
    for number, there in enumerate((held._state.base, held._state.previous)):
        request = piece_request(KEYS[3], of=of, sid=there.digest, number=number)
        assert held.serve(request, request.sender, lambda _: True) == Serve(endpoint(KEYS[3]), request)
    other = piece_request(KEYS[3], of=of, sid=BETTER.digest, number=2)
    answer = held.serve(other, other.sender, lambda _: True)
    assert (type(answer), answer.key) == (Announce, KEYS[3].public)


@pytest.mark.parametrize(
    ("later", "asked"), [(base(2, 9), []), (base(3, 9), [THREE]), (base(1, 0), [THREE]), (base(0, 9), [])]
)
def test_who_is_beyond_the_base_that_it_was_asked_for_is_asked_no_more(later, asked):
    held = catch_up(two=BETTER, three=BETTER, four=BETTER)
    assert [to for to, _ in requests(held.look(NOW))] == [TWO]
    for key in (KEYS[2], KEYS[1]):
        held.shows(announce(key, base=later), NOW)
    held._members.learn(announce(KEYS[1], base=later, counter=COUNTER + 1), NOW, live=True)
    assert [to for to, _ in requests(held.look(NOW))] == asked


@pytest.mark.parametrize("request_", [certificate_request(KEYS[1]), piece_request(KEYS[1])])
def test_a_request_in_somebody_elses_name_is_refused(request_):
    forged = type(request_)(
        *[getattr(request_, name) for name in request_.__slots__[:-1]], signature=bytes(64)
    )
    with pytest.raises(RemoteProtocolError, match="signature"):
        serve(forged)


def test_only_what_its_source_sends_gives_a_fetch_more_time():
    held = catch_up(two=BETTER, three=base())
    held.arriving(TWO, NOW)
    held.remember(BETTER.sid, PAST)
    held.look(NOW)
    held.arriving(THREE, NOW + 1)
    assert held.deadline == NOW + PATIENCE_S
    held.arriving(TWO, NOW + 1)
    assert held.deadline == NOW + 1 + PATIENCE_S
