"""The end of a node: rounds without an offer when its budget is spent; for which peers it lingers."""

from dataclasses import replace
from math import inf

import pytest

from protocol.actions import Closed, Completed, Failed, Healed, Note, Notice, Reason, Serve
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.quorum.electorate import of_names
from protocol.quorum.lineage import Line
from protocol.swarm.last_rounds import AWAY_S, LINGER_S, Closing
from protocol.swarm.meeting.discovery import NOBODY_LISTENS, Discovery
from protocol.swarm.node import Node
from protocol.swarm.phases import Event
from protocol.swarm.recovery.backoff import RETRY_S
from protocol.swarm.recovery.fetch import PATIENCE_S
from protocol.wire import signing
from protocol.wire.endpoints import of_key
from protocol.wire.messages import (
    Accepted,
    Announce,
    BasePiece,
    Certificate,
    Group,
    Hello,
    PieceRequest,
    Ready,
)
from tests.lines import link
from tests.parts import (
    COUNTER,
    NOW,
    announce,
    base,
    base_of,
    endpoint,
    group_of,
    heard,
    kinds,
    members,
    no_line,
    only,
    outbox,
    rand,
    ready,
    settings,
    state,
    vector,
)
from tests.wires import INITIAL, Wires, hello, node

KEYS = members(6)
ONE, TWO, THREE, FOUR, FIVE, SIX = KEYS
T_GROUP = 120.0
HELD = vector(7)
BETTER = base_of(HELD, 1)
FIRST = Failed(Reason.BUDGET_SPENT, 1, (), None)
ALL_SPENT = Failed(Reason.ALL_SPENT, 1, (), None)


def hearing(*discovery: Hello) -> Node:
    """Makes member one, which has heard these."""
    one = node(ONE, seeds=())
    one.open(NOW)
    for said in discovery:
        heard(one, said, NOW)
    return one


def adopt(one: Node, **changes) -> list:
    """Lets two, three and four show a better base; member one fetches and stores it."""
    for key in (TWO, THREE, FOUR):
        heard(one, hello(key, base=BETTER, counter=COUNTER + 1, **changes), NOW)
    heard(one, no_line(BETTER), NOW)
    assert "Adopted" in kinds(heard(one, BasePiece(BETTER.digest, 0, HELD.tobytes()), NOW))
    return one.adopted(BETTER, NOW)


def following() -> Node:
    """Makes member one, in a round without an offer, with three others that offer."""
    one = hearing(hello(TWO), hello(THREE), hello(FOUR))
    assert "Failed" not in kinds(one.follow(NOW))
    return one


# -- a round without an offer ----------------------------------------------------------------------------


def test_the_first_round_without_an_offer_is_for_good_and_said_to_all():
    one = hearing(hello(TWO), hello(THREE), hello(FOUR))
    for key in (TWO, THREE):
        (news,) = outbox(one.follow(NOW) if key == TWO else one._discovery.broadcast(NOW), endpoint(key))
        assert news.announce.following
    one.tick(NOW + T_GROUP)

    assert one._state.following
    assert kinds(one.follow(NOW + T_GROUP)) == []


def test_a_node_that_followed_before_its_restart_follows_from_the_start():
    one = node(ONE, seeds=(endpoint(TWO),), following=True)
    (question,) = outbox(one.open(NOW), endpoint(TWO))
    assert question.announce.following
    answers = outbox(heard(one, ready(TWO, ONE.public, base=INITIAL), NOW), endpoint(TWO))

    assert [type(answer) for answer in answers] == [Hello]
    assert "Send" not in kinds(one.follow(NOW))


def test_a_round_without_an_offer_ends_after_t_group():
    one = following()
    assert (one.status.phase, one.status.waiting_for, one.status.deadline) == ("following", (), NOW + T_GROUP)
    assert one._follower.deadline == NOW + T_GROUP
    assert "Failed" not in kinds(one.tick(NOW + T_GROUP - 1))
    ended = one.tick(NOW + T_GROUP)

    assert only(ended, Failed) == FIRST
    assert [news.announce.round for news in outbox(ended, endpoint(TWO))][-1] == 1
    assert (one.round, one.status.phase, one._follower.deadline) == (1, "idle", None)


