"""Who is known, who is live, which base most of them show."""

import random
from dataclasses import replace

import pytest

from protocol.errors import RemoteProtocolError
from protocol.swarm.meeting.membership import FORGOTTEN_AFTER_S, MAX_MEMBERS_KNOWN, Members
from protocol.swarm.node_state import ANNOUNCE_LIFETIME_S
from tests.parts import COUNTER, NOW, announce, base, endpoint, members, state

KEYS = members(6)
ONE, TWO, THREE, FOUR, FIVE, SIX = (key.public for key in KEYS)


def knowing(*announces, round=0) -> Members:
    found = Members(state(round))
    for one in announces:
        found.learn(one, NOW, live=True)
    return found


def of(found: Members, *held, **changes) -> Members:
    """The same table, of a node that has come to another state."""
    found._state = state(*held, **changes)
    return found


def test_a_newer_announcement_replaces_an_older_one_and_not_the_other_way():
    found = Members(state())
    newer, older = announce(KEYS[0], round=2, counter=COUNTER + 1), announce(KEYS[0], round=1)

    assert found.learn(newer, NOW, live=True)
    assert not found.learn(older, NOW, live=True)
    assert not found.learn(newer, NOW, live=False)
    assert found.get(ONE) == newer
    assert found.learn(announce(KEYS[0], counter=COUNTER + 2), NOW, live=False)


def test_an_announcement_of_an_earlier_start_is_older_whatever_its_counter():
    found = knowing(announce(KEYS[0], epoch=2, counter=1))

    assert not found.learn(announce(KEYS[0], epoch=1, counter=2**50, leaving=True), NOW, live=True)
    assert found.known == {ONE}


def filled(**changes) -> Members:
    """Fills the table with made-up keys."""
    found = Members(state())
    for number in range(MAX_MEMBERS_KNOWN):
        one = replace(announce(KEYS[0]), key=number.to_bytes(32, "big"), **changes)
        found.learn(one, NOW + number, live=True)
    return found


def test_a_table_full_of_peers_that_count_takes_nobody_else():
    with pytest.raises(RemoteProtocolError, match="more than 1024 peers"):
        filled().learn(announce(KEYS[0]), NOW, live=True)


def test_who_said_goodbye_makes_room_for_who_comes_the_first_one_first():
    found = filled(leaving=True)

    assert found.learn(announce(KEYS[0]), NOW, live=True)
    assert found.get(bytes(32)) is None
    assert found.get((1).to_bytes(32, "big")) is not None
    assert len(found.every) == MAX_MEMBERS_KNOWN


def test_whom_others_speak_of_counts_for_a_while_unless_it_is_heard():
    """Members may pass on the announcement of a peer that is long dead."""
    found = Members(state())
    for key in KEYS[:2]:
        found.learn(announce(key), NOW, live=False)
    found.learn(announce(KEYS[1], counter=COUNTER + 1), NOW + 20, live=True)
    found.expire(NOW + ANNOUNCE_LIFETIME_S - 1)
    assert found.known == {ONE, TWO}
    found.expire(NOW + ANNOUNCE_LIFETIME_S)
    assert found.known == {TWO}
    found.learn(announce(KEYS[0]), NOW + 40, live=False)
    assert found.known == {TWO}

    found.learn(announce(KEYS[0]), NOW + 40, live=True)
    assert found.known == {ONE, TWO}


def test_who_does_not_count_is_forgotten_in_the_end():
    found = knowing(announce(KEYS[0], leaving=True), announce(KEYS[1]))
    found.learn(announce(KEYS[2]), NOW, live=False)
    found.expire(NOW + ANNOUNCE_LIFETIME_S)
    assert len(found.every) == 3

    found.expire(NOW + FORGOTTEN_AFTER_S)
    assert [member.announce.key for member in found.every] == [TWO]


def test_a_peer_is_known_for_five_rounds_after_it_was_heard():
    found = knowing(announce(KEYS[0]), round=3)

    assert of(found, 8).known == {ONE}
    assert of(found, 9).known == frozenset()


def test_hearing_of_a_peer_from_others_does_not_keep_it_known():
    found = knowing(announce(KEYS[0]), round=3)
    of(found, 7).learn(announce(KEYS[0], counter=COUNTER + 1), NOW, live=False)
    assert of(found, 9).known == frozenset()

    of(found, 7).learn(announce(KEYS[0], counter=COUNTER + 2), NOW, live=True)
    assert of(found, 9).known == {ONE}


