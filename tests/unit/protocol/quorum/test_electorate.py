"""Which electors are a quorum, whose votes count, and which groups may make a strong base."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest

from protocol.quorum.electorate import (
    Electorate,
    ballot_of,
    of_keys,
    of_names,
    strong_ballot,
    usual_liars,
    weak_allowed,
)
from protocol.wire.ids import NO_ELECTORS, RESIGNED
from tests.parts import announce, base, endpoint, group_of, members, ready

KEYS = members(7)
ONE, TWO, THREE, FOUR = (key.public for key in KEYS[:4])
OPEN = b"s" * 32


def subsets(of: tuple[bytes, ...]) -> Iterator[frozenset[bytes]]:
    for size in range(len(of) + 1):
        yield from (frozenset(chosen) for chosen in combinations(of, size))


def is_enough(electors: tuple[bytes, ...], voters: frozenset[bytes], out: frozenset[bytes]) -> bool:
    """Restates the rule as a contest: no set of the others that could still vote beats these.

    A tie goes to the side with the first of all electors, and to nobody if that one is out.
    """
    rivals = frozenset(electors) - out - voters
    mine = voters - out
    if len(mine) != len(rivals):
        return len(mine) > len(rivals)
    return bool(mine) and electors[0] in mine


# -- quorums -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, 7))
def test_a_quorum_beats_whatever_the_others_could_be(count):
    electors = of_keys(key.public for key in KEYS[:count])
    for out in subsets(electors.members):
        for voters in subsets(tuple(sorted(set(electors.members) - out))):
            assert electors.is_quorum(voters, out) == is_enough(electors.members, voters, out)


@pytest.mark.parametrize("liars", [0, 1, 2])
@pytest.mark.parametrize("count", range(1, 7))
def test_no_fewer_than_the_fewest_are_a_quorum_and_the_right_ones_of_so_many_are(count, liars):
    electors = of_keys((key.public for key in KEYS[:count]), liars)
    for out in subsets(electors.members[1:]):
        sizes = {len(some) for some in subsets(electors.members) if electors.is_quorum(some - out, out)}
        assert min(sizes, default=electors.fewest(out)) == electors.fewest(out)
    assert Electorate(least=3).fewest() == 3


@pytest.mark.parametrize("count", range(1, 7))
def test_two_quorums_share_a_voter_whoever_resigned_in_between(count):
    """Voters do not resign: so the first quorum's voters are none of those that the second does without."""
    electors = of_keys(key.public for key in KEYS[:count])
    quorums: dict[frozenset[bytes], list[frozenset[bytes]]] = {}
    for out in subsets(electors.members):
        free = tuple(sorted(set(electors.members) - out))
        quorums[out] = [voters for voters in subsets(free) if electors.is_quorum(voters, out)]
    pairs = 0
    for out, first in quorums.items():
        for later, second in quorums.items():
            for one in (one for one in first if out <= later and not one & later):
                pairs += len(second)
                assert all(one & other for other in second), (out, later, one)
    assert pairs > 0


@pytest.mark.parametrize(("count", "liars"), [(3, 1), (4, 1), (5, 1), (4, 2), (5, 2)])
def test_two_quorums_share_a_voter_that_tells_the_truth_whoever_lies(count, liars):
    """Liars vote twice, and are resigned in one group and voters in the other; all others keep the rule."""
    electors = of_keys((key.public for key in KEYS[:count]), liars)
    quorums = [
        (voters, out)
        for out in subsets(electors.members)
        for voters in subsets(tuple(sorted(set(electors.members) - out)))
        if electors.is_quorum(voters, out)
    ]
    pairs = 0
    for lying in (chosen for chosen in subsets(electors.members) if len(chosen) == liars):
        for one, first_out in quorums:
            for other, second_out in quorums:
                if (one - lying) & second_out or (other - lying) & first_out:
                    continue
                pairs += 1
                assert (one & other) - lying
    assert pairs


