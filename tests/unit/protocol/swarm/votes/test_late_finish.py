"""A session that is over for everybody gets its result from the members whose votes are bound to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from protocol.actions import Completed, Failed, Healed, Keep, OpenVote, Send, Vote
from protocol.aggregation.masked.release import release_digest
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.aggregation.participant import SessionTimeouts
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_names
from protocol.swarm.node import Node
from protocol.swarm.node_state import Timeouts
from protocol.swarm.votes.late_finish import AGAIN_S, LateFinish, LateFinishes
from protocol.wire.masked_messages import Release, ResultCertificate
from protocol.wire.messages import Sum
from tests.parts import NOW, announce, endpoint, kinds, members, outbox, rand, resigned, settings
from tests.wires import INITIAL, Wires

KEYS = members(5)
ONE, TWO, THREE, FOUR, FIVE = KEYS
MASKED = MaskedSettings(4.0, None, 0)
ONES = np.ones(5, dtype="<f4").tobytes()


def ended(count: int, withheld: type, masked: MaskedSettings | None, seconds: float) -> Wires:
    """Ends a session in which this never arrived: over for all, and each one's vote is bound to it."""
    wires = Wires(KEYS[:count], masked=masked).open()
    wires.dropped = lambda _from, _to, message: isinstance(message, withheld)
    wires.offer()
    while len(wires.ends(Failed)) < count and seconds > 0:
        wires.tick(1)
        seconds -= 1
    assert len(wires.ends(Failed)) == count
    assert all(len(wires[key]._state.votes) == 1 for key in wires.keys)
    assert {wires[key].base for key in wires.keys} == {INITIAL}
    return wires


def summed() -> Wires:
    return ended(3, Sum, None, 30)


def masked(count: int = 4) -> Wires:
    return ended(count, Release, MASKED, 120)


KINDS: dict[str, Callable[[], Wires]] = {"shares": summed, "masks": masked}


def talk(wires: Wires, seconds: int = 60, *among) -> Wires:
    """Lets them hear each other for a while."""
    for _ in range(seconds):
        wires.tick(1, *among)
    return wires


def restarted(wires: Wires, key, number: int) -> None:
    """Restarts a process from what was stored."""
    old = wires[key]
    where = replace(old._state, epoch=old._state.epoch + 1, counter=0, votes=dict(old._state.votes))
    own = replace(old._settings, instance=bytes([number]) * 16)
    wires.nodes[endpoint(key)] = Node(own, where, {}, rand(200 + number))
    wires.carry_out(endpoint(key), wires[key].open(wires.now))
    wires.quiet()


# -- over real sessions --------------------------------------------------------------------------------