def test_where_the_owner_has_every_offer_wait_a_round_without_one_waits_for_a_base_too():
    one = node(ONE, seeds=(), wait_each_s=300.0)
    one.open(NOW)
    for key in (TWO, THREE, FOUR):
        heard(one, hello(key), NOW)
    one.follow(NOW)
    for passed in (T_GROUP, 2 * T_GROUP):
        assert "Failed" not in kinds(one.tick(NOW + passed))
        assert one._follower.deadline == NOW + passed + T_GROUP
    assert only(one.tick(NOW + 3 * T_GROUP), Failed) == FIRST


def test_the_session_wakes_when_t_group_is_over():
    one = node(ONE, seeds=(), group_s=3.0)
    one.open(NOW)
    one.follow(NOW)

    assert one.deadline == NOW + 3.0


def test_a_round_without_an_offer_ends_with_the_base_that_is_adopted():
    one = following()
    ended = adopt(one, round=1)

    assert only(ended, Failed) == FIRST
    (news,) = outbox(ended, endpoint(TWO))
    assert (news.announce.round, news.announce.base) == (1, BETTER)
    assert (one.base, one.round, one.status.phase) == (BETTER, 1, "idle")


@pytest.mark.parametrize("claimed", [0, 2, 10**9])
def test_a_round_is_counted_by_this_node_alone_whatever_others_claim(claimed):
    one = hearing(hello(TWO), hello(THREE), hello(FOUR))
    one._state.round = 4
    one.follow(NOW)

    assert only(adopt(one, round=claimed), Failed).round == 5


def test_a_base_that_was_adopted_between_two_rounds_ends_the_next_at_once():
    one = following()
    one.tick(NOW + T_GROUP)
    assert "Failed" not in kinds(adopt(one))

    assert only(one.follow(NOW), Failed).round == 2
    assert "Failed" not in kinds(one.follow(NOW))


def test_a_later_round_on_the_base_that_one_has_is_not_waited_out_by_one_that_fell_back():
    """Three fell back alone; the others may still make a base in this round."""
    one = hearing(hello(TWO), hello(THREE), hello(FOUR, round=1))

    assert "Failed" not in kinds(one.follow(NOW))


def test_ones_own_round_before_ends_no_round_without_an_offer():
    """The base of the last round that this node was in is not the base of the next."""
    wires = Wires(KEYS[:4]).open().offer()
    assert len(wires.ends(Completed)) == 4

    assert "Failed" not in kinds(wires[FOUR].follow(NOW))


# -- nobody offers ---------------------------------------------------------------------------------------


FOLLOW = {"following": True}


@pytest.mark.parametrize(
    ("known", "ends"),
    [
        pytest.param({TWO: FOLLOW, THREE: FOLLOW}, True, id="all that are known follow"),
        pytest.param({}, False, id="alone"),
        pytest.param({TWO: FOLLOW, THREE: {}, FOUR: {}, FIVE: {}}, False, id="three offer"),
        # What one alone shows is not adopted, and not waited for.
        pytest.param({TWO: FOLLOW | {"base": BETTER}, THREE: FOLLOW, FOUR: FOLLOW}, True, id="one is ahead"),
    ],
)
def test_a_round_without_an_offer_ends_at_once_as_the_last_one_where_too_few_offer(known, ends):
    one = hearing(*(hello(key, **said) for key, said in known.items()))

    assert [end for end in one.follow(NOW) if isinstance(end, Failed)] == [ALL_SPENT] * ends


def test_a_round_ends_when_too_few_are_left_that_offer_but_one_that_cannot_be_reached_may_later():
    one = hearing(hello(TWO, following=True), hello(THREE), hello(FOUR), hello(FIVE))
    one.unreachable(endpoint(THREE), "connection refused", NOW)
    assert "Failed" not in kinds(one.follow(NOW))

    assert only(heard(one, hello(THREE, following=True, counter=COUNTER + 1), NOW), Failed) == ALL_SPENT


def test_while_joining_somebody_who_offers_may_still_answer():
    one = node(ONE, seeds=(endpoint(TWO), endpoint(THREE)))
    one.open(NOW)
    heard(one, hello(TWO, following=True), NOW)
    assert "Failed" not in kinds(one.follow(NOW))

    assert only(heard(one, hello(THREE, following=True), NOW), Failed) == ALL_SPENT


def all_follow_and_are_ahead() -> Node:
    """Lets member one fetch the last base, which the others have; all of them follow."""
    ahead = {"following": True, "base": BETTER, "round": 1}
    one = hearing(*(hello(key, **ahead) for key in (TWO, THREE, FOUR)))
    assert one.status.phase == "catching up"
    return one


