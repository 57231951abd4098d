"""The additive machine: three exits, nothing sent too early or too late, nothing wrong accepted."""

from dataclasses import replace

import numpy as np
import pytest

from protocol.actions import Completed, Due, Failed, Keep, Reason, Send, Spend, Withheld
from protocol.aggregation.additive.machine import Additive, Phase
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.equivocation import caught
from protocol.aggregation.lacking import GRACE_S
from protocol.aggregation.participant import SessionTimeouts
from protocol.crypto.bulk_digest import bulk_digest
from protocol.errors import LocalProtocolError, NotFiniteError, RemoteProtocolError
from protocol.quorum.electorate import ballot_of
from protocol.vectors.pieces import PIECE_WORDS, raw
from protocol.wire import signing
from protocol.wire.masked_messages import Lacking
from protocol.wire.member_sets import set_of
from protocol.wire.messages import Certificate, Share, Sum
from tests.parts import (
    ANY_THREE,
    NOW,
    completed,
    group,
    kinds,
    machines,
    mean_of,
    members,
    only,
    outbox,
    rand,
    resigned,
    shared,
    started,
    stranger,
    sums_to,
    vector,
)

KEYS = members(3)
ONE, TWO, THREE = (key.public for key in KEYS)
VECTORS = [vector(number) for number in range(3)]


def at_shares() -> tuple[Additive, list[Share]]:
    """Returns a started machine, and the shares for it."""
    all_three = machines(3)
    shares = started(all_three, VECTORS)
    return all_three[0], [shares[1][ONE][0], shares[2][ONE][0]]


def at_sums() -> tuple[Additive, list[Sum]]:
    """Returns a machine that has sent its sum, and the sums for it."""
    all_three = machines(3)
    results = shared(all_three, VECTORS)
    return all_three[0], [sent[0] for sent in sums_to(results, ONE) if sent]


def refused(machine: Additive, message: Share | Sum | Lacking, match: str) -> None:
    """Checks that the message is refused and changes nothing."""
    before = (machine.phase, machine.deadline, machine.waiting_for(), dict(machine.headers))
    with pytest.raises(RemoteProtocolError, match=match):
        machine.receive(message, NOW + 3)
    assert before == (machine.phase, machine.deadline, machine.waiting_for(), dict(machine.headers))


def finish(machine: Additive, messages: list[Sum]) -> list:
    return [action for message in messages for action in machine.receive(message, NOW + 2)]


# -- the course of a session -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 4, 7])
def test_everyone_ends_with_the_same_mean(count):
    vectors = [vector(number) for number in range(count)]
    means = [mean_of(actions) for actions in completed(machines(count), vectors)]

    np.testing.assert_allclose(means[0], np.mean(vectors, axis=0), atol=1e-6)
    assert len({mean.tobytes() for mean in means}) == 1


def test_start_sends_one_sealed_share_to_each_other_member_and_no_spend():
    machine = machines(3)[0]
    actions = machine.start(VECTORS[0], rand(0), NOW)

    assert [action.to for action in actions] == [TWO, THREE]
    assert kinds(actions) == ["Send", "Send"]
    assert (machine.deadline, machine.waiting_for(), machine.participant.round) == (
        NOW + 15.0,
        (TWO, THREE),
        1,
    )


def test_what_is_sent_before_spend_does_not_depend_on_the_vector():
    sent = []
    for offered in (VECTORS[0], VECTORS[1]):
        actions = machines(3)[0].start(offered, rand(0), NOW)
        sent.append([outbox(actions, key) for key in (TWO, THREE)])

    assert sent[0] == sent[1]


def test_every_recipient_gets_a_seed_of_its_own():
    """Two recipients with one seed could subtract both shares from each other's sums."""
    all_three = machines(3)
    sent = started(all_three, VECTORS)[0]
    opened = []
    for machine, key in ((all_three[1], TWO), (all_three[2], THREE)):
        header = b"share" + machine.sid + ONE + key + bytes(4)
        opened.append(machine.participant.channel(ONE, key).open(0, header, sent[key][0].payload))

    assert len(opened[0]) == 32
    assert opened[0] != opened[1]


