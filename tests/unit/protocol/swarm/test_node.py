"""One node's part in a swarm over many rounds: sessions connected by wires without delay."""

import gc
import weakref
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from protocol.actions import (
    Adopted,
    Closed,
    Completed,
    Evidence,
    Failed,
    Fatal,
    Healed,
    Keep,
    Note,
    Notice,
    OpenVote,
    Reason,
    Send,
    Serve,
    Unbind,
    Vote,
)
from protocol.aggregation.masked.release import WRONG_SECRET
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.aggregation.size_limits import most_additive, most_masked
from protocol.errors import LocalProtocolError, NotFiniteError, RemoteProtocolError, TooEarly
from protocol.quorum.electorate import of_keys, of_names
from protocol.quorum.lineage import Line
from protocol.swarm.meeting.group_seeker import MAX_TRIES
from protocol.swarm.meeting.room import LINGER_CAP_S
from protocol.swarm.node import Node, sums_between
from protocol.swarm.recovery.fetch import PATIENCE_S, Past
from protocol.swarm.session_factory import too_long
from protocol.vectors.pieces import PIECE_WORDS
from protocol.wire import signing
from protocol.wire.ids import NO_ELECTORS, RESIGNED
from protocol.wire.limits import MAX_OPEN
from protocol.wire.masked_messages import Join, Total
from protocol.wire.messages import (
    Accepted,
    BasePiece,
    Certificate,
    CertificateRequest,
    Electors,
    Equivocation,
    Group,
    Hello,
    LeftOut,
    Ready,
    Redirect,
    Refused,
    Share,
    Stalled,
    Sum,
)
from tests.parts import (
    COUNTER,
    NOW,
    PARAMETERS,
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
    resigned,
    roster_of,
    settings,
    state,
    stranger,
    vector,
)
from tests.wires import INITIAL, Wires, hello, node

KEYS = members(4)
ONE, TWO, THREE, FOUR = KEYS
TRACKER = "127.0.0.1:9"
CLOSING_S = 15.0 + PATIENCE_S  # no sum was timed yet: the others may wait for one as long as the cap allows


def swarm(count: int = 3, **changes) -> Wires:
    return Wires(KEYS[:count], **changes).open()


def to_shares(wires: Wires) -> Wires:
    """Brings everyone to the GROUP and the wait for shares, which are held back."""
    wires.dropped = lambda _from, _to, message: isinstance(message, Share)
    return wires.offer()


def to_sums(wires: Wires) -> Wires:
    """Brings everyone to its sent sum; the sums are held back."""
    wires.dropped = lambda _from, _to, message: isinstance(message, Sum)
    return wires.offer()


def vectors_alive(wires: Wires) -> list[bool]:
    """Returns whether anything still holds the offer of each of these (what it has sent holds nothing)."""
    seen = []
    for number, key in enumerate(wires.keys):
        vector = np.full(5, number, dtype="<f4")
        seen.append(weakref.ref(vector))
        wires.carry_out(endpoint(key), wires[key].offer(vector, rand(number), wires.now))
        del vector
    wires.quiet()
    gc.collect()
    return [one() is not None for one in seen]


@pytest.mark.parametrize(
    ("withheld", "is_alive", "phase"),
    [(Join, True, "shares"), (Total, False, "sums")],
    ids=["unspent", "masked"],
)
def test_an_offer_is_held_while_it_may_come_back_and_by_nobody_once_all_of_it_is_masked(
    withheld, is_alive, phase
):
    wires = swarm(4, masked=MaskedSettings(4.0, None, 0))
    wires.dropped = lambda _from, _to, message: isinstance(message, withheld)
    assert vectors_alive(wires) == [is_alive] * 4
    assert {wires[key].phase for key in wires.keys} == {phase}


def test_a_session_says_what_is_light_by_the_machine_that_runs():
    wires, totals = swarm(4, masked=MaskedSettings(4.0, None, 0)), {}
    wires.dropped = lambda _from, to, message: (
        isinstance(message, Total) and not totals.setdefault(to, []).append(message)
    )
    wires.offer()
    to, (one, two) = next((to, both) for to, both in totals.items() if len(both) == 2)
    here = wires.nodes[to]
    assert [here.is_light(message) for message in (one, two, Group((), 0, ONE.public))] == [True, True, False]
    heard(here, one, wires.now)
    assert not here.is_light(two), "the check is behind it"


# -- a round that goes well ------------------------------------------------------------------------------


def test_three_sessions_join_find_each_other_and_agree():
    wires = swarm()
    assert wires[ONE].status.phase == "idle"
    wires.offer()
    ends = wires.ends(Completed)

    assert len(ends) == 3
    assert {end.result.tobytes() for _, end in ends} == {np.ones(5, dtype="<f4").tobytes()}
    assert {(wires[key].round, wires[key].base) for key in KEYS[:3]} == {(1, wires[ONE].base)}


def test_a_session_says_what_it_waits_for():
    wires = Wires(KEYS[:3])
    alone = wires[ONE]
    alone.open(NOW)
    assert (alone.status.phase, set(alone.status.waiting_for)) == (
        "joining",
        {endpoint(TWO), endpoint(THREE)},
    )

    wires = swarm()
    wires.carry_out(endpoint(ONE), wires[ONE].offer(vector(0), rand(0), NOW))
    assert wires[ONE].status.phase == "group"
    wires = to_shares(swarm())
    assert (wires[ONE].status.phase, wires[ONE].status.waiting_for) == (
        "shares",
        (endpoint(TWO), endpoint(THREE)),
    )
    assert to_sums(swarm())[ONE].status.phase == "sums"
    wires = swarm()
    wires[ONE].close(NOW)
    assert (wires[ONE].status.phase, wires[ONE].status.deadline) == ("closing", NOW + CLOSING_S)


def test_one_offer_at_a_time_and_none_while_closing():
    one = node(ONE, seeds=())
    one.open(NOW)
    one.offer(vector(0), rand(0), NOW)
    with pytest.raises(LocalProtocolError, match="OFFER in SEEKING is no step"):
        one.offer(vector(0), rand(0), NOW)

    other = node(TWO, seeds=())
    other.close(NOW)
    with pytest.raises(LocalProtocolError, match="OFFER in CLOSED"):
        other.offer(vector(0), rand(0), NOW)