def test_the_last_base_is_still_fetched_where_all_follow():
    one = all_follow_and_are_ahead()
    assert "Failed" not in kinds(one.follow(NOW))
    heard(one, no_line(BETTER), NOW)
    heard(one, BasePiece(BETTER.digest, 0, HELD.tobytes()), NOW)
    later = NOW + RETRY_S + 1  # the base is being stored: nothing is fetched, and nothing to be tried again
    assert "Failed" not in kinds(one.tick(later))

    assert only(one.adopted(BETTER, later), Failed) == FIRST
    assert only(one.follow(later), Failed) == replace(ALL_SPENT, round=2)


def test_the_last_base_is_asked_for_again_where_all_follow():
    one = all_follow_and_are_ahead()
    one.follow(NOW)
    for key in (TWO, THREE, FOUR):
        one._catch_up.unreachable(key.public, NOW)
        one._after([], NOW)
    assert not one._catch_up.busy
    assert one.status.phase == "following"
    again = one.tick(NOW + RETRY_S)

    assert "Failed" not in kinds(again)
    assert one._catch_up.busy


# -- one thing at a time ---------------------------------------------------------------------------------


def test_one_round_at_a_time_and_no_offer_once_it_follows():
    one = following()
    with pytest.raises(LocalProtocolError, match="in FOLLOWING is no step"):
        one.follow(NOW)
    with pytest.raises(LocalProtocolError, match="follows offers nothing"):
        one.offer(vector(0), rand(0), NOW)
    one.tick(NOW + T_GROUP)

    with pytest.raises(LocalProtocolError, match="follows offers nothing"):
        one.offer(vector(0), rand(0), NOW)
    with pytest.raises(LocalProtocolError, match="follows offers nothing"):
        node(TWO, following=True).offer(vector(0), rand(0), NOW)


def test_no_round_without_an_offer_while_one_waits_or_runs_or_while_closing():
    offering, closing = node(ONE, seeds=()), node(ONE, seeds=())
    offering.offer(vector(0), rand(0), NOW)
    closing.close(NOW)
    wires = Wires(KEYS[:3]).open()
    wires.dropped = lambda _from, _to, message: not isinstance(message, Ready | Group | Accepted)
    running = wires.offer()[ONE]
    assert running.status.phase == "shares"
    for one in (offering, closing, running):
        with pytest.raises(LocalProtocolError, match=r"FOLLOW in .* is no step"):
            one.follow(NOW)
        assert not one._state.following


# -- the others go on ------------------------------------------------------------------------------------


def test_one_that_follows_closes_no_group_of_the_readys_it_holds():
    one = hearing(*(hello(key) for key in (TWO, THREE, FOUR)))
    for key in (TWO, THREE, FOUR):
        heard(one, ready(key, ONE.public, base=INITIAL, counter=COUNTER + 1), NOW)
    actions = [*one.follow(NOW), *one.tick(NOW + 20)]

    assert not [m for a in actions if hasattr(a, "messages") for m in a.messages if isinstance(m, Group)]


def test_who_asks_one_that_follows_is_told_so_and_not_accepted():
    one = following()
    (answer,) = outbox(
        heard(one, ready(TWO, ONE.public, base=INITIAL, counter=COUNTER + 1), NOW), endpoint(TWO)
    )

    assert isinstance(answer, Hello)
    assert answer.announce.following
    assert heard(one, ready(TWO, THREE.public, base=INITIAL, counter=COUNTER + 2), NOW) == []
    assert heard(one, hello(TWO, counter=COUNTER + 3), NOW) == []


def test_forged_readys_are_not_answered():
    one = following()
    forged = replace(ready(TWO, ONE.public, base=INITIAL), signature=bytes(64))

    with pytest.raises(RemoteProtocolError, match="bad ready signature"):
        heard(one, forged, NOW)


def test_a_member_joins_a_weak_group_of_more_than_half_of_those_that_offer():
    two = node(TWO, seeds=(), electorate=of_names(["elsewhere:1"]))
    two._patience.is_willing = lambda _now: True
    two.open(NOW)
    for key in (ONE, THREE):
        heard(two, hello(key), NOW)
    for key in (FOUR, FIVE, SIX):
        heard(two, hello(key, following=True), NOW)
    (mine,) = outbox(two.offer(vector(0), rand(0), NOW), endpoint(ONE))
    others = (ready(key, ONE.public, base=INITIAL, electors=mine.electors) for key in (ONE, THREE))
    heard(two, group_of([mine, *others], ONE), NOW)

    assert two.status.phase == "shares"