def test_spend_comes_once_and_before_the_first_sum():
    machine, shares = at_shares()
    assert machine.receive(shares[0], NOW + 1) == []
    actions = machine.receive(shares[1], NOW + 1)

    assert kinds(actions) == ["Spend", "Send", "Send", "Keep"]
    assert actions[0] == Spend(machine.sid, 1, 0)
    assert (machine.phase, machine.deadline, machine.waiting_for()) == (Phase.SUMS, NOW + 11.0, (TWO, THREE))


def test_where_votes_count_the_sum_is_kept_and_the_vote_stored_before_the_first_sum():
    machine, shares = at_shares()
    ballot = ballot_of(machine.participant.group.readys, (), ANY_THREE)
    machine.participant = replace(machine.participant, ballot=ballot)
    machine.receive(shares[0], NOW + 1)
    actions = machine.receive(shares[1], NOW + 1)

    assert kinds(actions) == ["Spend", "Keep", "Vote", "Send", "Send"]
    vote, (kept,) = actions[2].vote, actions[1].parts
    assert (vote.sid, vote.anchor, vote.group) == (machine.sid, 0, machine.participant.group)
    assert (vote.proof, vote.release) == (Certificate(machine.sid, (kept.header,)), None)
    assert list(vote.parts) == [kept]


def test_spend_comes_before_the_first_sum_even_when_all_others_are_here_already():
    all_three = machines(3)
    shares = started(all_three, VECTORS)
    for machine, key in zip(all_three[1:], (TWO, THREE), strict=True):
        for sender in range(3):
            for share in shares[sender][key]:
                actions = machine.receive(share, NOW)
        (message,) = outbox(actions, ONE)
        assert kinds(all_three[0].receive(message, NOW)) == ["Keep"]
    all_three[0].receive(shares[1][ONE][0], NOW)
    actions = all_three[0].receive(shares[2][ONE][0], NOW)

    assert kinds(actions) == ["Spend", "Send", "Send", "Keep", "Completed"]


def test_spend_says_how_many_coordinates_were_clipped():
    all_three = machines(3)
    results = shared(all_three, [np.full(5, 4.5, dtype="<f4"), *VECTORS[1:]])

    assert only(results[0], Spend).clipped == 5


def test_completed_holds_a_certificate_with_the_signed_header_of_each_member_and_every_sum_is_kept():
    machine, sums = at_sums()
    actions = finish(machine, sums)
    done = only(actions, Completed)

    assert [part for action in actions if isinstance(action, Keep) for part in action.parts] == sums
    assert [header.sender for header in done.certificate.sums] == [ONE, TWO, THREE]
    assert all(header.payload == b"" and header.index == 0 for header in done.certificate.sums)
    assert (done.sid, done.round, done.group) == (machine.sid, 1, group(KEYS))


def test_a_sum_of_several_pieces_may_come_in_any_order():
    dimension = PIECE_WORDS + 2
    vectors = [vector(number, dimension) for number in range(3)]
    all_three = machines(3, dimension, ShareSettings("ring", 4.0, 100.0))
    pieces = [message for sent in sums_to(shared(all_three, vectors), ONE) for message in sent]
    done = only(finish(all_three[0], pieces[::-1]), Completed)

    np.testing.assert_allclose(done.result, np.mean(vectors, axis=0), atol=1e-6)


def test_a_machine_starts_once_also_if_it_has_failed():
    machine = machines(3)[0]
    assert machine.unreachable(TWO, NOW) == []  # nothing has begun that it could end
    machine.start(VECTORS[0], rand(0), NOW)
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="starts once"):
            machine.start(VECTORS[0], rand(0), NOW)
        machine.unreachable(TWO, NOW)


def test_a_vector_that_is_not_finite_leaves_nothing_sent():
    machine = machines(3)[0]
    with pytest.raises(NotFiniteError):
        machine.start(np.full(5, np.nan, dtype="<f4"), rand(0), NOW)
    assert machine.start(VECTORS[0], rand(0), NOW)


def test_another_members_ready_is_known_ones_own_and_a_strangers_is_not():
    machine = machines(3)[0]

    assert machine.participant.ready_of(TWO).key == TWO
    assert machine.participant.ready_of(ONE) is None
    assert machine.participant.ready_of(stranger().public) is None