def test_an_update_with_no_number_in_it_is_refused_and_another_may_be_offered():
    one = node(ONE, seeds=())
    with pytest.raises(NotFiniteError):
        one.offer(np.full(5, np.inf, dtype="<f4"), rand(0), NOW)

    one.offer(vector(0), rand(0), NOW)


# -- the exits -------------------------------------------------------------------------------------------


def test_without_a_group_the_round_ends_with_ones_own_update():
    one = node(ONE, seeds=())
    one.open(NOW)
    one.offer(vector(0), rand(0), NOW)
    failed = only(one.tick(NOW + 120), Failed)

    assert failed == Failed(Reason.GROUP_TIMEOUT, 1, (), None)
    assert (one.round, one.status.phase) == (1, "idle")


def test_without_shares_everyone_ends_with_its_own_update_and_the_next_round_goes_well():
    wires = to_shares(swarm())
    wires.dropped = lambda *_: False
    wires.tick(15)
    assert {end.reason for _, end in wires.ends(Failed)} == {Reason.SHARES_TIMEOUT}

    wires.offer()
    assert [end.round for _, end in wires.ends(Completed)] == [2, 2, 2]


def test_bulk_that_is_on_its_way_has_time_of_its_own_and_the_transport_knows_how_long():
    wires = to_shares(swarm(least_rate=1.0))
    one = wires[ONE]
    assert one.bulk_s > 15.0
    for key in (TWO, THREE):
        one.arriving(key.public, NOW)
    message = Share(one._machine.sid, ONE.public, TWO.public, 0, b"")
    assert one.runs(message)
    assert one.tick(one.deadline) is not None
    assert one._machine is not None
    fresh = swarm()[ONE]
    assert fresh.arriving(TWO.public, NOW) == []
    assert not fresh.runs(message)


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        pytest.param({"instance": b"2" * 16, "counter": COUNTER + 1000}, [TWO.public], id="it started anew"),
        # Not who says so, but whom both waited for.
        pytest.param({"round": 1, "counter": COUNTER + 1000}, [THREE.public], id="it ended the round"),
        pytest.param({"counter": COUNTER - 1}, [], id="earlier"),
        pytest.param({"counter": COUNTER + 1000}, [], id="it only announces itself"),
    ],
)
def test_a_member_that_shows_that_it_has_left_the_session_ends_it_at_once(said, missing):
    wires = to_shares(swarm())
    actions = heard(wires[ONE], Hello(announce(TWO, base=INITIAL, **said), bytes(16), False, ""), NOW)

    assert [end.missing for end in actions if isinstance(end, Failed)] == [(key,) for key in missing]


# -- groups that are not joined ----------------------------------------------------------------------------


def asking() -> tuple[Node, list[Ready]]:
    """Returns member two, whose READY is at member one; and the three READYs."""
    two = node(TWO, seeds=(endpoint(ONE), endpoint(THREE)))
    two.open(NOW)
    for key in (ONE, THREE):
        heard(two, hello(key), NOW)
    (mine,) = outbox(two.offer(vector(0), rand(0), NOW), endpoint(ONE))
    return two, [mine, *(ready(key, ONE.public, base=INITIAL) for key in (ONE, THREE))]


def meeting(keys, **changes) -> tuple[tuple[Node, Ready], list[Ready]]:
    """Returns the second of `keys`, whose READY is at the first; and the READYs of the others."""
    second = node(keys[1], seeds=tuple(endpoint(key) for key in keys[:1]), **changes)
    second.open(NOW)
    others = [key for key in keys if key != keys[1]]
    for key in others:
        heard(second, hello(key), NOW)
    zeros = np.broadcast_to(np.float32(0), changes["dimension"])
    (mine,) = outbox(second.offer(zeros, rand(0), NOW), endpoint(keys[0]))
    return (second, mine), [ready(key, keys[0].public, base=INITIAL) for key in others]


def test_a_group_is_joined_once():
    two, readys = asking()
    group = group_of(readys, ONE)
    assert [action.to for action in heard(two, group, NOW)] == [endpoint(ONE), endpoint(THREE)]

    assert heard(two, group, NOW) == [], "another member may pass it on"
    assert heard(two, group_of(readys, ONE, attempt=1), NOW) == []
    assert two._machine.participant.group == group, "nor is a second one with the same READYs"
    others = [ready(key, ONE.public, base=INITIAL, counter=7) for key in (ONE, TWO, THREE)]
    with pytest.raises(RemoteProtocolError, match="no offer"):
        heard(two, group_of(others, ONE), NOW)


def test_only_the_coordinator_says_who_had_this_node_left_out_and_only_of_its_current_ready():
    two, (mine, *_) = asking()
    told = LeftOut(mine.nonce, (THREE.public,))
    for message, by in ((told, THREE), (replace(told, nonce=bytes(16)), ONE)):
        with suppress(RemoteProtocolError):
            two.receive(message, by.public, NOW)
        assert two.picture().out_by == ()
    two.receive(told, ONE.public, NOW)
    assert two.picture().out_by == (THREE.public,)


def test_a_group_with_a_member_that_is_not_accepted_is_refused():
    two, readys = asking()
    two._state.banned[THREE.public] = ()

    with pytest.raises(RemoteProtocolError, match="does not accept"):
        heard(two, group_of(readys, ONE), NOW)
    assert two.status.phase == "group"


def test_a_group_with_a_ready_of_an_earlier_start_is_refused_and_nothing_hangs():
    two, (mine, first, _) = asking()
    heard(two, hello(THREE, epoch=5), NOW)
    old = ready(THREE, ONE.public, base=INITIAL, epoch=4)
    with pytest.raises(RemoteProtocolError, match="a start that is over"):
        heard(two, group_of([mine, first, old], ONE), NOW)

    assert (two.status.phase, two.deadline is not None) == ("group", True)


@pytest.mark.parametrize(
    ("masked", "most", "kind"),
    [
        (None, most_additive(64), "additive shares"),
        (MaskedSettings(4.0, None), most_masked(64), "masked sums"),
    ],
)
def test_a_group_that_grew_beyond_what_the_model_s_length_allows_ends_the_node(masked, most, kind):
    """Each node expects three, and a tracker or a stranger adds more; nothing has been sent or spent."""
    beyond = PIECE_WORDS * 64 + most
    keys = members(64)
    (two, mine), others = meeting(keys, dimension=beyond, masked=masked)
    assert heard(two, group_of([mine, *others], keys[0]), NOW) == [
        Fatal(
            f"a group of 64 peers was formed, and {beyond} parameters are too many for {kind} of so many; "
            f"allowed: at most {most}; share fewer of them (train.parameters), or have fewer peers come"
        )
    ]
    assert two.status.phase == "group"


