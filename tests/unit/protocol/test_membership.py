"""Who is known, who is live, which base most of them show."""

import pytest

from protocol.errors import RemoteProtocolError
from protocol.membership import MAX_MEMBERS_KNOWN, Members
from tests.parts import NOW, announce, base, endpoint, members, standing

KEYS = members(6)
ONE, TWO, THREE, FOUR, FIVE, SIX = (key.public for key in KEYS)
MS = int(NOW * 1000)


def knowing(*announces, round=0) -> Members:
    found = Members()
    for one in announces:
        found.learn(one, round, NOW, direct=True)
    return found


def test_a_newer_announcement_replaces_an_older_one_and_not_the_other_way():
    found = Members()
    newer, older = announce(KEYS[0], round=2, issued_ms=MS + 1), announce(KEYS[0], round=1)

    assert found.learn(newer, 0, NOW, direct=True)
    assert not found.learn(older, 0, NOW, direct=True)
    assert not found.learn(newer, 0, NOW, direct=False)
    assert found.get(ONE) == newer
    assert found.learn(announce(KEYS[0], issued_ms=MS + 2), 0, NOW, direct=False)


def test_an_expired_announcement_is_refused_with_room_for_clocks_that_differ():
    old = announce(KEYS[0], issued_ms=MS - 200_000)
    with pytest.raises(RemoteProtocolError, match="expired"):
        Members().learn(old, 0, NOW, direct=True)
    assert Members().learn(announce(KEYS[0], issued_ms=MS - 100_000), 0, NOW, direct=True)


def test_a_full_table_takes_nobody_else():
    found = Members()
    one = announce(KEYS[0])
    for number in range(MAX_MEMBERS_KNOWN):
        found._members[number.to_bytes(32, "big")] = None

    with pytest.raises(RemoteProtocolError, match="more than 1024 peers"):
        found.learn(one, 0, NOW, direct=True)


def test_a_peer_is_known_for_five_rounds_after_it_was_heard():
    found = knowing(announce(KEYS[0]), round=3)

    assert found.known(8) == {ONE}
    assert found.known(9) == frozenset()


def test_hearing_of_a_peer_from_others_does_not_keep_it_known():
    found = knowing(announce(KEYS[0]), round=3)
    found.learn(announce(KEYS[0], issued_ms=MS + 1), 7, NOW, direct=False)
    assert found.known(9) == frozenset()

    found.learn(announce(KEYS[0], issued_ms=MS + 2), 7, NOW, direct=True)
    assert found.known(9) == {ONE}


def test_who_left_is_not_known():
    found = knowing(announce(KEYS[0]), announce(KEYS[0], issued_ms=MS + 1, leaving=True))

    assert found.known(0) == frozenset()


def test_a_suspect_is_known_but_not_live_until_it_is_heard_again():
    found = knowing(announce(KEYS[0]), announce(KEYS[1]))
    found.suspect(ONE)
    found.suspect(FOUR)
    assert (found.known(0), found.live(0)) == ({ONE, TWO}, (TWO,))

    found.learn(announce(KEYS[0], issued_ms=MS + 1), 0, NOW, direct=False)
    assert found.live(0) == (TWO,)
    found.learn(announce(KEYS[0], issued_ms=MS + 2), 0, NOW, direct=True)
    assert found.live(0) == (ONE, TWO)


def test_an_old_announcement_said_again_brings_nobody_back():
    old, new = announce(KEYS[0]), announce(KEYS[0], issued_ms=MS + 1)
    found = knowing(old, new, round=1)
    found.suspect(ONE)
    found.learn(old, 5, NOW, direct=True)

    assert found.live(5) == ()
    assert found.known(8) == frozenset()


def test_the_live_are_in_key_order():
    found = knowing(*(announce(key) for key in reversed(KEYS)))

    assert found.live(0) == found.candidates(0) == (ONE, TWO, THREE, FOUR, FIVE, SIX)


def test_a_follower_is_known_and_live_but_offers_nothing_and_is_no_candidate():
    found = knowing(announce(KEYS[0], following=True), announce(KEYS[1]), announce(KEYS[2]))
    found.suspect(THREE)

    assert (found.known(0), found.live(0)) == ({ONE, TWO, THREE}, (ONE, TWO))
    assert (found.offering(0), found.candidates(0)) == ({TWO, THREE}, (TWO,))
    assert {one.following for one in found.announces(0, 9)} == {False, True}


def test_a_banned_peer_is_forgotten():
    found = knowing(announce(KEYS[0]))
    found.forget(ONE)
    found.forget(TWO)

    assert (found.get(ONE), found.known(0)) == (None, frozenset())