def failed(machine: Additive, reason: Reason, missing: bytes, *owing: bytes) -> Failed:
    due = Due.SHARE if reason is Reason.SHARES_TIMEOUT else Due.SUM
    return Failed(reason, 1, (missing,), machine.sid, Withheld(machine.sid, due, owing) if owing else None)


# -- the three exits -------------------------------------------------------------------------------------


def test_without_all_shares_the_round_ends_unspent_and_nothing_is_sent():
    machine, shares = at_shares()
    machine.receive(shares[0], NOW + 1)
    assert machine.tick(NOW + 14.9) == []

    *sends, end = machine.tick(NOW + 15.0)
    assert {type(one.messages[0]) for one in sends} == {Lacking}
    assert end == failed(machine, Reason.SHARES_TIMEOUT, THREE, THREE)
    refused(machine, shares[1], "not running")


def test_without_all_sums_the_round_ends_with_ones_own_update_and_a_late_one_never_becomes_a_model():
    """The fault of the reference system: a random partial sum was taken for the model."""
    machine, sums = at_sums()
    machine.receive(sums[0], NOW + 2)

    assert machine.tick(NOW + 10.9) == []
    assert machine.tick(NOW + 11.0) == [failed(machine, Reason.SUMS_TIMEOUT, THREE, THREE)]
    refused(machine, sums[1], "not running")


RATE = 64_000.0
TAKES_S = 2 * (2 * 4 * 5) / RATE
"""The time for two vectors of five words."""


def at_rate(machine: Additive) -> Additive:
    machine.participant = replace(machine.participant, timeouts=SessionTimeouts(15.0, 10.0, RATE))
    return machine


def test_a_half_goes_on_once_for_sums_that_are_on_their_way():
    machine, _ = at_sums()
    at_rate(machine).arriving(TWO)
    machine.arriving(THREE)
    assert machine.tick(NOW + 11.0) == []
    assert machine.deadline == NOW + 11.0 + TAKES_S
    machine.arriving(THREE)
    (end,) = machine.tick(NOW + 11.0 + TAKES_S)
    assert (end.missing, end.withheld.keys) == ((TWO, THREE), (TWO, THREE))


def test_who_sent_nothing_ends_a_half_in_time_and_alone_owes_something():
    machine, _ = at_sums()
    at_rate(machine).arriving(TWO)
    (end,) = machine.tick(NOW + 11.0)
    assert (end.missing, end.withheld.keys) == ((TWO, THREE), (THREE,))


def test_what_came_in_the_first_half_gives_no_time_to_the_second():
    machine, _ = at_shares()
    at_rate(machine).arriving(TWO)
    machine.arriving(THREE)
    assert machine.tick(NOW + 15.0) == []
    machine._await(NOW + 30.0)
    assert kinds(machine.tick(NOW + 30.0))[-1] == "Failed"


@pytest.mark.parametrize("at", [at_shares, at_sums])
def test_sums_over_other_contributors_end_the_round_also_if_they_come_early(at):
    machine, due = at()
    other = resigned(at_sums()[1][0], KEYS[1], contributors=bytes(32))

    assert machine.receive(other, NOW + 2) == [Failed(Reason.CONTRIBUTORS_DIFFER, 1, (TWO,), machine.sid)]
    refused(machine, due[1], "not running")


@pytest.mark.parametrize("at", [at_shares, at_sums])
def test_a_member_that_can_not_be_reached_ends_the_round_at_once(at):
    machine, _ = at()
    reason = Reason.SHARES_TIMEOUT if at is at_shares else Reason.SUMS_TIMEOUT

    *sends, end = machine.unreachable(TWO, NOW + 2)
    assert end == failed(machine, reason, TWO, TWO)
    assert {type(one.messages[0]) for one in sends} == ({Lacking} if at is at_shares else set())
    assert machine.unreachable(TWO, NOW + 2) == []


def test_a_member_that_gave_up_did_so_for_want_of_those_that_one_waits_for_too():
    machine, _ = at_shares()
    reason = Reason.SHARES_TIMEOUT
    assert machine.gave_up(TWO, NOW) == [failed(machine, reason, THREE)]

    machine, shares = at_shares()
    machine.receive(shares[1], NOW)
    assert machine.gave_up(TWO, NOW) == [failed(machine, reason, TWO)], "another may have withheld its share"

    machine, _ = at_sums()
    assert machine.gave_up(TWO, NOW) == [failed(machine, Reason.SUMS_TIMEOUT, THREE, TWO)]