@pytest.mark.parametrize("masked", [None, MaskedSettings(4.0, None)])
def test_a_smaller_group_takes_the_same_model(masked):
    keys = members(64)[:5]
    most = most_additive(64) if masked is None else most_masked(64)
    assert too_long(settings(keys[1], dimension=most + PIECE_WORDS * 64, masked=masked), 5) == []
    assert too_long(settings(keys[1], dimension=most, masked=masked), 64) == []


def test_a_group_is_refused_while_a_new_base_is_being_stored():
    two, readys = asking()
    two._storing = True

    with pytest.raises(RemoteProtocolError, match="being replaced"):
        heard(two, group_of(readys, ONE), NOW)


def test_the_base_never_changes_through_a_fetch_while_a_session_runs():
    two, readys = asking()
    held = vector(7)
    better = base_of(held, 1)
    for key in (ONE, THREE):
        said = announce(key, base=better, counter=COUNTER + 5000)
        heard(two, Hello(said, bytes(16), False, PARAMETERS), NOW)
    assert two.status.phase == "catching up"
    heard(two, group_of(readys, ONE), NOW)

    with pytest.raises(RemoteProtocolError, match="was not asked for"):
        heard(two, BasePiece(better.digest, 0, held.tobytes()), NOW)
    assert two.status.phase == "shares"


# -- messages out of turn ----------------------------------------------------------------------------------


def test_shares_that_come_before_their_group_count():
    wires = swarm()
    held: list[tuple[str, Group]] = []

    def late(_from, to, message) -> bool:
        if isinstance(message, Group) and to == endpoint(TWO):
            held.append((to, message))
            return True
        return False

    wires.dropped = late
    wires.offer()
    assert wires.ends(Completed) == []
    wires.dropped = lambda *_: False
    for to, message in held:
        wires.hand(to, message)

    assert len(wires.quiet().ends(Completed)) == 3


def test_what_comes_before_its_group_is_held_within_a_bound():
    two, _ = asking()
    share = Share(bytes(32), ONE.public, TWO.public, 0, bytes(100_000))
    heard(two, share, NOW)

    with pytest.raises(TooEarly):
        heard(two, share, NOW)


@pytest.mark.parametrize("by", [None, THREE.public])
def test_a_ready_counts_on_a_link_of_its_owner_alone(by):
    one = node(ONE, seeds=())
    with pytest.raises(RemoteProtocolError, match="a READY on the link of another"):
        one.receive(ready(TWO, ONE.public, base=INITIAL), by, NOW)


def test_junk_before_a_group_takes_no_expected_senders_room():
    """Two unsigned shares of 500 kB once filled the buffer, and the next honest one was lost."""
    two, _ = asking()
    share = Share(bytes(32), ONE.public, TWO.public, 0, bytes(100_000))
    for size in (100_000, 500_000):
        with pytest.raises(TooEarly, match="nobody proved"):
            two.receive(replace(share, payload=bytes(size)), None, NOW)
        with pytest.raises(RemoteProtocolError, match="in the name of another"):
            two.receive(replace(share, payload=bytes(size)), stranger().public, NOW)
    for number in range(3):
        junk = replace(share, sender=bytes([number]) * 32, payload=bytes(100_000))
        with suppress(TooEarly):
            two.receive(junk, junk.sender, NOW)
    with pytest.raises(TooEarly):
        two.receive(replace(share, sender=b"9" * 32), b"9" * 32, NOW)

    assert two.receive(share, ONE.public, NOW) == []


def test_early_messages_that_do_not_belong_are_dropped_with_the_group():
    two, readys = asking()
    group = group_of(readys, ONE)
    heard(two, Share(signing.session_id(group), ONE.public, TWO.public, 0, b"garbage"), NOW)

    assert kinds(heard(two, group, NOW)) == ["Send", "Send"]


def test_bulk_of_no_session_is_refused():
    one = node(ONE, seeds=())
    share = Share(bytes(32), TWO.public, ONE.public, 0, b"")
    with pytest.raises(RemoteProtocolError, match="not this node's"):
        heard(one, share, NOW)

    wires = to_shares(swarm())
    with pytest.raises(RemoteProtocolError, match="not this node's"):
        heard(wires[ONE], replace(share, sender=TWO.public), NOW)


@pytest.mark.parametrize(
    "message",
    [
        roster_of(TWO, bytes(16)),
        Refused(bytes(16), "no"),
        Accepted(bytes(16)),
        Redirect(bytes(16), announce(TWO)),
        Certificate(bytes(32), ()),
        signing.sign(CertificateRequest(bytes(32), stranger().public), stranger()),
    ],
    ids=lambda message: type(message).__name__,
)
def test_answers_to_nothing_are_refused(message):
    one = node(ONE, seeds=())
    one.open(NOW)
    with pytest.raises(RemoteProtocolError):
        heard(one, message, NOW)


# -- healing -----------------------------------------------------------------------------------------------


def half_finished() -> Wires:
    """Lets all complete except member three, which falls back without the others' sums."""
    wires = swarm()
    wires.dropped = lambda _from, to, message: isinstance(message, Sum) and to == endpoint(THREE)
    return wires.offer()


def test_a_member_that_fell_back_is_healed_by_the_others_certificate():
    wires = half_finished()
    assert {where for where, _ in wires.ends(Completed)} == {endpoint(ONE), endpoint(TWO)}
    wires.dropped = lambda *_: False
    wires.tick(15, THREE)
    ((where, healed),) = wires.ends(Healed)

    assert (where, healed.source) == (endpoint(THREE), ONE.public)
    assert healed.line == wires[ONE]._state.line
    assert [wires[key].base for key in KEYS[:3]] == [wires[ONE].base] * 3
    assert wires[THREE].base.generation == 1
    wires.offer()
    assert [end.round for _, end in wires.ends(Completed)] == [1, 1, 2, 2, 2]