# -- healing and the end -----------------------------------------------------------------------------------


def test_a_follower_serves_the_base_that_it_fetched():
    one = following()
    adopt(one)
    heard(one, hello(FIVE), NOW)
    request = signing.sign(PieceRequest(BETTER.digest, b"", 0, FIVE.public, ONE.public), FIVE)

    assert only(heard(one, request, NOW), Serve) == Serve(endpoint(FIVE), request)
    gone = signing.sign(PieceRequest(base(1, 9).digest, b"", 0, FIVE.public, ONE.public, number=1), FIVE)
    (shown,) = outbox(heard(one, gone, NOW), endpoint(FIVE))
    assert shown.announce.base == BETTER, "who asks for a base that is not here sees the one that is"


def test_a_member_that_fell_back_asks_those_that_offer_before_followers_for_the_certificate():
    """The follower with the lowest key fetched the base, and has no certificate of it."""
    wires = Wires(KEYS[:4]).open().follow(ONE)
    wires.dropped = lambda _from, to, m: type(m).__name__ == "Sum" and to == endpoint(FOUR)
    wires.offer(TWO, THREE, FOUR)
    wires.dropped = lambda *_: False
    wires.tick(15.0, FOUR)
    ((where, healed),) = wires.ends(Healed)

    assert (where, healed.source) == (endpoint(FOUR), TWO.public)
    assert wires[ONE].base == wires[FOUR].base == wires[TWO].base


def test_finishers_wait_for_a_live_follower_to_confirm():
    wires = Wires(KEYS[:4]).open().follow(FOUR)
    wires.dropped = lambda _from, to, m: isinstance(m, BasePiece)
    wires.offer(ONE, TWO, THREE)
    assert wires[FOUR].base != wires[ONE].base
    assert "Closed" not in kinds(wires[ONE].close(NOW))
    confirmed = hello(FOUR, base=wires[ONE].base, round=1, following=True, counter=COUNTER + 9000)

    assert Closed() in heard(wires[ONE], confirmed, NOW)


def test_a_certificate_heals_a_follower_that_was_a_member():
    wires = Wires(KEYS[:3]).open()
    wires.dropped = lambda _from, to, m: to == endpoint(THREE) and type(m).__name__ in ("Sum", "Certificate")
    wires.offer().tick(15.0, THREE)
    assert wires[THREE].base == INITIAL
    wires.follow(THREE)
    wires.dropped = lambda *_: False
    certificate = wires.ends(Completed)[0][1].certificate
    assert isinstance(certificate, Certificate)
    wires.hand(endpoint(THREE), certificate)
    wires.quiet()

    assert wires[THREE].base == wires[ONE].base
    assert wires.ends(Failed)[-1][1].reason is Reason.BUDGET_SPENT


# -- how long a node lingers for whom ----------------------------------------------------------------------


def closing(shown: Announce | None = None, **changes) -> Closing:
    """A node after round 1 on a base, and what one other peer shows, followers too."""
    where, own = state(round=1, held=base(1, 1)), settings(ONE, **changes)
    discovery = Discovery(own, where, bytes(32))
    discovery.members.learn(shown or announce(TWO), NOW, live=True)
    held = Closing(own, where, discovery)
    assert (held.until, held.is_over(False, NOW), held.look(NOW)) == (None, False, [])
    held.begin(0.0, NOW)
    return held


def test_nobody_is_waited_for_that_confirmed_the_base():
    confirmed = closing(announce(TWO, base=base(1, 1)))

    assert not confirmed.is_over(True, NOW)
    assert confirmed.is_over(False, NOW)
    assert confirmed.until == NOW + LINGER_S


def test_who_shows_another_base_is_waited_for_while_it_lingers():
    for shown in ({"round": 1}, {"base": base(2, 1)}, {"base": base(0), "following": True}):
        held = closing(announce(TWO, **shown))
        assert not held.is_over(False, NOW + LINGER_S - 1)
        assert held.is_over(True, NOW + LINGER_S)