# -- shares that do not arrive ---------------------------------------------------------------------------


def lacks(machine: Additive, number: int, *whose: bytes) -> Lacking:
    """Returns what another member says: that it lacks these members' shares."""
    key = members(len(machine.members))[number]
    return signing.sign(Lacking(machine.sid, key.public, set_of(whose, machine.members)), key)


def with_four() -> tuple[Additive, list[Share], tuple[bytes, ...]]:
    """Returns the first of four machines, the others' shares for it, and all keys."""
    all_four = machines(4)
    shares = started(all_four, [vector(number) for number in range(4)])
    me = all_four[0].participant.me
    return all_four[0], [shares[number][me][0] for number in (1, 2, 3)], all_four[0].members


def test_of_more_than_three_who_cannot_reach_a_member_complains_of_nobody():
    machine, _, (_, two, *_) = with_four()
    assert kinds(machine.unreachable(two, NOW)) == ["Failed"]


def test_who_lacks_a_share_says_so_soon_after_another_s_sum_shows_that_that_one_has_all():
    machine, shares, (one, *others) = with_four()
    four = others[-1]
    for share in (shares[0], shares[1]):
        machine.receive(share, NOW)
    sums = sums_to(shared(machines(4), [vector(number) for number in range(4)]), one)
    machine.receive(sums[1][0], NOW + 1.0)
    machine.receive(sums[3][0], NOW + 2.0)
    assert machine.deadline == NOW + 1.0 + GRACE_S
    sends = machine.tick(NOW + 1.0 + GRACE_S)
    said = signing.sign(Lacking(machine.sid, one, set_of((four,), machine.members)), members(4)[0])
    assert sends == [Send(key, (said,)) for key in others]
    assert (machine.phase, machine.deadline) == (Phase.SHARES, NOW + 15.0), "it may come late"
    machine.receive(sums[2][0], NOW + 3.0)
    assert machine.deadline == NOW + 15.0
    assert kinds(machine.tick(NOW + 15.0)) == ["Failed"], "it says so once"


def test_who_waits_for_shares_that_are_on_their_way_complains_of_nobody():
    machine, shares, (one, *_) = with_four()
    for share in (shares[0], shares[1]):
        machine.receive(share, NOW)
    machine.arriving(machine.members[3])
    sums = sums_to(shared(machines(4), [vector(number) for number in range(4)]), one)
    machine.receive(sums[1][0], NOW + 1.0)
    assert machine.tick(NOW + 1.0 + GRACE_S) == []
    assert "Spend" in kinds(machine.receive(shares[2], NOW + 4.0))


def test_a_member_that_lacks_a_share_owes_no_sum():
    machine, shares, (one, two, _, four) = with_four()
    for share in shares:
        machine.receive(share, NOW)
    sums = sums_to(shared(machines(4), [vector(number) for number in range(4)]), one)
    machine.receive(sums[2][0], NOW)
    machine.receive(sums[3][0], NOW)
    assert machine.receive(lacks(machine, 1, four), NOW) == []
    end = only(machine.tick(NOW + 15.0), Failed)
    assert end.missing == (two,)
    assert end.withheld == Withheld(machine.sid, Due.SUM, (), ((two, four),))


def after_two_in_dispute() -> tuple[Additive, list[Sum]]:
    """Returns a machine with all shares that sends its sum after two and three, and their sums."""
    three = machines(3)
    sums = sums_to(shared(machines(3), VECTORS), ONE)
    three[0] = Additive(three[0].participant, three[0]._shares, frozenset((TWO, THREE)))
    sent = started(three, VECTORS)
    assert [three[0].receive(sent[number][ONE][0], NOW + 1) for number in (1, 2)] == [[], []]
    return three[0], [sums[1][0], sums[2][0]]