def test_equivocation_in_a_certificate_bans_its_sender():
    wires = half_finished()
    wires.dropped = lambda _from, _to, message: isinstance(message, Certificate)
    wires.tick(15, THREE)
    certificate = wires.ends(Completed)[0][1].certificate
    other = resigned(certificate.sums[1], TWO, pieces=(bytes(32),))
    wires[THREE]._catch_up.past[certificate.sid].seen[TWO.public] = other
    actions = heard(wires[THREE], certificate, wires.now)

    assert only(actions, Evidence).sender == TWO.public
    assert not wires[THREE]._discovery.accepts(announce(TWO))


def two_sums(count: int = 3) -> tuple[Wires, list]:
    """Returns nodes of which the first has seen two sums of the second, and what it does then."""
    wires = swarm(count)
    sums: list[Sum] = []
    wires.dropped = lambda _from, to, m: (
        isinstance(m, Sum) and (sums.append(m) or to != endpoint(ONE) or m.sender == THREE.public)
    )
    wires.offer()
    mine = next(message for message in sums if message.sender == TWO.public)
    return wires, heard(wires[ONE], resigned(mine, TWO, pieces=(bytes(32),)), NOW)


def caught_by_one(count: int = 3) -> tuple[Wires, Equivocation]:
    """Returns nodes of which the first has seen two sums of the second, and what it shows the others."""
    wires, actions = two_sums(count)
    shown = {send.to: send.messages for send in actions if isinstance(send, Send)}
    others = [endpoint(key) for key in wires.keys if key not in (ONE, TWO)]
    ((message,),) = {shown[to] for to in others}
    assert endpoint(TWO) not in shown
    return wires, message


def test_who_catches_a_member_shows_the_proof_to_the_others_and_they_pass_it_on():
    wires, message = caught_by_one(4)
    actions = heard(wires[THREE], message, NOW)
    assert only(actions, Evidence).sender == TWO.public
    assert outbox(actions, endpoint(KEYS[3])) == [message]
    assert TWO.public in wires[THREE]._state.banned
    assert heard(wires[THREE], message, NOW) == [], "once"


def test_who_is_in_the_session_is_shown_the_proof_even_if_it_seems_to_be_away():
    """It hears the liar, and it would blame the member that ends the session for the lie."""
    wires, sums = swarm(), []
    wires.dropped = lambda _from, to, m: isinstance(m, Sum) and (sums.append(m) or True)
    wires.offer()
    mine = next(message for message in sums if message.sender == TWO.public and message.index == 0)
    heard(wires[ONE], mine, NOW)
    wires[ONE]._members.suspect(THREE.public)
    assert THREE.public not in wires[ONE]._members.live
    actions = heard(wires[ONE], resigned(mine, TWO, pieces=(bytes(32),)), NOW)
    shown = {send.to: send.messages for send in actions if isinstance(send, Send)}
    assert {to: type(only_one) for to, (only_one,) in shown.items()} == {endpoint(THREE): Equivocation}


def test_a_proof_against_a_key_that_is_no_member_changes_nothing():
    two = node(KEYS[3], seeds=())
    _, message = caught_by_one()
    assert heard(two, message, NOW) == []
    assert two._state.banned == {}


def test_who_gets_a_group_with_a_banned_member_shows_the_others_why():
    _, message = caught_by_one()
    (two, mine), others = meeting((ONE, THREE, TWO, KEYS[3]), dimension=5)
    two._state.banned[TWO.public] = (message.first, message.second)
    group = group_of((*others, mine), ONE)
    actions = heard(two, group, NOW)
    assert [(send.to, send.messages) for send in actions] == [
        (endpoint(key), (message,)) for key in sorted((ONE, KEYS[3]), key=lambda key: key.public)
    ]
    assert two.status.phase == "group", "it is in no such group"
    with pytest.raises(RemoteProtocolError, match="bad group signature"):
        heard(two, replace(group, signature=bytes(64)), NOW)


def test_nobody_is_blamed_for_a_session_with_a_member_that_is_banned_by_now():
    wires = to_sums(swarm())
    wires[ONE]._state.banned[TWO.public] = ()
    wires.tick(15, ONE)
    assert wires[ONE].picture().left_out == ()


def test_a_coordinator_tells_the_others_before_it_sends_its_own_shares():
    """Bulk queued before the GROUP would delay that GROUP for its receiver."""
    wires = swarm()
    sent: list[tuple[str, type]] = []
    wires.dropped = lambda where, _to, message: sent.append((where, type(message)))
    wires.offer()
    ours = [kind for where, kind in sent if where == endpoint(ONE) and kind in (Group, Share)]

    assert ours[:2] == [Group, Group]
    assert ours.count(Group) == 2


def test_a_late_sum_is_rejected_and_can_still_be_evidence():
    wires = swarm()
    sums: list[Sum] = []
    wires.dropped = lambda _from, _to, m: isinstance(m, Sum) and sums.append(m)
    wires.offer()
    mine = next(message for message in sums if message.sender == TWO.public)

    with pytest.raises(RemoteProtocolError):
        heard(wires[ONE], mine, NOW)
    with pytest.raises(RemoteProtocolError, match="signature"):
        heard(wires[ONE], replace(mine, pieces=(bytes(32),)), NOW)
    assert wires[ONE]._discovery.accepts(announce(TWO))
    actions = heard(wires[ONE], resigned(mine, TWO, pieces=(bytes(32),)), NOW)
    assert only(actions, Evidence).sender == TWO.public
    assert not wires[ONE]._discovery.accepts(announce(TWO))


def test_a_late_joiner_adopts_what_the_majority_shows():
    held = vector(7)
    better = base_of(held, 3)
    one = node(ONE, seeds=())
    one.open(NOW)
    for key in (TWO, THREE):
        actions = heard(one, hello(key, base=better), NOW)
    assert outbox(actions, endpoint(TWO))[-1].sid == better.digest
    heard(one, no_line(better), NOW)
    done = heard(one, BasePiece(better.digest, 0, held.tobytes()), NOW)
    assert "Adopted" in kinds(done)
    one.adopted(better, NOW)

    assert (one.base, one._state.previous) == (better, INITIAL)


def test_adopting_the_base_one_has_changes_nothing():
    one = node(ONE, seeds=())
    one.adopted(INITIAL, NOW)

    assert (one.base, one._state.previous) == (INITIAL, None)