@pytest.mark.parametrize("count", [4, 5, 6])
def test_a_quorum_of_one_vote_less_would_not_do(count):
    """Two quorums of one vote less may share the liar alone."""
    electors = of_keys((key.public for key in KEYS[:count]), 1)
    less = electors.needed() - 1

    assert not any(electors.is_quorum(voters) for voters in combinations(electors.members, less))
    assert 2 * less - count <= 1


def test_so_many_liars_are_usual():
    usual = {3: 0, 6: 0, 7: 1, 15: 1, 16: 5, 48: 16, 64: 21}

    assert {count: usual_liars(count) for count in usual} == usual
    assert of_keys(key.public for key in KEYS).tolerated == 1
    assert of_keys((key.public for key in KEYS), 0).tolerated == 0
    assert of_keys(key.public for key in KEYS).needed() == 5
    assert of_keys(key.public for key in KEYS).needed((ONE,)) == 4


def test_nobody_is_a_quorum_of_no_electors():
    assert not Electorate().is_quorum(())
    assert not Electorate((ONE,)).is_quorum((), without=(ONE,))


def test_half_is_no_quorum_where_the_first_elector_resigned():
    electors = of_keys((ONE, TWO, THREE))

    assert not electors.is_quorum((TWO,), without=(ONE,))
    assert not electors.is_quorum((ONE, TWO), without=(ONE,))
    assert electors.is_quorum((TWO, THREE), without=(ONE,))


def test_who_is_no_elector_adds_nothing():
    assert not of_keys((ONE, TWO, THREE)).is_quorum((ONE, FOUR))


def test_any_so_many_nodes_are_a_quorum_where_the_owner_says_so():
    electors = Electorate(least=3)

    assert not electors.is_quorum((ONE, TWO))
    assert electors.is_quorum((TWO, THREE, FOUR), without=(TWO,))
    assert electors.elector(announce(KEYS[3])) == FOUR


# -- names ---------------------------------------------------------------------------------------------


def test_an_elector_is_named_by_its_key_or_by_where_it_listens():
    names = of_names([endpoint(KEYS[1]), endpoint(KEYS[0]), endpoint(KEYS[1])])

    assert names.members == tuple(sorted(endpoint(key).encode() for key in KEYS[:2]))
    assert names.elector(announce(KEYS[1])) == endpoint(KEYS[1]).encode()
    assert names.elector(announce(KEYS[2])) is None
    assert of_keys((TWO, ONE)).elector_at(TWO, "elsewhere:1") == TWO
    assert of_keys((TWO, ONE)).elector_at(THREE, endpoint(KEYS[1])) is None


def test_electors_have_one_digest_whatever_their_order_and_others_another():
    digests = [of_names(names).digest for names in (("a:1", "b:2"), ("a:1",), ("a:1b:2",), ("a:1", "b:3"))]
    digests += [Electorate(least=least).digest for least in (3, 4)]
    digests += [Electorate().digest, of_names(("a:1",), 1).digest]

    assert len({*digests, NO_ELECTORS}) == 9
    assert of_names(("b:2", "a:1")).digest == digests[0]


# -- ballots -------------------------------------------------------------------------------------------

NAMES = of_names(endpoint(key) for key in KEYS[:5])


def said(place: int, **changes):
    return ready(KEYS[place], ONE, electors=NAMES.digest, **changes)


def name(place: int) -> bytes:
    return endpoint(KEYS[place]).encode()


def test_the_votes_of_a_group_are_its_electors_that_are_free():
    readys = [said(0), said(1, open=(OPEN,)), said(2, open=(RESIGNED,)), said(3), said(5)]
    ballot = ballot_of(readys, (), NAMES)

    assert ballot.voters == {ONE: name(0), FOUR: name(3)}
    assert ballot.without == frozenset()
    assert not ballot.is_quorum((ONE, TWO, THREE, FOUR, KEYS[5].public))