def test_who_sends_its_sum_after_two_in_dispute_spends_nothing_before_theirs_are_here():
    machine, sums = after_two_in_dispute()
    assert (machine.phase, machine.waiting_for()) == (Phase.SHARES, (TWO, THREE))
    assert kinds(machine.receive(sums[0], NOW + 2)) == ["Keep"]
    done = machine.receive(sums[1], NOW + 2)
    assert kinds(done) == ["Keep", "Spend", "Send", "Send", "Keep", "Completed"]


def test_it_waits_for_longer_than_they_wait_for_shares_and_then_the_offer_is_fresh():
    machine, sums = after_two_in_dispute()
    machine.receive(sums[0], NOW + 2)
    said = only(machine.tick(NOW + 2 + GRACE_S)[:1], Send).messages[0]
    assert said.missing == set_of((THREE,), machine.members), "two, which has sent its sum, excuses it"
    assert machine.tick(NOW + 25.9) == []
    end = only(machine.tick(NOW + 26.0), Failed)
    assert end.reason is Reason.SHARES_TIMEOUT
    assert end.withheld == Withheld(machine.sid, Due.SUM, (THREE,))


@pytest.mark.parametrize(("says", "keys"), [(True, ()), (False, (TWO,))])
def test_of_two_in_dispute_the_one_that_gives_up_says_why_or_owes_its_sum(says, keys):
    machine, _ = after_two_in_dispute()
    if says:
        machine.receive(lacks(machine, 1, THREE), NOW + 2)
    end = only(machine.gave_up(TWO, NOW + 2), Failed)
    assert end.reason is Reason.SHARES_TIMEOUT
    assert end.withheld == Withheld(machine.sid, Due.SUM, keys, ((TWO, THREE),) if says else ())


def test_whose_share_is_missing_there_and_here_owes_it():
    machine, shares, (_, two, three, four) = with_four()
    machine.receive(shares[0], NOW)
    machine.receive(lacks(machine, 1, four), NOW)
    *sends, end = machine.gave_up(two, NOW)
    assert [only([send], Send).to for send in sends] == [two, three, four]
    assert {one.messages[0].missing for one in sends} == {set_of((four,), machine.members)}
    assert end.withheld == Withheld(machine.sid, Due.SHARE, (four,))


def test_who_says_that_it_lacks_this_member_s_share_or_most_shares_is_not_excused():
    for whose in ((0,), (0, 3), (2, 3)):
        machine, shares, keys = with_four()
        for share in shares:
            machine.receive(share, NOW)
        machine.receive(lacks(machine, 1, *(keys[number] for number in whose)), NOW)
        end = only(machine.tick(NOW + 15.0), Failed)
        assert end.withheld.keys == keys[1:]
        assert end.withheld.disputes == ()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"missing": 0}, "of nobody"),
        ({"missing": 1 << 4}, "strangers"),
        ({"missing": 0b10}, "of its sender"),
        ({"sid": bytes(32)}, "another session or sender"),
        ({"sender": stranger().public}, "another session or sender"),
        ({"signature": bytes(64)}, "bad lacking signature"),
    ],
)
def test_an_invalid_lacking_is_refused(change, match):
    machine, _, (*_, four) = with_four()
    said = lacks(machine, 1, four)
    wrong = replace(said, **change)
    refused(machine, wrong if "signature" in change else resigned(wrong, members(4)[1]), match)
    assert machine.receive(said, NOW) == []
    refused(machine, said, "here already")


def test_a_member_that_goes_before_its_sum_is_due_owes_nothing():
    machine, shares = at_shares()
    machine.receive(shares[0], NOW)

    assert machine.unreachable(TWO, NOW) == [failed(machine, Reason.SHARES_TIMEOUT, TWO)]


def test_a_stranger_may_go_and_a_member_whose_sum_is_here():
    machine, sums = at_sums()
    machine.receive(sums[0], NOW + 2)

    assert machine.unreachable(stranger().public, NOW) == []
    assert machine.unreachable(TWO, NOW + 2) == []
    assert kinds(machine.receive(sums[1], NOW + 2)) == ["Keep", "Completed"]


def test_before_its_start_a_session_takes_nothing_in_and_after_its_end_it_waits_for_nothing():
    refused(machines(3)[0], at_shares()[1][0], "not running")
    machine, sums = at_sums()
    finish(machine, sums)

    assert (machine.phase, machine.deadline, machine.waiting_for()) == (Phase.DONE, None, ())
    assert machine.tick(NOW + 1000) == []
    refused(machine, sums[0], "not running")