def test_the_newest_announcement_of_an_endpoint_counts():
    newer = announce(KEYS[1], endpoint=endpoint(KEYS[0]), issued_ms=MS + 5)
    found = knowing(announce(KEYS[0]), newer, announce(KEYS[2]))

    assert found.at(endpoint(KEYS[0])) == newer
    assert found.at("nowhere:1") is None


def test_the_newest_announcements_are_passed_on_first():
    one, two, three = (announce(key, issued_ms=MS + at) for key, at in zip(KEYS, (5, 9, 7), strict=False))

    assert knowing(one, two, three).announces(0, 2) == (two, three)


def test_the_majority_is_more_than_half_of_the_known_with_oneself():
    better = base(1, 1)
    found = knowing(*(announce(key, base=better) for key in KEYS[:2]), announce(KEYS[2]))

    assert found.majority(standing(), 3) is None
    assert found.majority(standing(held=better), 3) == (better, (ONE, TWO))
    found.learn(announce(KEYS[2], base=better, issued_ms=MS + 1), 0, NOW, direct=True)
    assert found.majority(standing(), 3) == (better, (ONE, TWO, THREE))


def test_alone_one_is_the_majority():
    assert Members().majority(standing(), 3) == (base(), ())
    assert Members().majority(standing(following=True), 3) == (base(), ())


def shown(offering: list, following: list) -> Members:
    """Members that show these bases."""
    marks = [*((held, False) for held in offering), *((held, True) for held in following)]
    pairs = zip(KEYS, marks, strict=False)
    return knowing(*(announce(key, base=held, following=follows) for key, (held, follows) in pairs))


def test_followers_on_an_old_base_do_not_keep_a_follower_from_what_is_offered_on():
    """Three of six are not more than half; but the three are all who make bases."""
    found = shown([base(1, 1)] * 3, [base()] * 2)

    assert found.majority(standing(following=True), 3) == (base(1, 1), (ONE, TWO, THREE))
    assert found.majority(standing(), 3) == (base(1, 1), (ONE, TWO, THREE))


def test_a_follower_does_not_vote_for_its_own_base():
    split = shown([base(1, 1), base(1, 1), base()], [])

    assert split.majority(standing(following=True), 3) == (base(1, 1), (ONE, TWO))
    assert split.majority(standing(), 3) is None


def test_followers_do_not_make_a_majority_of_what_few_who_offer_show():
    found = shown([base(1, 1), base(), base()], [base(1, 1)] * 3)

    assert found.majority(standing(), 3) == (base(), (TWO, THREE))


def test_where_too_few_offer_to_make_a_group_everybody_votes():
    """The last two that have a budget left do not decide for the four that have none."""
    evil = base(9, 9)
    found = shown([evil] * 2, [base()] * 3)
    assert found.majority(standing(following=True), 3) == (base(), (THREE, FOUR, FIVE))
    assert shown([evil] * 3, [base()] * 2).majority(standing(following=True), 4) is None

    agreed = shown([base(1, 1)] * 2, [base(1, 1)] * 2)
    assert agreed.majority(standing(following=True), 3) == (base(1, 1), (ONE, TWO, THREE, FOUR))
    assert shown([base(1, 1)] * 2, []).majority(standing(), 3) == (base(1, 1), (ONE, TWO))


def test_where_all_follow_all_of_them_vote():
    found = shown([], [base(1, 1)] * 4)

    assert found.majority(standing(following=True), 3) == (base(1, 1), (ONE, TWO, THREE, FOUR))


def test_the_live_are_shown_by_rank_of_their_base():
    bases = [base(1, 1), base(2, 9), base(2, 3), base(2, 9, size=5)]
    found = shown(bases, [])
    found.suspect(ONE)

    assert found.showing(0) == [(bases[3], FOUR), (bases[2], THREE), (bases[1], TWO)]


def test_of_one_base_those_that_offer_are_shown_before_followers():
    followers = (announce(key, base=base(2, 1), following=True) for key in KEYS[:2])
    offering = (announce(KEYS[2], base=base(2, 1)), announce(KEYS[3], base=base(1, 1)))
    found = knowing(*followers, *offering)

    assert [key for _, key in found.showing(0)] == [THREE, ONE, TWO, FOUR]


def test_rounds_that_this_node_was_not_in_make_nobody_silent():
    found = knowing(announce(KEYS[0]), announce(KEYS[1]), round=2)
    found.skipped(6)
    found.learn(announce(KEYS[0]), 9, NOW, direct=True)
    assert (found.known(13), found.known(14)) == ({ONE, TWO}, {ONE})
    found.skipped(-1)
    assert found.known(13) == {ONE, TWO}