def test_it_lingers_while_others_may_need_a_certificate():
    held = closing()
    held.begin(15.0, NOW)

    assert held.until == NOW + 15.0 + PATIENCE_S


# -- members that are away when the run ends -----------------------------------------------------------------

HAS_IT = {"base": base(1, 1)}
STAYS = Notice(Note.STAYS, endpoint(TWO), "15")


def staying(shown: Announce | None = None, **changes) -> Closing:
    """The same on the last base, where the owner has every offer wait for ever."""
    return closing(shown, **{"sums": 1, "wait_each_s": inf, **changes})


def test_who_waits_for_ever_stays_for_one_who_lacks_the_last_base_and_says_so_once():
    held = staying()
    assert (held.look(NOW + LINGER_S - 1), held.deadline) == ([], NOW + LINGER_S)
    held._discovery.members.suspect(TWO.public)
    assert not held.is_for_the_absent, "its owner was not told yet"
    assert held.look(NOW + LINGER_S) == [replace(STAYS, text=f"{(AWAY_S - LINGER_S) / 60:.0f}")]
    assert held.look(NOW + LINGER_S) == []
    assert held.is_for_the_absent
    assert (held.is_over(False, NOW + AWAY_S - 1), held.is_over(True, NOW + AWAY_S)) == (False, True)
    assert held.deadline == NOW + AWAY_S

    held._discovery.members.learn(announce(TWO, counter=COUNTER + 1), NOW, live=True)
    assert not held.is_for_the_absent, "it is here, and may be fetching"
    held._discovery.members.learn(announce(TWO, counter=COUNTER + 2, **HAS_IT), NOW, live=True)
    assert held.is_over(False, NOW + LINGER_S)


@pytest.mark.parametrize(
    ("shown", "changes"),
    [
        ({}, {"sums": 2}),  # the run goes on without this node
        ({}, {"wait_each_s": 0.0}),
        ({"leaving": True}, {}),
        ({}, {"allow": frozenset({THREE.public})}),
        (HAS_IT, {}),
    ],
)
def test_otherwise_it_lingers_no_longer_than_for_those_who_are_here(shown, changes):
    held = staying(announce(TWO, **shown), **changes)
    assert (held.look(NOW + LINGER_S), held.is_over(True, NOW + LINGER_S)) == ([], True)


@pytest.mark.parametrize(("made_by", "stays"), [(KEYS[:3], True), (KEYS[1:4], False)])
def test_who_took_the_last_base_from_others_leaves_it_to_them(made_by, stays):
    held = staying()
    held._state.line = Line(1, None, (link(made_by, base()),))
    held.begin(0.0, NOW)
    assert held.is_over(True, NOW + LINGER_S) is not stays


def test_a_node_stays_for_the_absent_once_its_run_is_over_and_it_waits_for_nobody_else():
    one = node(ONE, wait_each_s=inf)
    one._closing = held = staying()
    held._discovery.members.suspect(TWO.public)
    held.look(NOW + LINGER_S)
    assert not one.stays_for_the_absent
    one._course.step(Event.CLOSE)
    assert one.stays_for_the_absent


def test_who_refuses_connections_is_gone():
    held = staying()
    held._discovery.unreachable(endpoint(TWO), NOW, NOBODY_LISTENS)
    assert held.is_over(False, NOW + LINGER_S)


def test_who_was_started_with_the_last_base_stays_until_it_has_given_it_to_somebody():
    where, ends = state(round=1, held=base(1, 1)), [of_key(key.public) for key in (ONE, TWO)]
    own = settings(ONE, endpoint=ends[0], seeds=(ends[1],), sums=1, wait_each_s=inf)
    discovery = Discovery(own, where, bytes(32))
    discovery.open(NOW)
    held = Closing(own, where, discovery)
    held.begin(0.0, NOW)
    assert held.look(NOW + LINGER_S) == [replace(STAYS, who="", text="15")]
    lacks = announce(TWO, endpoint=ends[1])
    discovery.members.learn(lacks, NOW, live=True)
    assert (held.look(NOW), held.is_over(False, NOW + LINGER_S)) == ([], False)
    has_it = announce(TWO, endpoint=ends[1], counter=COUNTER + 1, **HAS_IT)
    discovery.members.learn(has_it, NOW, live=True)
    assert (held.look(NOW), held.is_over(False, NOW + LINGER_S)) == ([], True)