def test_a_group_does_without_those_that_resigned_and_without_nobody_else():
    excused = [
        announce(KEYS[3], open=(RESIGNED,)),
        announce(KEYS[4], open=(RESIGNED, OPEN)),  # it resigned in doubt: that counts for nothing
        announce(KEYS[1], open=()),
        announce(KEYS[6], open=(RESIGNED,)),
    ]
    ballot = ballot_of([said(0), said(1), said(2)], excused, NAMES)

    assert ballot.without == {name(3)}
    assert ballot.is_quorum((ONE, TWO, THREE))
    assert not ballot.is_quorum((TWO, THREE))
    assert ballot.is_quorum((ONE, TWO)), "half of the four that are left, with the first of all"


def test_a_member_of_the_group_is_waited_for_even_if_somebody_excuses_it():
    ballot = ballot_of([said(0), said(1), said(2)], [announce(KEYS[0], open=(RESIGNED,))], NAMES)

    assert ballot.without == frozenset()


def test_who_is_gone_for_good_is_so_by_the_word_of_all_owners():
    some = [said(0, gone=(name(3), name(4))), said(1, gone=(name(4),)), said(2, gone=(name(4), name(0)))]

    assert ballot_of(some, (), NAMES).without == {name(4)}
    assert ballot_of([*some, said(3)], (), NAMES).without == frozenset()
    assert ballot_of([], (), NAMES).without == frozenset()


def test_two_nodes_at_one_name_have_one_vote():
    twice = [said(0), ready(KEYS[6], ONE, electors=NAMES.digest, endpoint=endpoint(KEYS[0])), said(1)]
    ballot = ballot_of(twice, (), NAMES)

    assert len(ballot.voters) == 3
    assert not ballot.is_quorum(ballot.voters)


# -- strong groups, and weak ones ----------------------------------------------------------------------


@pytest.mark.parametrize("bound", [(OPEN,), (RESIGNED,)])
def test_a_bound_or_a_resigned_node_makes_up_no_quorum(bound):
    group = group_of([said(0), said(1), said(2, open=bound)], KEYS[0])

    assert strong_ballot(group, NAMES) is None


def test_a_group_whose_members_count_with_different_electors_has_no_ballot():
    other = ready(KEYS[2], ONE, electors=of_names(("x:1",)).digest)
    group = group_of([said(0), said(1), other, said(3)], KEYS[0])

    assert strong_ballot(group, NAMES) is None
    assert strong_ballot(group, of_names(("x:1",))) is None


def test_of_a_first_base_the_tracker_names_the_electors():
    unnamed = [ready(key, ONE, electors=NO_ELECTORS) for key in KEYS[:3]]
    named = group_of(unnamed, KEYS[0], electors=(ONE, TWO, FOUR))
    ballot = strong_ballot(named, None)

    assert ballot is not None
    assert ballot.voters == {ONE: ONE, TWO: TWO}
    assert strong_ballot(group_of(unnamed, KEYS[0]), None) is None
    assert strong_ballot(replace(named, electors=(FOUR,)), None) is None
    assert strong_ballot(named, NAMES) is None, "who knows its electors takes no others"


def willing(*weak: bool, **changes):
    return group_of(
        [ready(key, ONE, weak=each, **changes) for key, each in zip(KEYS, weak, strict=False)], KEYS[0]
    )


def test_a_group_without_a_quorum_needs_all_to_be_willing_and_more_than_half():
    assert weak_allowed(willing(True, True, True), 5)
    assert not weak_allowed(willing(True, True, True), 6)
    assert not weak_allowed(willing(True, False, True), 3)


def test_where_owners_named_different_electors_of_the_first_base_nobody_need_wait():
    def differing(**changes):
        other = ready(KEYS[2], ONE, weak=False, electors=bytes(32), **changes)
        return group_of([ready(key, ONE, weak=False, **changes) for key in KEYS[:2]] + [other], KEYS[0])

    assert weak_allowed(differing(), 5)
    assert not weak_allowed(differing(), 6)
    assert not weak_allowed(differing(base=base(3, anchor=3)), 3), "of a later base there is one electorate"