def test_what_a_restart_kept_is_served():
    group = group_of([ready(key, ONE.public, base=INITIAL) for key in KEYS[:3]], ONE)
    one = Node(settings(ONE), state(), {b"p" * 32: Past(group, INITIAL, {})}, rand(0))
    heard(one, hello(TWO, base=base()), NOW)
    request = signing.sign(CertificateRequest(b"p" * 32, TWO.public, ONE.public), TWO)

    assert only(heard(one, request, NOW), Serve) == Serve(endpoint(TWO), request)


# -- coordination ------------------------------------------------------------------------------------------


def test_a_silent_coordinator_is_asked_again_and_all_are_told_that_it_is_silent():
    two, (mine, *_) = asking()
    actions = two.tick(NOW + 5)

    assert Notice(Note.COORDINATOR, endpoint(ONE)) in actions
    assert mine in outbox(actions, endpoint(ONE))
    assert outbox(actions, endpoint(THREE)) == [Stalled(INITIAL.digest, 1)]
    assert two._seeker.coordinator == ONE.public, "alone it ends no turn"
    again = two.tick(NOW + 10)
    assert mine in outbox(again, endpoint(ONE))
    assert not [action for action in again if isinstance(action, Notice)], "once is enough"


def test_when_more_than_half_have_waited_too_long_the_next_candidate_is_asked():
    two, _ = asking()
    two.tick(NOW + 5)
    (taken_back,) = outbox(two.receive(Stalled(INITIAL.digest, 1), THREE.public, NOW + 6), endpoint(ONE))

    assert taken_back.coordinator == two._seeker.coordinator == TWO.public


def test_a_silent_coordinator_that_was_banned_is_named_by_its_key():
    two, _ = asking()
    two._members.forget(ONE.public)
    notice = only(two.tick(NOW + 5), Notice)

    assert notice.who == ONE.public.hex()[:8]


def test_the_next_candidate_is_asked_while_the_coordinator_can_not_be_reached():
    two, (mine, *_) = asking()
    two.unreachable(endpoint(ONE), "connection refused", NOW)
    assert two._seeker.coordinator == TWO.public
    assert not two._seeker.holds(mine.nonce)

    back = hello(ONE, counter=COUNTER + 5000)
    (again,) = outbox(heard(two, back, NOW), endpoint(ONE))
    assert (again.coordinator, two._seeker.coordinator) == (ONE.public, ONE.public)
    assert again.nonce != mine.nonce


def test_a_node_that_coordinates_gives_way_to_one_with_a_lower_key():
    three = node(THREE, seeds=())
    three.open(NOW)
    three.offer(vector(0), rand(0), NOW)
    room = three._coordination.matchmaker.room(announce(THREE).swarm)
    assert set(room.readys) == {THREE.public}
    actions = heard(three, hello(ONE), NOW)

    assert [type(message) for message in outbox(actions, endpoint(ONE))] == [Ready]
    assert set(room.readys) == set()


def test_a_ready_for_another_coordinator_takes_back_the_one_that_is_here():
    one = node(ONE, seeds=())
    one.open(NOW)
    heard(one, ready(TWO, ONE.public, base=INITIAL), NOW)
    room = one._coordination.matchmaker.room(announce(TWO).swarm)
    assert set(room.readys) == {TWO.public}
    heard(one, ready(TWO, THREE.public, base=INITIAL, counter=COUNTER + 1), NOW)
    assert set(room.readys) == set()

    with pytest.raises(RemoteProtocolError, match="used already"):
        heard(one, ready(TWO, ONE.public, base=INITIAL), NOW)


def test_a_ready_is_redirected_to_the_first_candidate():
    three = node(THREE, seeds=())
    three.open(NOW)
    first = announce(ONE, base=INITIAL)
    heard(three, Hello(first, bytes(16), False, PARAMETERS), NOW)
    sent = outbox(heard(three, ready(TWO, THREE.public, nonce=4, base=INITIAL), NOW), endpoint(TWO))

    assert sent == [Accepted(bytes([4]) * 16), Redirect(bytes([4]) * 16, first)]
    assert outbox(heard(three, ready(ONE, THREE.public, base=INITIAL), NOW), endpoint(ONE)) == [
        Accepted(bytes(16))
    ]


def test_a_redirection_introduces_its_coordinator():
    two, (mine, *_) = asking()
    (question,) = outbox(heard(two, Redirect(mine.nonce, announce(FOUR, base=INITIAL)), NOW), endpoint(FOUR))

    assert isinstance(question, Hello)


def test_readys_of_strangers_and_forged_ones_are_refused():
    one = node(ONE, seeds=(), allow=frozenset({TWO.public}))
    one.open(NOW)
    with pytest.raises(RemoteProtocolError, match="does not collect"):
        heard(one, ready(THREE, ONE.public), NOW)
    with pytest.raises(RemoteProtocolError, match="bad ready signature"):
        heard(one, resigned(ready(TWO, ONE.public), THREE), NOW)


def test_an_offer_asks_a_limited_number_of_times():
    two, _ = asking()
    two._seeker.offer.tries = MAX_TRIES
    two._seeker.void()

    assert "Ready" not in [
        type(m).__name__ for a in two.tick(NOW + 1) if isinstance(a, Send) for m in a.messages
    ]


def test_a_node_sends_to_where_a_peer_listens_now():
    wires = swarm().offer()
    moved = announce(TWO, endpoint="127.0.0.1:2", base=wires[ONE].base, round=1, counter=COUNTER + 9000)
    heard(wires[ONE], Hello(moved, bytes(16), False, PARAMETERS), NOW)

    assert wires[ONE].addresses.of(TWO.public) == "127.0.0.1:2"
    assert wires[ONE].addresses.of(stranger().public) is None
    wires[ONE]._members.forget(THREE.public)
    assert wires[ONE].addresses.of(THREE.public) == endpoint(THREE)


def test_who_announced_an_endpoint_may_answer_there():
    """All of them: a peer that announces another's address must not silence the other one."""
    one = swarm()[ONE]
    assert one.addresses.may_answer("127.0.0.1:2") == frozenset()
    for key, later in ((TWO, 9000), (THREE, 9500)):
        moved = announce(key, endpoint="127.0.0.1:2", base=one.base, round=0, counter=COUNTER + later)
        heard(one, Hello(moved, bytes(16), False, PARAMETERS), NOW)

    assert one.addresses.may_answer("127.0.0.1:2") == {TWO.public, THREE.public}


