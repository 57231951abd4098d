"""Hellos: who is greeted, who is believed, who is refused and why, and when joining ends."""

from dataclasses import replace

import pytest

from protocol import introductions
from protocol.actions import Fatal, Note, Notice, Send, TrackerKnown, WrongTracker
from protocol.errors import RemoteProtocolError
from protocol.introductions import ANNOUNCE_EVERY_S, JOIN_S, OTHER_SWARM, Introductions
from protocol.messages import Hello, Refused, Roster
from tests.parts import (
    NOW,
    PARAMETERS,
    announce,
    base,
    endpoint,
    members,
    only,
    outbox,
    rand,
    resigned,
    roster_of,
    settings,
    standing,
    stranger,
)

KEYS = members(4)
ONE, TWO, THREE, FOUR = (endpoint(key) for key in KEYS)
MS = int(NOW * 1000)
TRACKER = "127.0.0.1:9"
NONCE = b"n" * 16


def introduced(seeds=(TWO, THREE), **changes) -> Introductions:
    """The introductions of member one, opened at NOW."""
    found = Introductions(settings(KEYS[0], seeds=seeds, **changes), standing(), rand(0))
    found.open(NOW)
    return found


def hello(key, nonce: bytes = NONCE, wants_reply: bool = False, known=(), **changes) -> Hello:
    return Hello(announce(key, **changes), nonce, wants_reply, PARAMETERS, tuple(known))


def greeted(found: Introductions, where: str) -> bytes:
    """The nonce of the hello that went to an endpoint."""
    return found._greetings[where].nonce


def notices(actions) -> list[tuple[Note, str]]:
    return [(action.kind, action.who) for action in actions if isinstance(action, Notice)]


# -- greeting ------------------------------------------------------------------------------------------


def test_everyone_that_was_named_is_greeted_and_oneself_is_not():
    found = Introductions(settings(KEYS[0], seeds=(ONE, TWO, THREE)), standing(), rand(0))
    actions = found.open(NOW)

    assert [action.to for action in actions] == [TWO, THREE]
    (question,) = outbox(actions, TWO)
    assert (question.wants_reply, question.parameters, question.known) == (True, PARAMETERS, ())
    assert set(found.awaited()) == {TWO, THREE}


def test_alone_there_is_nobody_to_wait_for():
    found = introduced(seeds=(ONE,))

    assert (found.joining, found.awaited()) == (False, ())


def test_joining_ends_when_all_have_answered():
    found = introduced()
    found.hello(hello(KEYS[1]), NOW)
    assert found.joining

    assert notices(found.hello(hello(KEYS[2]), NOW)) == [(Note.JOINED, THREE)]
    assert not found.joining


def test_joining_ends_when_its_time_is_over():
    found = introduced()
    assert found.deadline <= NOW + JOIN_S
    found.tick(NOW + JOIN_S - 0.1)
    assert found.joining

    found.tick(NOW + JOIN_S)
    assert (found.joining, found.awaited()) == (False, (TWO, THREE))


def test_joining_ends_when_a_swarm_under_way_answers():
    found = introduced(seeds=(TWO, THREE, FOUR))
    found.hello(hello(KEYS[1], round=3), NOW)
    assert found.joining

    found.hello(hello(KEYS[2], round=3), NOW)
    assert not found.joining


def test_a_question_is_answered_with_whom_one_knows():
    found = introduced()
    found.hello(hello(KEYS[1]), NOW)
    (answer,) = outbox(found.hello(hello(KEYS[2], wants_reply=True), NOW), THREE)

    assert (answer.nonce, answer.wants_reply) == (NONCE, False)
    assert {one.endpoint for one in answer.known} == {TWO, THREE}


def test_an_endpoint_that_does_not_answer_is_greeted_again_later_each_time():
    found = introduced(seeds=(TWO,))
    waits = []
    for _ in range(12):
        found.unreachable(TWO, NOW, "refused")
        waits.append(found._greetings[TWO].retry_at - NOW)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == pytest.approx((0.1, 4.0))

    (again,) = outbox(found.tick(NOW + 4), TWO)
    assert again.nonce == greeted(found, TWO)


def test_an_answer_ends_the_retries():
    found = introduced(seeds=(TWO,))
    found.hello(hello(KEYS[1], nonce=greeted(found, TWO)), NOW)

    assert outbox(found.tick(NOW + 60), TWO) == []