def test_a_suspect_is_known_but_not_live_until_it_is_heard_again():
    found = knowing(announce(KEYS[0]), announce(KEYS[1]))
    found.suspect(ONE)
    found.suspect(FOUR)
    assert (found.known, found.live) == ({ONE, TWO}, (TWO,))

    found.learn(announce(KEYS[0], counter=COUNTER + 1), NOW, live=False)
    assert found.live == (TWO,)
    found.learn(announce(KEYS[0], counter=COUNTER + 2), NOW, live=True)
    assert found.live == (ONE, TWO)


def test_an_old_announcement_said_again_brings_nobody_back():
    old, new = announce(KEYS[0]), announce(KEYS[0], counter=COUNTER + 1)
    found = knowing(old, new, round=1)
    found.suspect(ONE)
    of(found, 5).learn(old, NOW, live=True)

    assert of(found, 5).live == ()
    assert of(found, 8).known == frozenset()


def test_the_live_are_in_key_order():
    found = knowing(*(announce(key) for key in reversed(KEYS)))

    assert found.live == found.candidates == (ONE, TWO, THREE, FOUR, FIVE, SIX)


def test_a_follower_is_known_and_live_but_offers_nothing_and_is_no_candidate():
    found = knowing(announce(KEYS[0], following=True), announce(KEYS[1]), announce(KEYS[2]))
    found.suspect(THREE)

    assert (found.known, found.live) == ({ONE, TWO, THREE}, (ONE, TWO))
    assert (found.offering, found.candidates) == ({TWO, THREE}, (TWO,))
    assert {one.following for one in found.announces(9)} == {False, True}


def test_a_banned_peer_is_forgotten():
    found = knowing(announce(KEYS[0]))
    found.forget(ONE)
    found.forget(TWO)

    assert (found.get(ONE), found.known) == (None, frozenset())


def test_the_newest_announcement_of_an_endpoint_counts():
    newer = announce(KEYS[1], endpoint=endpoint(KEYS[0]), counter=COUNTER + 5)
    found = knowing(announce(KEYS[0]), newer, announce(KEYS[2]))

    assert found.at(endpoint(KEYS[0])) == newer
    assert found.at("nowhere:1") is None


def test_the_newest_announcements_are_passed_on_first():
    one, two, three = (announce(key, counter=COUNTER + at) for key, at in zip(KEYS, (5, 9, 7), strict=False))

    assert knowing(one, three, two).announces(2) == (two, three)


def test_the_majority_is_more_than_half_of_the_known_with_oneself():
    better = base(1, 1)
    found = knowing(*(announce(key, base=better) for key in KEYS[:2]), announce(KEYS[2]))

    assert of(found).majority(3) is None
    assert of(found, held=better).majority(3) == (better, (ONE, TWO))
    found.learn(announce(KEYS[2], base=better, counter=COUNTER + 1), NOW, live=True)
    assert of(found).majority(3) == (better, (ONE, TWO, THREE))


def test_alone_one_is_the_majority():
    assert Members(state()).majority(3) == (base(), ())
    assert Members(state(following=True)).majority(3) == (base(), ())


def shown(offering: list, following: list) -> Members:
    """Makes members that show these bases."""
    marks = [*((held, False) for held in offering), *((held, True) for held in following)]
    pairs = zip(KEYS, marks, strict=False)
    return knowing(*(announce(key, base=held, following=follows) for key, (held, follows) in pairs))


OLD, NEW, EVIL = base(), base(1, 1), base(9, 9)
BOTH = (False, True)


