"""The line of a base: which links are kept, and where they lead."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from protocol.quorum.electorate import Electorate, of_keys, of_names
from protocol.quorum.lineage import (
    FIRST,
    MAX_LINKS,
    Anchored,
    Line,
    after,
    follow,
    included_in,
    is_opened,
    is_signed_by,
    members_of,
    passed_in,
    signed_by,
)
from protocol.wire.ids import RESIGNED
from protocol.wire.masked_messages import ReleaseHead, ResultCertificate
from protocol.wire.messages import Link
from tests.lines import chain, link, made, session_of
from tests.parts import base, endpoint, members

KEYS = members(8)
NAMES = of_names(endpoint(key) for key in KEYS[:3])


def keys(*places: int):
    return [KEYS[place] for place in places]


def of(*places: int) -> Electorate:
    return of_keys(KEYS[place].public for place in places)


def lined(links: list[Link], first: Electorate | None) -> Line:
    """Returns the line after these groups, each of which made a strong base."""
    line = FIRST
    for generation, each in enumerate(links, 1):
        line = after(line, each, generation, True, first)
    return line


# -- a link --------------------------------------------------------------------------------------------


def test_where_shares_are_summed_all_are_included_and_all_signed():
    one = link(keys(0, 1, 2), base())
    everybody = tuple(key.public for key in KEYS[:3])

    assert members_of(one) == included_in(one) == signed_by(one) == everybody


def test_a_masked_session_includes_some_and_others_may_have_signed():
    group = session_of(keys(0, 1, 2, 3), base())
    heads = tuple(ReleaseHead(bytes(32), KEYS[place].public, 0b1011, *[bytes(32)] * 3) for place in (0, 2, 3))
    one = Link(group, (ResultCertificate(bytes(32), 0b1011, (), (), (), heads),), ())

    assert included_in(one) == tuple(KEYS[place].public for place in (0, 1, 3))
    assert signed_by(one) == tuple(KEYS[place].public for place in (0, 2, 3))
    assert is_signed_by(one, of(0, 2, 5))
    assert not is_signed_by(one, of(0, 1, 5))
    summed = link(keys(0, 1, 2), base())
    lines = [Line(1, None, links) for links in ((), (summed, one), (one, summed))]
    assert [is_opened(each) for each in lines] == [False, True, False], "the last session made the base"


@pytest.mark.parametrize("bound", [(b"s" * 32,), (RESIGNED,)])
def test_a_signature_with_a_bound_vote_is_none(bound):
    free = session_of(keys(0, 1, 2), base())
    tied = session_of(keys(0, 1, 2), base(), open=bound)
    mixed = replace(free, readys=(free.readys[0], *tied.readys[1:]))
    certificate = link(keys(0, 1, 2), base()).sums

    assert is_signed_by(Link(free, (), certificate), of(0, 1, 2))
    assert not is_signed_by(Link(mixed, (), certificate), of(0, 1, 2))


# -- which links are kept ------------------------------------------------------------------------------


def test_a_weak_base_hangs_on_the_line_of_its_anchor():
    (strong,), (_, anchored) = chain([keys(0, 1, 2)])
    line = after(FIRST, strong, 1, True, NAMES)
    weak = link(keys(0, 3, 4), anchored)
    hanging = after(line, weak, 2, False, NAMES)
    later = after(hanging, link(keys(3, 4, 5), made(weak, strong=False)), 3, False, NAMES)

    assert hanging == Line(1, of(0, 1, 2), (strong,), weak)
    assert hanging.whole == (strong, weak)
    assert (later.anchor, later.electors, len(later.whole)) == (1, of(0, 1, 2), 2), "the last weak one alone"


def test_a_strong_base_after_a_weak_one_leaves_the_weak_one_out():
    (strong,), (_, anchored) = chain([keys(0, 1, 2)])
    weak = link(keys(0, 3, 4), anchored)
    line = after(after(FIRST, strong, 1, True, None), weak, 2, False, None)
    again = link(keys(0, 1, 3), made(weak, strong=False))

    assert after(line, again, 3, True, None) == Line(3, of(0, 1, 3), (strong, again))


def test_as_long_as_the_first_electors_sign_a_line_is_one_link():
    links, _ = chain([keys(0, 1, 2), keys(0, 1, 3), keys(0, 1, 2, 3)])

    assert lined(links, NAMES).links == (links[-1],)
    assert lined(links, None).links == (links[0], links[-1]), "of a tracker's first base they are not known"


def test_a_line_grows_where_its_electors_change():
    links, _ = chain([keys(0, 1, 3), keys(1, 3, 4), keys(3, 4, 5)])

    assert lined(links, NAMES) == Line(3, of(3, 4, 5), tuple(links))


def test_of_a_line_that_is_too_long_the_oldest_links_are_forgotten():
    turns = [keys(*((turn + step) % 8 for step in (0, 1, 2))) for turn in range(MAX_LINKS + 3)]
    links, _ = chain([sorted(turn, key=lambda key: key.public) for turn in turns])

    assert lined(links, NAMES).links == tuple(links[-MAX_LINKS:])


# -- following it --------------------------------------------------------------------------------------


def known_to(line: Line, first: Electorate | None) -> list[Anchored]:
    """Returns the electors that a node with this line knows."""
    return [*passed_in(line), *([] if first is None else [(0, first)])]


def grown(rng: Random, length: int) -> list[Link]:
    """Makes strong bases of random groups, each with a quorum of the electors before."""
    before, groups = of(0, 1, 2), list[list]()
    while len(groups) < length:
        drawn = sorted(rng.sample(KEYS, rng.randint(3, 5)), key=lambda key: key.public)
        if before.is_quorum({key.public for key in drawn}):
            groups.append(drawn)
            before = of_keys(key.public for key in drawn)
    return chain(groups)[0]


@pytest.mark.parametrize(("seed", "has_names"), list(product(range(12), (True, False))))
def test_whoever_stood_in_a_line_can_follow_it_to_its_end(seed, has_names):
    """Also after links became needless: from any base at which a node went away."""
    links, first = grown(Random(seed), 12), NAMES if has_names else None
    lines = [FIRST]
    for generation, each in enumerate(links, 1):
        lines.append(after(lines[-1], each, generation, True, first))
    for away in range(0 if has_names else 1, len(lines)):
        for back in range(away + 1, len(lines)):
            reached = follow(lines[back].links, known_to(lines[away], first))
            assert reached == lines[back].electors, f"seed {seed}: from {away} to {back}"
    assert min(len(line.links) for line in lines[6:]) < 6, f"seed {seed}: nothing was left out"


def test_a_line_leads_nowhere_from_somebody_elses_electors():
    links, _ = chain([keys(0, 1, 2), keys(0, 1, 3)])

    assert follow(links, [(0, of(5, 6, 7))]) is None
    assert follow(links, []) is None
    assert follow([], [(0, NAMES)]) is None


def test_a_link_that_no_quorum_signed_ends_what_can_be_followed():
    first, second = chain([keys(0, 1, 2), keys(0, 5, 6)])[0]  # one of three is no quorum

    assert follow([first], [(0, NAMES)]) == of(0, 1, 2)
    assert follow([first, second], [(0, NAMES)]) is None


def test_links_in_the_wrong_order_lead_nowhere():
    links, _ = chain([keys(0, 1, 3), keys(1, 3, 4), keys(3, 4, 5)])

    assert follow(links, [(0, NAMES)]) == of(3, 4, 5)
    assert follow([links[0], links[2], links[1]], [(0, NAMES)]) is None
    assert follow([links[2], links[0]], [(0, NAMES)]) == of(0, 1, 3), (
        "it is the caller who asks where it ends"
    )


def test_what_electors_signed_before_their_anchor_is_no_link():
    """A node must not present an old weak base, by nodes that are a quorum now, as a strong one."""
    old = link(keys(0, 1, 2), base(4, anchor=1))

    assert follow([old], [(2, of(0, 1, 2))]) is None
    assert follow([old], [(1, of(0, 1, 2))]) == of(0, 1, 2)