def test_an_unreachable_endpoint_is_told_once_and_not_while_joining():
    found = introduced(seeds=(TWO,))
    assert found.unreachable(TWO, NOW, "refused") == []

    assert notices(found.tick(NOW + JOIN_S)) == [(Note.UNREACHABLE, TWO)]
    assert found.unreachable(TWO, NOW, "refused") == []
    assert notices(found.unreachable(FOUR, NOW, "no such host")) == [(Note.UNREACHABLE, FOUR)]


def test_who_has_left_is_not_greeted_again():
    found = introduced(seeds=(TWO,))
    found.hello(hello(KEYS[1], leaving=True), NOW)

    assert found.unreachable(TWO, NOW, "refused") == []
    assert found._greetings[TWO].retry_at is None


def test_the_number_of_greetings_is_limited_and_those_at_hand_go_on(monkeypatch):
    monkeypatch.setattr(introductions, "_MAX_GREETINGS", 2)
    found = introduced(seeds=(TWO, THREE, FOUR))

    assert set(found._greetings) == {TWO, THREE}
    assert len(found.greet(TWO, NOW)) == 1
    assert found.greet(FOUR, NOW) == []


# -- announcing ----------------------------------------------------------------------------------------


def test_a_broadcast_goes_to_every_live_peer_once():
    found = introduced(seeds=())
    for key in KEYS[1:3]:
        found.hello(hello(key), NOW)
    actions = found.broadcast(NOW)

    assert [action.to for action in actions] == sorted({TWO, THREE})
    (news,) = outbox(actions, TWO)
    assert (news.announce.leaving, news.wants_reply, news.parameters) == (False, False, "")


def test_a_goodbye_says_so():
    found = introduced(seeds=())
    found.hello(hello(KEYS[1]), NOW)

    assert outbox(found.broadcast(NOW, leaving=True), TWO)[0].announce.leaving


def test_a_tracker_is_told_too():
    found = introduced(tracker=TRACKER)

    assert [action.to for action in found.broadcast(NOW)] == [TRACKER]


def test_it_is_time_to_announce_again_every_ten_seconds():
    found = introduced(seeds=())
    assert found.deadline == NOW + ANNOUNCE_EVERY_S
    assert not found.announcing_due(NOW + ANNOUNCE_EVERY_S - 0.1)
    assert found.announcing_due(NOW + ANNOUNCE_EVERY_S)

    found.broadcast(NOW + ANNOUNCE_EVERY_S)
    assert not found.announcing_due(NOW + ANNOUNCE_EVERY_S)


def test_each_announcement_is_newer_than_the_one_before():
    found = introduced(seeds=(TWO,))
    times = [outbox(found.greet(TWO, NOW), TWO)[0].announce.issued_ms for _ in range(3)]

    assert times[0] < times[1] < times[2]


def test_before_it_is_opened_nothing_is_due():
    found = Introductions(settings(KEYS[0]), standing(), rand(0))

    assert found.deadline is None
    assert not found.announcing_due(NOW)
    assert found.settle(NOW) == []


def test_announcements_are_shown_to_who_should_see_them():
    found = introduced()
    shown = announce(KEYS[3])
    (news,) = outbox(found.show(TWO, (shown,), NOW), TWO)

    assert news.known == (shown,)


# -- news ----------------------------------------------------------------------------------------------


def test_those_that_others_know_are_greeted_and_learned():
    found = introduced(seeds=(TWO,))
    actions = found.hello(hello(KEYS[1], known=[announce(KEYS[2]), announce(KEYS[0])]), NOW)

    assert len(outbox(actions, THREE)) == 1
    assert found.members.get(KEYS[2].public) == announce(KEYS[2])
    assert found.members.get(KEYS[0].public) is None


def test_nobody_is_made_to_call_strangers():
    found = introduced(seeds=(), allow=frozenset({KEYS[1].public}))

    assert found.news((announce(KEYS[2]),), NOW) == []
    assert [action.to for action in found.news((announce(KEYS[1]),), NOW)] == [TWO]


def test_old_news_is_no_news():
    found = introduced(seeds=())
    newer = announce(KEYS[2], issued_ms=MS + 5)
    found.news((newer,), NOW)

    assert found.news((announce(KEYS[2]),), NOW) == []
    assert found.members.get(KEYS[2].public) == newer