@pytest.mark.parametrize(
    ("offering", "following", "follows", "least", "majority"),
    [
        pytest.param([NEW] * 3, [OLD] * 2, BOTH, 3, (NEW, (ONE, TWO, THREE)), id="all that make bases"),
        pytest.param([NEW, NEW, OLD], [], (True,), 3, (NEW, (ONE, TWO)), id="without a follower's own base"),
        pytest.param([NEW, NEW, OLD], [], (False,), 3, None, id="two of four"),
        pytest.param([NEW, OLD, OLD], [NEW] * 3, (False,), 3, (OLD, (TWO, THREE)), id="of few who offer"),
        # Where too few offer to make a group, everybody votes: the last two do not decide for four.
        pytest.param([EVIL] * 2, [OLD] * 3, (True,), 3, (OLD, (THREE, FOUR, FIVE)), id="two offer, of six"),
        pytest.param([EVIL] * 3, [OLD] * 2, (True,), 4, None, id="three offer, of six"),
        pytest.param([NEW] * 2, [NEW] * 2, (True,), 3, (NEW, (ONE, TWO, THREE, FOUR)), id="they agree"),
        pytest.param([], [NEW] * 2, (True,), 3, (NEW, (ONE, TWO)), id="nobody offers"),
        pytest.param([NEW] * 2, [], (False,), 3, (NEW, (ONE, TWO)), id="two offer beside this node"),
    ],
)
def test_those_that_offer_make_the_majority_if_they_are_enough_for_a_group(
    offering, following, follows, least, majority
):
    found = shown(offering, following)
    for is_following in follows:
        assert of(found, following=is_following).majority(least) == majority


def test_the_live_are_shown_by_rank_of_their_base():
    bases = [base(1, 1), base(2, 9), base(2, 3), base(2, 9, size=5)]
    found = shown(bases, [])
    found.suspect(ONE)

    assert found.showing == [(bases[3], FOUR), (bases[2], THREE), (bases[1], TWO)]


def test_of_one_base_those_that_offer_are_shown_before_followers():
    followers = (announce(key, base=base(2, 1), following=True) for key in KEYS[:2])
    offering = (announce(KEYS[2], base=base(2, 1)), announce(KEYS[3], base=base(1, 1)))
    found = knowing(*followers, *offering)

    assert [key for _, key in found.showing] == [THREE, ONE, TWO, FOUR]


def test_rounds_that_this_node_was_not_in_make_nobody_silent():
    found = knowing(announce(KEYS[0]), announce(KEYS[1]), round=2)
    found.skipped(6)
    of(found, 9).learn(announce(KEYS[0]), NOW, live=True)
    assert (of(found, 13).known, of(found, 14).known) == ({ONE, TWO}, {ONE})
    found.skipped(-1)
    assert of(found, 13).known == {ONE, TWO}


def views(found: Members, round: int) -> tuple[object, ...]:
    """Returns all that the table shows of a round."""
    of(found, round)
    shown = (found.known, found.offering, found.candidates, found.live)
    above = [of(found, round, base(generation)).anyone_above for generation in range(3)]
    return *shown, above, {key.public: found.knows(key.public) for key in KEYS}


def changed(found: Members, number: int, draw: random.Random) -> None:
    """Changes the table in a way that is drawn."""
    key, now = draw.choice(KEYS), NOW + 10.0 * number
    flags = {name: draw.random() < 0.2 for name in ("leaving", "following")}
    said = announce(key, counter=COUNTER + number, base=base(draw.randrange(3)), **flags)
    match draw.randrange(7):
        case 0:
            found.expire(now)
        case 1:
            found.forget(key.public)
        case 2:
            found.suspect(key.public)
        case 3:
            found.skipped(draw.randrange(3))
        case _:
            of(found, draw.randrange(9)).learn(said, now, live=draw.random() < 0.7)


@pytest.mark.parametrize("seed", range(20))
def test_what_the_table_shows_is_never_older_than_the_table(seed):
    found, draw = Members(state()), random.Random(seed)
    for number in range(40):
        changed(found, number, draw)
        for round in (number // 4, 9):
            seen = views(found, round)
            found.views.clear()
            assert seen == views(found, round)


def test_whose_link_may_be_cut_is_silent_until_it_is_heard_itself():
    found = knowing(*(announce(key) for key in KEYS[:4]))
    found.suspect(ONE)
    found.miss(TWO)
    found.miss(THREE)
    found.miss(SIX)
    assert found.silent == {ONE, TWO, THREE}
    assert found.live == tuple(sorted((TWO, THREE, FOUR))), "what is missing makes nobody unreachable"
    found.learn(announce(KEYS[0], counter=COUNTER + 1), NOW, live=False)
    found.learn(announce(KEYS[1], counter=COUNTER + 1), NOW, live=True)
    found.learn(announce(KEYS[2], counter=COUNTER + 1, leaving=True), NOW, live=False)
    assert found.silent == {ONE}