def test_who_is_pinned_alone_may_answer():
    one = node(ONE, pins={endpoint(TWO): TWO.public})

    assert one.addresses.may_answer(endpoint(TWO)) == {TWO.public}


def test_what_goes_to_nobody_that_is_known_is_not_sent():
    one = node(ONE, seeds=())

    assert one.addresses.addressed([Send(stranger().public, ())]) == []


def test_a_group_that_its_own_coordinator_may_not_join_changes_nothing():
    wires = swarm()
    wires[ONE]._state.banned[THREE.public] = ()
    wires.carry_out(endpoint(ONE), wires[ONE].offer(vector(0), rand(0), NOW))
    room = wires[ONE]._coordination.matchmaker.room(announce(TWO).swarm)
    for key in (TWO, THREE):
        held = ready(key, ONE.public, base=INITIAL, counter=COUNTER + 5000)
        room.readys[key.public] = (held, NOW)
    wires[ONE].tick(NOW)

    assert wires[ONE].status.phase == wires[ONE].phase == "group"


# -- with a tracker ----------------------------------------------------------------------------------------


def tracked() -> Node:
    """Makes member one, joined through a tracker whose key is stranger()'s."""
    one = node(ONE, tracker=TRACKER)
    (question,) = outbox(one.open(NOW), TRACKER)
    heard(one, roster_of(stranger(), question.nonce), NOW)
    return one


def test_with_a_tracker_the_ready_goes_there_and_none_is_collected():
    one = tracked()
    (mine,) = outbox(one.offer(vector(0), rand(0), NOW), TRACKER)

    assert (mine.coordinator, one.status.phase) == (stranger().public, "group")
    heard(one, hello(TWO), NOW)
    with pytest.raises(RemoteProtocolError, match="does not collect"):
        heard(one, ready(TWO, ONE.public), NOW)
    heard(one, Accepted(mine.nonce), NOW + 1)
    assert only(one.tick(NOW + 121), Failed).reason is Reason.GROUP_TIMEOUT


def test_a_group_of_the_tracker_is_joined_whoever_else_one_knows():
    one = tracked()
    (mine,) = outbox(one.offer(vector(0), rand(0), NOW), TRACKER)
    group = group_of(
        [mine, *(ready(key, stranger().public, base=INITIAL) for key in (TWO, THREE))], stranger()
    )
    heard(one, group, NOW)

    assert one.status.phase == "shares"
    actions = one.unreachable(endpoint(TWO), "connection refused", NOW)
    assert only(actions, Failed).missing == (TWO.public,)


def test_a_silent_tracker_is_greeted_again_and_the_offer_waits():
    one = tracked()
    one.offer(vector(0), rand(0), NOW)
    sent = outbox(one.tick(NOW + 5), TRACKER)

    assert [type(message) for message in sent] == [Hello, Ready]


def test_a_tracker_that_is_gone_holds_no_ready():
    one = tracked()
    one.offer(vector(0), rand(0), NOW)
    one.unreachable(TRACKER, "connection refused", NOW)

    assert (one._seeker.coordinator, one._discovery.tracker_key) == (None, None)
    (question,) = outbox(one.tick(NOW + 1), TRACKER)
    sent = outbox(heard(one, roster_of(stranger(), question.nonce), NOW), TRACKER)
    assert [type(message) for message in sent] == [Ready]


def test_who_may_answer_where_the_tracker_is_stays_who_it_was_at_first():
    """Under TLS its certificate must have that key, also while nobody is there, and if the key was pinned."""
    one = node(ONE, tracker=TRACKER)
    assert one.may_answer(TRACKER) == frozenset()
    (question,) = outbox(one.open(NOW), TRACKER)
    heard(one, roster_of(stranger(), question.nonce, (announce(TWO),)), NOW)
    one.unreachable(TRACKER, "connection refused", NOW)

    assert one.may_answer(TRACKER) == {stranger().public}
    assert one.may_answer(endpoint(TWO)) == {TWO.public}
    assert node(ONE, tracker=TRACKER, pins={TRACKER: TWO.public}).may_answer(TRACKER) == {TWO.public}


def test_who_is_listed_or_else_known_is_a_member():
    listed = node(ONE, seeds=(), allow=frozenset({TWO.public}))
    assert [listed.is_member(key.public) for key in (TWO, THREE)] == [True, False]
    one = node(ONE, seeds=())
    assert not one.is_member(TWO.public)
    heard(one, hello(TWO, base=base()), NOW)
    assert one.is_member(TWO.public)


def test_a_banned_peer_needs_no_room_with_a_tracker():
    one = tracked()
    one._ban(Evidence(TWO.public, "words", ()))

    assert not one._discovery.accepts(announce(TWO))


def test_a_coordinator_whose_link_broke_is_greeted_and_asked_again():
    two, (mine, *_) = asking()
    sent = outbox(two.reconnected(endpoint(ONE), NOW), endpoint(ONE))
    assert [type(message) for message in sent] == [Hello, Ready]
    assert sent[1].nonce != mine.nonce

    assert [type(m) for m in outbox(two.reconnected(endpoint(THREE), NOW), endpoint(THREE))] == [Hello]


# -- the end -----------------------------------------------------------------------------------------------


def test_after_the_last_round_a_node_stays_until_all_confirm_its_base():
    wires = swarm().offer()
    actions = wires[ONE].close(wires.now)
    assert kinds(actions)[-1] == "Closed"
    assert wires[ONE].deadline is not None
    assert kinds(wires[ONE].tick(wires.now)) == []


def test_after_the_last_round_a_node_waits_no_longer_than_it_lingers():
    wires = swarm()
    wires[TWO].close(NOW)
    behind = announce(THREE, base=base(0, 1), counter=COUNTER + 100)
    late = node(ONE, seeds=())
    heard(late, Hello(behind, bytes(16), False, PARAMETERS), NOW)
    assert "Closed" not in kinds(late.close(NOW))
    assert "Closed" not in kinds(late.tick(NOW + CLOSING_S - 1))

    assert Closed() in late.tick(NOW + CLOSING_S)