def test_a_forged_line_does_not_spoil_the_others():
    found = introduced(seeds=())
    actions = found.news((resigned(announce(KEYS[1]), stranger()), announce(KEYS[2])), NOW)

    assert [action.to for action in actions] == [THREE]


def test_who_left_expired_or_has_another_task_is_not_learned_from_others():
    found = introduced(seeds=())
    news = (
        announce(KEYS[1], leaving=True),
        announce(KEYS[2], issued_ms=MS - 40_000),
        announce(KEYS[3], task="other"),
    )
    actions = found.news(news, NOW)

    assert [found.members.get(key.public) for key in KEYS[1:]] == [None, None, None]
    assert outbox(actions, FOUR) == []


def test_an_endpoint_is_greeted_once_for_all_that_is_heard_of_it():
    found = introduced(seeds=())
    found.news((announce(KEYS[1]),), NOW)

    assert found.news((announce(KEYS[1], issued_ms=MS + 1),), NOW) == []


def test_a_peer_that_leaves_is_told():
    found = introduced(seeds=(TWO,))
    found.hello(hello(KEYS[1]), NOW)

    assert notices(found.hello(hello(KEYS[1], leaving=True, issued_ms=MS + 1), NOW)) == [(Note.LEFT, TWO)]


# -- refusals ------------------------------------------------------------------------------------------


def refusal(found: Introductions, said: Hello) -> tuple[list[tuple[Note, str]], Refused]:
    """What is told and answered when a hello is refused; its sender is not learned."""
    actions = found.hello(replace(said, wants_reply=True), NOW)
    assert found.members.get(said.announce.key) is None
    assert not found.accepts(said.announce)
    (answer,) = outbox(actions, said.announce.endpoint)
    assert answer.nonce == said.nonce
    return notices(actions), answer


def test_a_key_that_is_not_on_the_allow_list_is_refused():
    found = introduced(seeds=(), allow=frozenset({KEYS[1].public}))
    told, answer = refusal(found, hello(KEYS[2]))

    assert told == [(Note.NOT_ALLOWED, THREE)]
    assert "is not on the allow-list" in answer.reason
    assert found.accepts(announce(KEYS[1]))
    assert found.accepts(announce(KEYS[0]))


def test_another_key_than_the_pinned_one_is_refused():
    found = introduced(seeds=(), pins={TWO: KEYS[2].public})
    told, answer = refusal(found, hello(KEYS[1]))

    assert told == [(Note.WRONG_PIN, TWO)]
    assert "is not the one pinned" in answer.reason
    assert introduced(pins={TWO: KEYS[1].public}).accepts(announce(KEYS[1]))


def test_a_banned_key_is_refused():
    found = introduced(seeds=())
    found._standing.banned.add(KEYS[1].public)
    told, answer = refusal(found, hello(KEYS[1]))

    assert told == [(Note.NOT_ALLOWED, TWO)]
    assert "was banned" in answer.reason


@pytest.mark.parametrize("other", [{"task": "other"}, {"parameters": bytes(32)}])
def test_another_task_or_parameter_set_is_refused_with_ones_own(other):
    told, answer = refusal(introduced(seeds=()), hello(KEYS[1], **other))

    assert told == [(Note.OTHER_SWARM, TWO)]
    assert (answer.reason, answer.parameters) == (OTHER_SWARM, PARAMETERS)


def test_a_refusal_is_told_once_and_answered_each_time():
    found = introduced(seeds=())
    refusal(found, hello(KEYS[1], task="other"))

    assert refusal(found, hello(KEYS[1], task="other"))[0] == []
    assert found.hello(hello(KEYS[1], task="other"), NOW) == []


def test_a_forged_hello_is_refused_without_an_answer():
    with pytest.raises(RemoteProtocolError, match="bad announce signature"):
        introduced().hello(replace(hello(KEYS[1]), announce=resigned(announce(KEYS[1]), stranger())), NOW)


def test_being_refused_by_all_is_fatal_and_says_why():
    found = introduced(seeds=(TWO,))
    actions = found.refused(Refused(greeted(found, TWO), "key is not on the allow-list"), NOW)

    assert notices(actions) == [(Note.REFUSED, TWO)]
    assert only(actions, Fatal).text == f"{TWO} refuses this node: key is not on the allow-list"