# -- what does not belong here ---------------------------------------------------------------------------


def test_shares_that_do_not_belong_here_are_refused_and_change_nothing():
    machine, (share, _) = at_shares()

    refused(machine, replace(share, sid=bytes(32)), "another session")
    refused(machine, replace(share, sender=stranger().public), "another session or sender")
    refused(machine, replace(share, sender=ONE), "another session or sender")
    refused(machine, replace(share, sender=THREE), "does not open")
    refused(machine, replace(share, recipient=TWO), "for another member")
    refused(machine, replace(share, index=1), "out of range")
    refused(machine, replace(share, payload=share.payload[:-1]), "does not open")
    assert kinds(machine.receive(share, NOW)) == []


def test_a_second_share_of_a_sender_is_refused_and_does_not_change_the_sum():
    all_three = machines(3)
    shares = started(all_three, VECTORS)
    sent = [outbox(all_three[2].receive(shares[place][THREE][0], NOW), ONE) for place in (0, 1)][1]
    again = machines(3)[2]
    again.start(VECTORS[2], rand(2), NOW)
    again.receive(shares[0][THREE][0], NOW)
    refused(again, shares[0][THREE][0], "here already")

    assert outbox(again.receive(shares[1][THREE][0], NOW), ONE) == sent


def test_a_sealed_share_of_the_wrong_length_is_refused_and_leaves_its_place_free():
    all_three = machines(3)
    shares = started(all_three, VECTORS)
    header = b"share" + all_three[0].sid + TWO + ONE + bytes(4)
    short = all_three[1].participant.channel(TWO, ONE).seal(0, header, bytes(31))

    refused(all_three[0], replace(shares[1][ONE][0], payload=short), "a seed has 31 bytes")
    all_three[0].receive(shares[1][ONE][0], NOW)


def test_a_share_of_the_wrong_phase_is_refused():
    machine, _ = at_sums()
    _, (share, _) = at_shares()

    refused(machine, replace(share, index=1), "wrong phase")


def test_a_share_of_an_earlier_attempt_of_the_same_group_is_refused():
    machine, _ = at_shares()
    before = started(machines(3, attempt=1), VECTORS)

    refused(machine, before[1][ONE][0], "another session")
    refused(machine, replace(before[1][ONE][0], sid=machine.sid), "does not open")


def test_sums_that_do_not_belong_here_are_refused_and_change_nothing():
    machine, (message, _) = at_sums()

    refused(machine, replace(message, sid=bytes(32)), "another session")
    refused(machine, replace(message, sender=stranger().public), "another session or sender")
    refused(machine, replace(message, sender=ONE), "another session or sender")
    refused(machine, replace(message, sender=THREE), "bad sum signature")
    refused(machine, replace(message, signature=bytes(64)), "bad sum signature")
    refused(machine, replace(message, contributors=bytes(32)), "bad sum signature")
    refused(machine, replace(message, pieces=(bytes(32),)), "bad sum signature")
    refused(machine, replace(message, index=1), "a sum of 1 pieces, piece 1")
    refused(machine, replace(message, payload=bytes(20)), "is not what its header names")
    refused(machine, resigned(message, KEYS[1], pieces=message.pieces * 2), "a sum of 2 pieces")
    short = resigned(replace(message, payload=bytes(16)), KEYS[1], pieces=(bulk_digest(bytes(16)),))
    refused(machine, short, "has 16 bytes")
    assert kinds(machine.receive(message, NOW)) == ["Keep"]


def test_a_second_sum_of_a_sender_is_refused_and_evidence_if_it_signed_another():
    machine, (message, other) = at_sums()
    machine.receive(message, NOW)
    refused(machine, message, "here already")
    refused(machine, replace(message, pieces=(bytes(32),)), "bad sum signature")
    payload = raw(np.zeros(5, dtype="<u4"), slice(0, 5))
    second = resigned(replace(message, payload=payload), KEYS[1], pieces=(bulk_digest(payload),))

    assert machine.receive(second, NOW) == [caught(message.header, second.header)]
    assert kinds(machine.receive(other, NOW)) == ["Keep", "Completed"]