def test_nobody_closes_while_a_base_is_fetched_or_stored():
    one = node(ONE, seeds=())
    one.open(NOW)
    one._storing = True
    assert "Closed" not in kinds(one.close(NOW))

    assert Closed() in one.adopted(INITIAL, NOW)


def test_a_fetch_that_heals_is_stored_before_the_next_offer_goes_out():
    """Healed stops seeking until the shell reports that the base is stored."""
    wires = swarm()
    wires.store = False
    wires.offer()
    actions = wires[ONE].offer(vector(0), rand(0), NOW)

    assert "Ready" not in [type(m).__name__ for a in actions if isinstance(a, Send) for m in a.messages]
    assert wires.ends(Healed) == []


# -- electors, votes and lines -------------------------------------------------------------------------


def test_each_base_stands_in_the_line_of_the_sessions_before():
    wires = swarm().offer().offer()
    lines = {end.sid: end.line for _, end in wires.ends(Completed)}
    (first, second) = lines.values()

    assert (first.anchor, second.anchor) == (1, 2)
    assert first.electors == second.electors == of_keys(key.public for key in KEYS[:3])
    assert [link.certificate.sid for link in second.links] == [list(lines)[1]], (
        "the first one became needless"
    )
    assert {wires[key]._state.line for key in KEYS[:3]} == {second}


@pytest.mark.parametrize("masked", [None, MaskedSettings(4.0, None, 0)])
def test_who_was_away_takes_a_base_by_its_line(masked):
    """The last of five; it trusts nobody for it, although it knew the first base alone."""
    keys = members(5)
    wires = Wires(keys, masked=masked).open()
    wires.dropped = lambda from_, to, _: endpoint(keys[4]) in (from_, to)
    wires.tick(1, *keys[:4]).offer(*keys[:4])
    while not wires.ends(Completed):
        wires.tick(1, *keys[:4])
    wires.offer(*keys[:4])
    while len(wires.ends(Completed)) < 8:
        wires.tick(1, *keys[:4])
    wires.dropped = lambda *_: False
    for _ in range(60):
        wires.tick(1)

    ((where, adopted),) = wires.ends(Adopted)
    assert (where, adopted.trusted, adopted.base) == (endpoint(keys[4]), (), wires[keys[0]].base)
    assert wires[keys[4]]._state.line == wires[keys[0]]._state.line


def test_a_vote_is_bound_until_the_result_is_stored():
    wires = to_sums(swarm())
    votes = [told.vote for _, told in wires.told if isinstance(told, Vote)]
    assert len(votes) == 3
    assert [set(wires[key]._state.votes) for key in KEYS[:3]] == [{votes[0].sid}] * 3
    assert {vote.anchor for vote in votes} == {0}

    wires = swarm().offer()
    assert [wires[key]._state.votes for key in KEYS[:3]] == [{}] * 3


def test_a_result_that_could_not_be_stored_frees_the_vote():
    """The shell reports its base: the mean was not finite."""
    wires = swarm()
    wires.store = False
    wires.offer()
    one = wires[ONE]
    (sid,) = one._state.votes
    assert Unbind(sid) in one.adopted(INITIAL, NOW)
    assert one._state.votes == {}


def test_votes_of_a_lower_anchor_and_resignations_are_sorted_out_at_a_restart():
    group = group_of([ready(key, ONE.public, base=INITIAL) for key in KEYS[:3]], ONE)
    votes = [OpenVote(b"o" * 32, 0, group), OpenVote(b"n" * 32, 1, group), OpenVote(RESIGNED, 1)]
    held = base(1, anchor=1)
    where = state(1, held, votes={vote.sid: vote for vote in votes})
    one = Node(settings(ONE), where, {}, rand(0))

    assert set(where.votes) == {b"n" * 32, RESIGNED}
    assert set(one._catch_up.past) == {b"n" * 32}
    assert one._catch_up.past[b"n" * 32].ballot is not None


def test_a_group_that_needs_votes_is_refused_where_too_many_are_open():
    two, readys = asking()
    for number in range(MAX_OPEN):
        two._state.votes[bytes([number]) * 32] = OpenVote(bytes([number]) * 32, 0)
    with pytest.raises(RemoteProtocolError, match="too many are open"):
        heard(two, group_of(readys, ONE), NOW)
    assert two.status.phase == "group"
    del two._state.votes[bytes(32)]
    heard(two, group_of(readys, ONE), NOW)

    assert two.status.phase == "shares"


def test_a_coordinator_that_stands_elsewhere_is_told_whom_one_counts_with():
    held = base(2, 7, anchor=2)
    electors = of_keys(key.public for key in KEYS[1:])
    two = Node(settings(TWO), state(2, held, line=Line(2, electors)), {}, rand(0))
    two.open(NOW)
    heard(two, hello(ONE), NOW)
    told, asked = outbox(two.offer(vector(0), rand(0), NOW), endpoint(ONE))
    assert (told, asked.electors) == (Electors(electors.members, 0), electors.digest)

    one = node(ONE, seeds=())
    one.open(NOW)
    with pytest.raises(RemoteProtocolError, match="electors, from a peer that this node does not accept"):
        one.receive(told, TWO.public, NOW)
    with pytest.raises(RemoteProtocolError, match="electors, from a peer that this node does not accept"):
        one.receive(told, None, NOW)
    heard(one, hello(TWO, base=held), NOW)
    one.receive(told, TWO.public, NOW)
    asked = {"base": held, "electors": electors.digest, "weak": False, "counter": COUNTER + 1}
    for key in KEYS[1:]:
        heard(one, ready(key, ONE.public, **asked), NOW)
    sent = one.tick(NOW + LINGER_CAP_S)
    assert [message for message in outbox(sent, endpoint(TWO)) if isinstance(message, Group)]


def test_a_coordinator_without_electors_of_its_own_collects_for_others():
    one = node(ONE, seeds=(), electorate=None)
    one.open(NOW)
    for key in KEYS[1:]:
        heard(one, ready(key, ONE.public, base=INITIAL), NOW)
    sent = one.tick(NOW + LINGER_CAP_S)

    assert [message for message in outbox(sent, endpoint(TWO)) if isinstance(message, Group)]