def test_other_parameters_are_fatal_and_named():
    found = introduced(seeds=(TWO,))
    actions = found.refused(Refused(greeted(found, TWO), OTHER_SWARM, "theirs"), NOW)

    assert notices(actions) == [(Note.OTHER_SWARM, TWO)]
    assert only(actions, Fatal) == Fatal(f"{TWO} runs another task or other parameters", "theirs")


def test_being_refused_by_one_and_accepted_by_another_is_not_fatal():
    found = introduced()
    found.hello(hello(KEYS[2]), NOW)
    actions = found.refused(Refused(greeted(found, TWO), "no"), NOW)

    assert (notices(actions), found.joining) == ([(Note.REFUSED, TWO)], False)
    assert len(actions) == 1


def test_refusing_the_only_seed_oneself_is_fatal_too():
    found = introduced(seeds=(TWO,))
    actions = found.hello(hello(KEYS[1], nonce=greeted(found, TWO), task="other"), NOW)

    assert only(actions, Fatal).parameters == PARAMETERS


def test_a_refusal_of_something_that_was_not_said_is_refused():
    with pytest.raises(RemoteProtocolError, match="was not said"):
        introduced().refused(Refused(bytes(16), "no"), NOW)


def test_who_refused_and_then_answers_is_met():
    found = introduced()
    found.refused(Refused(greeted(found, TWO), "no"), NOW)
    found.hello(hello(KEYS[1], nonce=greeted(found, TWO)), NOW)

    assert found._greetings[TWO].refused is None


# -- one key, two nodes --------------------------------------------------------------------------------


def twin(found: Introductions, nonce: bytes, started_ms: int, instance: bytes = b"2" * 16) -> list:
    own = announce(KEYS[0], endpoint=TWO, started_ms=started_ms, instance=instance)
    return found.hello(Hello(own, nonce, False, PARAMETERS), NOW)


def test_the_later_of_two_nodes_with_one_key_gives_up():
    found = introduced()
    actions = twin(found, greeted(found, TWO), MS - 1)

    assert only(actions, Fatal).text.endswith(": give each node its own --key or --out")
    assert "already runs with this key" in only(actions, Fatal).text


def test_the_earlier_of_two_nodes_with_one_key_stays():
    found = introduced()

    assert twin(found, greeted(found, TWO), MS + 1) == []


def test_a_twin_that_does_not_answer_ones_own_hello_is_not_believed_but_asked():
    found = introduced()

    assert [type(action) for action in twin(found, NONCE, MS - 1)] == [Send]
    assert "already runs with this key" in only(twin(found, greeted(found, TWO), MS - 1), Fatal).text


def test_the_earlier_of_two_nodes_with_one_key_answers_the_later_one():
    found = introduced()
    later = announce(KEYS[0], endpoint=TWO, started_ms=MS + 1, instance=b"2" * 16)
    actions = found.hello(Hello(later, NONCE, True, PARAMETERS), NOW)

    (answer,) = only(actions, Send).messages
    assert (only(actions, Send).to, answer.nonce, answer.wants_reply) == (TWO, NONCE, False)


def test_an_answer_from_oneself_under_another_name_is_an_answer():
    found = introduced()
    twin(found, greeted(found, TWO), MS, instance=bytes(16))

    assert found.awaited() == (THREE,)


# -- with a tracker ------------------------------------------------------------------------------------


def roster(found: Introductions, known=(), nonce: bytes | None = None) -> Roster:
    return roster_of(KEYS[3], greeted(found, TRACKER) if nonce is None else nonce, known)


def test_with_a_tracker_only_the_tracker_is_greeted_and_waited_for():
    found = introduced(tracker=TRACKER)
    assert found.awaited() == (TRACKER,)
    found.tick(NOW + JOIN_S + 1)
    assert found.joining
    actions = found.roster(roster(found, [announce(KEYS[1])]), NOW + 6)

    assert (found.tracker_key, found.joining) == (KEYS[3].public, False)
    assert notices(actions) == [(Note.COORDINATOR, TRACKER)]
    assert len(outbox(actions, TWO)) == 1