@pytest.mark.parametrize("start_anew", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_released_makes_the_mean_when_it_arrives_after_the_end(kind, start_anew):
    wires = KINDS[kind]()
    wires.dropped = lambda *_: False
    if start_anew:
        wires.done.clear()
        for number, key in enumerate(wires.keys):
            restarted(wires, key, number + 1)
    talk(wires)

    assert wires.ends(Completed) == []
    assert {end.result.tobytes() for _, end in wires.ends(Healed)} == {ONES}
    bases = {wires[key].base for key in wires.keys}
    assert len(bases) == 1
    assert bases.pop().anchor == 1
    assert not any(wires[key]._state.votes for key in wires.keys)


def test_more_sessions_do_not_make_a_node_forget_one_that_its_vote_is_in():
    wires = summed()
    (sid,) = wires[ONE]._state.votes
    past = wires[ONE]._catch_up.past[sid]
    for number in range(20):
        wires[ONE]._catch_up.remember(bytes([number]) * 32, past)
    wires.dropped = lambda *_: False
    talk(wires)

    assert {wires[key].base.anchor for key in wires.keys} == {1}


def test_without_enough_releases_nothing_is_opened_and_the_votes_stay():
    wires = masked()
    wires.dropped = lambda _from, to, _: to in (endpoint(THREE), endpoint(FOUR))
    talk(wires, 60, ONE, TWO)

    assert wires.ends(Healed) == []
    assert all(len(wires[key]._state.votes) == 1 for key in (ONE, TWO))


def test_who_never_released_gets_the_base_of_those_that_did():
    """Four of five are enough; the fifth fetches what they have."""
    wires = Wires(KEYS, masked=MASKED).open()
    wires.dropped = lambda from_, to, message: (
        isinstance(message, Release) or (to == endpoint(FIVE) and type(message).__name__ == "Ack")
    )
    wires.offer()
    talk(wires, 100)
    assert [len(wires[key]._state.votes) for key in KEYS] == [1, 1, 1, 1, 0]
    wires.dropped = lambda *_: False
    talk(wires)

    assert {wires[key].base.anchor for key in KEYS} == {1}


def test_a_vote_comes_before_the_first_release_and_behind_what_is_kept():
    """For both kinds of session: the actions in the order in which a shell carries them out."""
    for count, masks, withheld in ((3, None, Sum), (4, MASKED, Release)):
        wires, seen = Wires(KEYS[:count], masked=masks).open(), dict[str, list[str]]()
        carry_out = wires.carry_out

        def watch(where, actions, seen=seen, withheld=withheld, carry_out=carry_out):
            actions = list(actions)
            for action in actions:
                is_release = isinstance(action, Send) and any(
                    isinstance(m, withheld) for m in action.messages
                )
                name = "release" if is_release else type(action).__name__
                seen.setdefault(where, []).append(name)
            carry_out(where, actions)

        wires.carry_out = watch
        wires.offer()
        assert len(wires.ends(Completed)) == count
        for order in seen.values():
            assert order.count("Vote") == 1
            assert order.index("Spend") < order.index("Vote") < order.index("release")
            assert "Keep" in order[: order.index("Vote")]


def test_a_group_without_a_quorum_binds_no_votes():
    wires = Wires(KEYS[:3], electorate=of_names(["elsewhere:1"])).open()
    for key in wires.keys:
        wires[key]._patience.is_willing = lambda _now: True
    wires.offer()
    ends = wires.ends(Completed)

    assert len(ends) == 3
    assert [told for _, told in wires.told if isinstance(told, Vote)] == []
    assert {(wires[key].base.generation, wires[key].base.anchor) for key in wires.keys} == {(1, 0)}
    assert all(end.line.weak is not None for _, end in ends)


# -- one of them ---------------------------------------------------------------------------------------


def finishing(wires: Wires, key=ONE) -> LateFinish:
    """Makes what this node holds of the session that its vote is bound to."""
    session = wires[key]
    ((_, vote),) = session._state.votes.items()
    return LateFinish(vote, vote.group, session._voting.ballot(vote.group), session._settings)


def released(wires: Wires, key) -> Release:
    ((_, vote),) = wires[key]._state.votes.items()
    return vote.release


def sums(wires: Wires, key) -> list[Sum]:
    ((_, vote),) = wires[key]._state.votes.items()
    return list(vote.parts)


def showing(wires: Wires, key, **changes):
    (sid,) = wires[ONE]._state.votes
    return announce(key, **{"open": (sid,), **changes})


@pytest.mark.parametrize(("kind", "sent"), [("shares", Sum), ("masks", Release)])
def test_what_was_said_is_given_to_members_that_show_the_session_and_not_again_at_once(kind, sent):
    wires = KINDS[kind]()
    late = finishing(wires)
    given = outbox(late.give(showing(wires, TWO), False, NOW), TWO.public)

    assert {type(each) for each in given} == {sent}
    assert late.give(showing(wires, TWO), False, NOW + AGAIN_S - 0.1) == []
    assert late.give(showing(wires, TWO), False, NOW + AGAIN_S) != []
    assert late.give(showing(wires, THREE), False, NOW) != []
    assert late.give(showing(wires, FIVE), False, NOW) == [], "it was not in the session"
    assert late.give(showing(wires, TWO, open=(bytes(32),)), False, NOW + 2 * AGAIN_S) == []


def test_a_sum_is_given_again_once_its_bulk_had_the_time_and_not_while_its_session_runs():
    """A slow member once had each sum three times on its way, and the next session waited for them."""
    wires = summed()
    late = finishing(wires)
    timeouts = Timeouts(1.0, SessionTimeouts(1.0, 1.0, least_rate=1.0))
    late._settings = replace(late._settings, timeouts=timeouts)
    assert late.give(showing(wires, TWO), True, NOW) == []
    assert late.give(showing(wires, TWO), False, NOW) != []
    again_s = AGAIN_S + 2 * 4 * late._settings.aggregation.longest * (len(late._members) - 1)
    assert late.give(showing(wires, TWO), False, NOW + again_s - 0.1) == []
    assert late.give(showing(wires, TWO), False, NOW + again_s) != []


def test_of_a_sum_that_is_not_here_any_more_nothing_is_given():
    wires = summed()
    late = finishing(wires)
    late._vote = replace(late._vote, parts=())

    assert late.give(showing(wires, TWO), False, NOW) == []


def test_with_enough_releases_the_secrets_are_open():
    wires = masked(5)
    late = finishing(wires)
    for key in (TWO, THREE):
        late.take_release(released(wires, key))
    assert (late.certificate, late.sources) == (None, (TWO.public, THREE.public))
    late.take_release(released(wires, FIVE))

    assert isinstance(late.certificate, ResultCertificate)
    released_by = [key.public for key in (ONE, TWO, THREE, FIVE)]
    assert [head.sender for head in late.certificate.releases] == released_by
    assert late.sources == tuple(released_by[1:])


def test_enough_to_open_but_no_quorum_opens_nothing():
    wires = masked(5)
    late = finishing(wires)
    late._ballot = replace(late._ballot, voters={FIVE.public: b"5"}, electorate=of_names(["5"]))
    for key in (TWO, THREE, FOUR):
        late.take_release(released(wires, key))
    assert late.certificate is None
    late.take_release(released(wires, FIVE))

    assert late.certificate is not None


def test_releases_for_something_else_are_refused():
    wires = masked()
    late, good = finishing(wires), released(wires, TWO)
    more = (*good.shares, good.shares[0])
    other = {
        "for something else": replace(good, head=resigned(good.head, TWO, totals=bytes(32))),
        "late release for something": replace(good, head=resigned(good.head, TWO, included=7)),
        "release for something": replace(good, head=resigned(good.head, TWO, joins=bytes(32))),
        "of other shares": replace(good, shares=(*good.shares[1:], good.shares[0])),
        "other shares than its head": replace(good, shares=good.shares[1:]),
        "than its head names": Release(resigned(good.head, TWO, shares=release_digest(more)), more),
        "somebody else's session": replace(good, head=resigned(good.head, FIVE, sender=FIVE.public)),
        "bad release": replace(good, head=resigned(good.head, THREE)),
    }
    for match, release in other.items():
        with pytest.raises(RemoteProtocolError, match=match):
            late.take_release(release)
    with pytest.raises(RemoteProtocolError, match="somebody else's session"):
        finishing(summed()).take_release(good)

    assert late.sources == ()


def lying(good: Release, share: bytes) -> Release:
    """Member two releases this in place of the first share that it received."""
    shares = (share, *good.shares[1:])
    return replace(good, shares=shares, head=resigned(good.head, TWO, shares=release_digest(shares)))


def test_a_share_that_is_no_number_is_refused_before_anything_changes():
    wires = masked()
    late = finishing(wires)
    with pytest.raises(RemoteProtocolError, match="no number below"):
        late.take_release(lying(released(wires, TWO), b"\xff" * 32))

    assert late.sources == ()


def test_a_share_that_was_not_dealt_opens_nothing():
    """Nobody can say here whose fault it is: the session itself accused those that it could."""
    wires = masked()
    late, good = finishing(wires), released(wires, TWO)
    lie = lying(good, bytes(32))
    for release in (lie, released(wires, THREE), released(wires, FOUR)):
        assert late.take_release(release) == []

    assert len(late.sources) == 3
    assert late.certificate is None


def test_n_sums_make_the_mean():
    wires = summed()
    late, first, second = finishing(wires), sums(wires, TWO), sums(wires, THREE)
    assert [action for each in first for action in late.take_sum(each)] == [Keep((first[0],))]
    kept, healed = [action for each in second for action in late.take_sum(each)]

    assert isinstance(healed, Healed)
    assert kept == Keep((second[0],)), "others may ask for it"
    assert (healed.result.tobytes(), healed.source) == (ONES, THREE.public)
    assert healed.contributors == tuple(key.public for key in KEYS[:3])


def test_sums_of_strangers_or_of_other_shares_are_refused():
    wires = summed()
    late = finishing(wires)
    (good,) = sums(wires, TWO)
    refused = {
        "not in this session": replace(good, sender=FIVE.public),
        "bad sum signature": replace(good, signature=bytes(64)),
        "contradicts what is here": resigned(good, TWO, contributors=bytes(32)),
        "not what its header names": replace(good, payload=bytes(len(good.payload))),
    }
    for match, message in refused.items():
        with pytest.raises(RemoteProtocolError, match=match):
            late.take_sum(message)
    late.take_sum(good)
    with pytest.raises(RemoteProtocolError, match="contradicts what is here"):
        late.take_sum(resigned(good, TWO, pieces=(bytes(32),)))
    with pytest.raises(RemoteProtocolError, match="here already"):
        late.take_sum(good)


# -- all of them ---------------------------------------------------------------------------------------


def test_they_come_and_go_with_the_votes_that_count():
    wires = summed()
    ((sid, vote),) = wires[ONE]._state.votes.items()
    votes = {sid: vote, bytes(32): OpenVote(bytes(32), 0)}
    lates = LateFinishes(settings(ONE), votes, wires[ONE]._voting.ballot)
    assert (lates.get(bytes(32)), lates.opened) == (None, ())
    kept = lates.get(sid)
    lates.forget_closed()
    assert lates.get(sid) is kept
    assert kinds(lates.give(showing(wires, TWO), None, NOW)) == ["Send"]
    votes.clear()
    lates.forget_closed()
    assert lates.get(sid) is None


def test_a_vote_that_does_not_count_here_is_not_finished():
    wires = summed()
    lates = LateFinishes(settings(ONE), wires[ONE]._state.votes, lambda _: None)
    (sid,) = wires[ONE]._state.votes
    assert lates.get(sid) is None