def test_one_that_follows_takes_no_electors():
    one = node(ONE, seeds=(), following=True)
    one.open(NOW)
    heard(one, hello(TWO), NOW)
    with pytest.raises(RemoteProtocolError, match="electors, for a node that does not coordinate"):
        one.receive(Electors((), 3), TWO.public, NOW)


def test_where_a_tracker_coordinates_a_node_takes_no_electors_and_waits_for_nobody():
    one = node(ONE, tracker=TRACKER)
    (question,) = outbox(one.open(NOW), TRACKER)
    heard(one, roster_of(stranger(), question.nonce), NOW)
    heard(one, hello(TWO), NOW)

    assert one._coordination.known == 1, "the tracker counts the peers that are announced to it"
    with pytest.raises(RemoteProtocolError, match="electors, for a node that does not coordinate"):
        one.receive(Electors((), 3), TWO.public, NOW)


def test_at_a_tracker_a_node_that_knows_no_electors_names_none():
    tracker = stranger()
    one = node(ONE, tracker=TRACKER)
    (question,) = outbox(one.open(NOW), TRACKER)
    heard(one, roster_of(tracker, question.nonce), NOW)
    (asked,) = outbox(one.offer(vector(0), rand(0), NOW), TRACKER)

    assert (asked.electors, asked.coordinator) == (NO_ELECTORS, tracker.public)
    with pytest.raises(RemoteProtocolError, match="a STALLED, where a tracker coordinates"):
        one.receive(Stalled(INITIAL.digest, 1), TWO.public, NOW)


def test_a_tracker_is_told_whom_a_node_cannot_reach_also_while_its_ready_waits():
    one = node(ONE, tracker=TRACKER)
    (question,) = outbox(one.open(NOW), TRACKER)
    heard(one, roster_of(stranger(), question.nonce), NOW)
    heard(one, hello(TWO), NOW)
    ready, *_ = reversed(outbox(one.offer(vector(0), rand(0), NOW), TRACKER))
    lost = one.unreachable(endpoint(TWO), "no answer", NOW)

    assert outbox(lost, TRACKER) == [LeftOut(ready.nonce, (TWO.public,))]
    assert not outbox(one.tick(NOW), TRACKER), "once"


def lied_to(what: str, reason: Reason) -> tuple[Wires, list]:
    """Makes member one, bound in a session that ends with this for it; returns what it does then."""
    wires = to_sums(swarm())
    one = wires[ONE]
    (sid,) = one._state.votes
    actions = [Evidence(TWO.public, what, ()), Failed(reason, 1, (TWO.public,), sid)]
    return wires, one._of_machine(actions, NOW)


@pytest.mark.parametrize(
    ("what", "reason", "is_free"),
    [
        ("words", Reason.WRONG_COUNT, True),
        (WRONG_SECRET, Reason.CAUGHT, True),
        ("a total that is wrong", Reason.CAUGHT, False),
        ("words", Reason.MASKS_TIMEOUT, False),
    ],
)
def test_a_vote_is_freed_by_an_end_that_is_the_same_for_all(what, reason, is_free):
    """A liar that this node caught may have let the others finish, with this node's vote."""
    wires, actions = lied_to(what, reason)

    assert ("Unbind" in kinds(actions)) is is_free
    assert (wires[ONE]._state.votes == {}) is is_free


def test_what_is_fetched_and_has_no_result_frees_the_vote():
    wires = to_sums(swarm())
    one = wires[ONE]
    (sid,) = one._state.votes
    one._of_machine([Unbind(sid)], NOW)

    assert one._state.votes == {}


def test_a_machine_that_ends_without_a_session_frees_nothing():
    wires = to_sums(swarm())
    one = wires[ONE]
    one._of_machine([Failed(Reason.WRONG_COUNT, 1, (), None)], NOW)

    assert len(one._state.votes) == 1


def test_a_late_sum_is_taken_while_the_vote_is_open_whatever_bases_came_meanwhile():
    """The shell keeps the base that an open vote builds on; without the vote no session takes the sum."""
    wires = to_sums(swarm())
    wires.tick(15)
    one = wires[ONE]
    ((_, vote),) = wires[TWO]._state.votes.items()
    (message,) = vote.parts
    one._state.base, one._state.previous = base(2, anchor=0), base(1, anchor=0)

    assert any(isinstance(action, Keep) for action in heard(one, message, NOW))

    one._state.votes.clear()
    with pytest.raises(RemoteProtocolError, match="not this node's"):
        heard(one, message, NOW)


def test_an_owner_that_named_lost_electors_is_heard_until_the_anchor_changes():
    lost = frozenset((endpoint(FOUR).encode(),))
    wires = swarm(electorate=of_names(endpoint(key) for key in KEYS))
    for key in KEYS[:3]:
        wires[key]._state.gone = lost
    wires.offer()
    end = wires.ends(Completed)[0][1]

    assert [one.gone for one in end.group.readys] == [tuple(lost)] * 3
    assert [wires[key]._state.gone for key in KEYS[:3]] == [frozenset()] * 3


def test_two_of_five_go_on_where_the_others_resigned_but_not_where_they_are_silent():
    """The votes of four that follow count for nobody; the fifth elector is one of three that offer."""
    keys = members(6)
    named = of_names(endpoint(key) for key in keys[:5])
    silent = Wires(keys, electorate=named).open()
    silent.dropped = lambda from_, to, _: bool({from_, to} & {endpoint(key) for key in keys[2:5]})
    silent.offer(keys[0], keys[1], keys[5])
    silent.tick(20)
    assert silent.ends(Completed) == []

    wires = Wires(keys, electorate=named, min_participants=3).open()
    wires.follow(keys[2], keys[3], keys[4])
    wires.offer(keys[0], keys[1], keys[5])
    for _ in range(20):
        wires.tick(1)
    ends = wires.ends(Completed)
    assert len(ends) == 3
    assert {end.line.anchor for _, end in ends} == {1}
    assert {vote.sid for _, told in wires.told if isinstance(told, Vote) for vote in [told.vote]} >= {
        RESIGNED
    }


@pytest.mark.parametrize(("before", "sums"), [(None, 0), (2, 3), (5, 0), (6, 0)])
def test_the_sums_of_others_are_counted_by_generations(before, sums):
    old = None if before is None else replace(INITIAL, generation=before)
    assert sums_between(old, replace(INITIAL, generation=5)) == sums