def test_a_roster_that_was_not_asked_for_is_refused():
    found = introduced(tracker=TRACKER)
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        found.roster(roster(found, nonce=NONCE), NOW)
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        found.roster(roster(found, nonce=bytes(16)), NOW)
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        introduced().roster(roster_of(KEYS[3], NONCE), NOW)
    unopened = Introductions(settings(KEYS[0], tracker=TRACKER), standing(), rand(0))
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        unopened.roster(roster_of(KEYS[3], NONCE), NOW)


def test_news_from_the_tracker_that_one_knows_is_taken_in():
    found = introduced(tracker=TRACKER)
    found.roster(roster(found), NOW)
    found.roster(roster(found, [announce(KEYS[1], base=base(1, 1))], nonce=bytes(16)), NOW)

    assert found.members.get(KEYS[1].public).base == base(1, 1)


def test_a_roster_that_its_key_did_not_sign_is_refused_before_anything_else():
    found = introduced(tracker=TRACKER)
    good = roster(found, [announce(KEYS[1])])
    for forged in (
        replace(good, signature=bytes(64)),
        replace(good, key=KEYS[2].public),
        replace(good, known=()),
        replace(good, known=(announce(KEYS[2]),)),
        replace(good, nonce=NONCE),
        replace(roster_of(KEYS[2], good.nonce, good.known), key=KEYS[3].public),
    ):
        with pytest.raises(RemoteProtocolError, match="signature"):
            found.roster(forged, NOW)
        assert (found.tracker_key, found.joining, found.members.get(KEYS[1].public)) == (None, True, None)
    found.roster(good, NOW)
    with pytest.raises(RemoteProtocolError, match="signature"):
        found.roster(replace(roster(found, [announce(KEYS[2])], bytes(16)), signature=bytes(64)), NOW)
    assert found.members.get(KEYS[2].public) is None


def test_the_first_key_of_a_tracker_is_kept_before_anything_else_is_done_and_stays_its_key():
    found = introduced(tracker=TRACKER)
    assert found.keys_of_tracker == frozenset()
    actions = found.roster(roster(found, [announce(KEYS[1])]), NOW)
    assert actions[0] == TrackerKnown(TRACKER, KEYS[3].public)
    assert found.keys_of_tracker == {KEYS[3].public}

    found.greet(TRACKER, NOW + 1)
    again = found.roster(roster(found), NOW + 1)
    assert not any(isinstance(action, TrackerKnown) for action in again)

    found.greet(TRACKER, NOW + 2)
    found.tracker_key = None  # as where its link broke
    other = roster_of(KEYS[2], greeted(found, TRACKER), (announce(KEYS[2]),))
    text = f"it holds the key {KEYS[2].public.hex()}, not {KEYS[3].public.hex()}"
    assert found.roster(other, NOW + 2) == [WrongTracker(TRACKER, text)]
    assert (found.tracker_key, found.members.get(KEYS[2].public)) == (None, None)


def test_a_tracker_with_another_key_than_the_pinned_one_is_another():
    found = introduced(tracker=TRACKER, pins={TRACKER: KEYS[2].public})
    assert found.keys_of_tracker == {KEYS[2].public}
    text = f"it holds the key {KEYS[3].public.hex()}, not {KEYS[2].public.hex()}"
    assert found.roster(roster(found), NOW) == [WrongTracker(TRACKER, text)]

    found = introduced(tracker=TRACKER, pins={TRACKER: KEYS[3].public})
    actions = found.roster(roster(found), NOW)
    assert found.tracker_key == KEYS[3].public
    assert not any(isinstance(action, TrackerKnown) for action in actions)


def test_another_key_under_tls_is_another_tracker_and_a_peer_that_is_not_reached():
    why = f"{introductions.OTHER_KEY}ab..., not cd..."
    found = introduced(tracker=TRACKER)
    assert found.unreachable(TRACKER, NOW, why) == [WrongTracker(TRACKER, why)]
    found = introduced(seeds=(TWO,))
    assert not any(isinstance(action, WrongTracker) for action in found.unreachable(TWO, NOW, why))


def test_a_tracker_that_refuses_is_fatal():
    found = introduced(tracker=TRACKER)
    actions = found.refused(Refused(greeted(found, TRACKER), "not on the list"), NOW)

    assert actions == [Fatal(f"the tracker at {TRACKER} refuses this node: not on the list")]
