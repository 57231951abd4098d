"""Hellos: who is greeted, who is believed, who is refused and why, and when joining ends."""

from dataclasses import replace

import pytest

from protocol.actions import Fatal, Note, Notice, RaiseEpoch, Reply, Send, TrackerKnown, WrongTracker
from protocol.errors import RemoteProtocolError
from protocol.swarm.meeting import discovery
from protocol.swarm.meeting.discovery import (
    ANNOUNCE_EVERY_S,
    GREETED_FOR_S,
    JOIN_S,
    OTHER_SWARM,
    Discovery,
    Retry,
)
from protocol.swarm.node_state import ANNOUNCE_LIFETIME_S
from protocol.wire.endpoints import of_key
from protocol.wire.messages import Announce, Hello, Refused, Roster
from tests.parts import (
    COUNTER,
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
    state,
    stranger,
)

KEYS = members(4)
ONE, TWO, THREE, FOUR = (endpoint(key) for key in KEYS)
HOME = of_key(KEYS[0].public)
TRACKER = "127.0.0.1:9"
NONCE = b"n" * 16


def introduced(seeds=(TWO, THREE), **changes) -> Discovery:
    """Returns the introductions of member one, opened at NOW."""
    found = Discovery(settings(KEYS[0], seeds=seeds, **changes), state(), rand(0))
    found.open(NOW)
    return found


def hello(key, nonce: bytes = NONCE, wants_reply: bool = False, known=(), **changes) -> Hello:
    return Hello(announce(key, **changes), nonce, wants_reply, PARAMETERS, tuple(known))


def say(found: Discovery, said: Hello, now: float) -> list:
    """Sends a hello on a link of its sender."""
    return found.hello(said, said.announce.key, now)


def greeted(found: Discovery, where: str) -> bytes:
    """Returns the nonce of the hello to an endpoint."""
    return found._greetings[where].nonce


def notices(actions) -> list[tuple[Note, str]]:
    return [(action.kind, action.who) for action in actions if isinstance(action, Notice)]


# -- greeting ------------------------------------------------------------------------------------------


def test_everyone_that_was_named_is_greeted_and_oneself_is_not():
    found = Discovery(settings(KEYS[0], seeds=(ONE, TWO, THREE)), state(), rand(0))
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
    say(found, hello(KEYS[1]), NOW)
    assert found.joining

    assert notices(say(found, hello(KEYS[2]), NOW)) == [(Note.JOINED, THREE)]
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
    say(found, hello(KEYS[1], base=base(3)), NOW)
    assert found.joining

    say(found, hello(KEYS[2], base=base(3)), NOW)
    assert not found.joining


def test_a_question_is_answered_with_whom_one_knows():
    found = introduced()
    say(found, hello(KEYS[1]), NOW)
    (answer,) = outbox(say(found, hello(KEYS[2], wants_reply=True), NOW), THREE)

    assert (answer.nonce, answer.wants_reply) == (NONCE, False)
    assert {one.endpoint for one in answer.known} == {TWO, THREE}
    (question,) = outbox(found.greet(FOUR, NOW), FOUR)
    assert question.known == (), "a question is short"


def test_an_endpoint_that_does_not_answer_is_greeted_again_later_each_time():
    found = introduced(seeds=(TWO,))
    waits = []
    for _ in range(12):
        found.unreachable(TWO, NOW, "refused")
        waits.append(found._greetings[TWO].retry.at - NOW)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == pytest.approx((0.1, 4.0))

    (again,) = outbox(found.tick(NOW + 4), TWO)
    assert again.nonce == greeted(found, TWO)


def test_who_is_silent_is_greeted_again_though_no_link_broke_but_not_who_left_nor_a_tracker():
    found = introduced(tracker=TRACKER)
    for key in KEYS[1:3]:
        found.greet(endpoint(key), NOW)
        say(found, hello(key), NOW + 1)
    silent_at = NOW + 1 + ANNOUNCE_LIFETIME_S
    say(found, hello(KEYS[2], leaving=True, counter=COUNTER + 1), NOW + 2)
    greeting = found.greetings[TRACKER]
    greeting.answered, greeting.retry, greeting.since = True, Retry(), NOW + 1
    assert outbox(found.tick(silent_at - 0.1), TWO) == []
    actions = found.tick(silent_at + 2)
    assert [action.to for action in actions if isinstance(action, Send)] == [TWO]
    say(found, hello(KEYS[1], counter=COUNTER + 1), silent_at + 3)
    assert outbox(found.tick(silent_at + 10), TWO) == []


def test_an_unreachable_endpoint_is_told_once_and_not_while_joining():
    found = introduced(seeds=(TWO,))
    assert found.unreachable(TWO, NOW, "refused") == []

    assert notices(found.tick(NOW + JOIN_S)) == [(Note.UNREACHABLE, TWO)]
    assert found.unreachable(TWO, NOW, "refused") == []
    found.news((announce(KEYS[3]),), NOW)
    assert notices(found.unreachable(FOUR, NOW, "no such host")) == [(Note.UNREACHABLE, FOUR)]


def test_an_endpoint_that_is_nobodys_is_not_greeted_because_it_can_not_be_reached():
    """Otherwise strangers could fill the table by making this node dial."""
    found = introduced(seeds=(TWO,))

    assert found.unreachable(FOUR, NOW, "no such host") == []
    assert set(found._greetings) == {TWO}


def test_who_has_left_is_not_greeted_again():
    found = introduced(seeds=(TWO,))
    say(found, hello(KEYS[1], leaving=True), NOW)

    assert found.unreachable(TWO, NOW, "refused") == []
    assert found._greetings[TWO].retry.at is None
    never_greeted = introduced(seeds=())
    say(never_greeted, hello(KEYS[1], leaving=True), NOW)
    assert never_greeted.unreachable(TWO, NOW, "refused") == []


OLDER = f"{discovery.OLDER_VERSION} (protocol 1, this node 2): upgrade all"


def test_who_runs_another_version_is_told_at_once_and_joining_does_not_wait_for_it():
    found = introduced(seeds=(TWO,))
    answered = Notice(Note.OTHER_VERSION, TWO, OLDER, subject=f"{TWO} {OLDER}".encode())
    assert found.unreachable(TWO, NOW, OLDER) == [answered]
    assert not found.joining
    assert notices(found.tick(NOW + JOIN_S)) == []
    assert found.other_versions == {TWO: OLDER}

    assert notices(found.unreachable(TWO, NOW, "refused")) == [(Note.UNREACHABLE, TWO)]
    assert found.other_versions == {TWO: OLDER}, "it is being upgraded"
    say(found, hello(KEYS[1]), NOW)
    assert found.other_versions == {}
    assert notices(found.unreachable(TWO, NOW, OLDER.replace("1", "0"))) == [(Note.OTHER_VERSION, TWO)]


def test_who_refuses_this_node_is_of_its_version():
    found = introduced(seeds=(TWO, THREE))
    found.unreachable(TWO, NOW, OLDER)
    found.refused(Refused(greeted(found, TWO), "no", ""), NOW)
    assert found.other_versions == {}


def test_who_has_left_is_looked_for_once_when_somebody_of_another_version_has_dialled():
    found = introduced(seeds=(TWO, THREE))
    say(found, hello(KEYS[1], leaving=True), NOW)
    assert [action.to for action in found.look_again(NOW)] == [TWO]
    assert found.look_again(NOW) == [], "one try is under way"

    assert found.unreachable(TWO, NOW, "refused") == []
    assert (found._greetings[TWO].retry.at, found.awaited()) == (None, (THREE,))
    assert [action.to for action in found.look_again(NOW)] == [TWO]
    assert notices(found.unreachable(TWO, NOW, OLDER)) == [(Note.OTHER_VERSION, TWO)]
    assert found.other_versions == {TWO: OLDER}


def test_another_tls_is_told_whenever_it_comes_and_goes_and_other_reasons_once():
    found, plain = introduced(seeds=(TWO,)), f"{discovery.WITHOUT_TLS}; use the same"
    found.unreachable(TWO, NOW, "refused")
    assert notices(found.tick(NOW + JOIN_S)) == [(Note.UNREACHABLE, TWO)]
    said = [
        found.unreachable(TWO, NOW, why) for why in ("no host", plain, plain, "refused", "no host", plain)
    ]
    assert [[action.text for action in actions] for actions in said] == [
        [],
        [plain],
        [],
        ["refused"],
        [],
        [plain],
    ]
    say(found, hello(KEYS[1]), NOW)
    assert not found._greetings[TWO].other_tls


def test_one_that_left_is_not_taken_for_one_with_another_tls_unless_somebody_has_dialled():
    found, plain = introduced(seeds=(TWO,)), f"{discovery.WITHOUT_TLS}; use the same"
    found.tick(NOW + JOIN_S)
    say(found, hello(KEYS[1], leaving=True), NOW)
    assert found.unreachable(TWO, NOW, plain) == [], "it may have been closing"
    assert [action.to for action in found.look_again(NOW)] == [TWO]
    assert notices(found.unreachable(TWO, NOW + 1, plain)) == [(Note.UNREACHABLE, TWO)]
    assert found.unreachable(TWO, NOW + 2 * JOIN_S, plain) == []
    assert found._greetings[TWO].other_tls, "it still is, however long ago it dialled"
    assert found.unreachable(TWO, NOW + 2 * JOIN_S, "refused") == []
    assert found._greetings[TWO].retry.at is None


def test_the_number_of_greetings_is_limited_and_those_at_hand_go_on(monkeypatch):
    monkeypatch.setattr(discovery, "MAX_GREETINGS", 2)
    found = introduced(seeds=(TWO, THREE, FOUR))

    assert set(found._greetings) == {TWO, THREE}
    assert len(found.greet(TWO, NOW)) == 1
    assert found.greet(FOUR, NOW) == []


def test_who_was_not_named_and_never_answers_is_greeted_no_more():
    found = introduced(seeds=(TWO,))
    found.news((announce(KEYS[2], parameters=bytes(32)),), NOW)
    assert set(found._greetings) == {TWO, THREE}

    found.tick(NOW + GREETED_FOR_S - 1)
    assert set(found._greetings) == {TWO, THREE}
    found.tick(NOW + GREETED_FOR_S)
    assert set(found._greetings) == {TWO}


# -- announcing ----------------------------------------------------------------------------------------


def test_a_broadcast_goes_to_every_live_peer_once():
    found = introduced(seeds=())
    for key in KEYS[1:3]:
        say(found, hello(key), NOW)
    actions = found.broadcast(NOW)

    assert [action.to for action in actions] == sorted({TWO, THREE})
    (news,) = outbox(actions, TWO)
    assert (news.announce.leaving, news.wants_reply, news.parameters) == (False, False, "")


def test_it_is_time_to_announce_again_every_ten_seconds():
    found = introduced(seeds=())
    assert found.deadline == NOW + ANNOUNCE_EVERY_S
    assert not found.announcing_due(NOW + ANNOUNCE_EVERY_S - 0.1)
    assert found.announcing_due(NOW + ANNOUNCE_EVERY_S)

    found.broadcast(NOW + ANNOUNCE_EVERY_S)
    assert not found.announcing_due(NOW + ANNOUNCE_EVERY_S)


def test_each_announcement_is_newer_than_the_one_before():
    found = introduced(seeds=(TWO,))
    times = [outbox(found.greet(TWO, NOW), TWO)[0].announce.counter for _ in range(3)]

    assert times[0] < times[1] < times[2]


def test_before_it_is_opened_nothing_is_due():
    found = Discovery(settings(KEYS[0]), state(), rand(0))

    assert found.deadline is None
    assert not found.announcing_due(NOW)
    assert found.settle(NOW) == []


def test_announcements_are_shown_to_who_should_see_them():
    found = introduced()
    shown = announce(KEYS[3])
    (news,) = outbox(found.show(TWO, (shown,), NOW), TWO)

    assert (news.known, news.wants_reply) == ((shown,), False)


# -- news ----------------------------------------------------------------------------------------------


def test_those_that_others_know_are_greeted_and_learned():
    found = introduced(seeds=(TWO,))
    actions = say(found, hello(KEYS[1], known=[announce(KEYS[2]), announce(KEYS[0])]), NOW)

    assert len(outbox(actions, THREE)) == 1
    assert found.members.get(KEYS[2].public) == announce(KEYS[2])
    assert found.members.get(KEYS[0].public) is None


def test_nobody_is_made_to_call_strangers():
    found = introduced(seeds=(), allow=frozenset({KEYS[1].public}))

    assert found.news((announce(KEYS[2]),), NOW) == []
    assert [action.to for action in found.news((announce(KEYS[1]),), NOW)] == [TWO]


def test_old_news_is_no_news():
    found = introduced(seeds=())
    newer = announce(KEYS[2], counter=COUNTER + 5)
    found.news((newer,), NOW)

    assert found.news((announce(KEYS[2]),), NOW) == []
    assert found.members.get(KEYS[2].public) == newer


def test_a_forged_line_does_not_spoil_the_others():
    found = introduced(seeds=())
    actions = found.news((resigned(announce(KEYS[1]), stranger()), announce(KEYS[2])), NOW)

    assert [action.to for action in actions] == [THREE]


def test_who_left_or_has_another_task_is_not_learned_from_others():
    found = introduced(seeds=())
    actions = found.news((announce(KEYS[1], leaving=True), announce(KEYS[3], task="other")), NOW)

    assert [found.members.get(key.public) for key in KEYS[1:]] == [None, None, None]
    assert outbox(actions, FOUR) == []


def test_an_endpoint_is_greeted_once_for_all_that_is_heard_of_it():
    found = introduced(seeds=())
    found.news((announce(KEYS[1]),), NOW)

    assert found.news((announce(KEYS[1], counter=COUNTER + 1),), NOW) == []


# -- refusals ------------------------------------------------------------------------------------------


def refusal(found: Discovery, said: Hello) -> tuple[list[tuple[Note, str]], Refused]:
    """Returns the notice and the answer for a refused hello; its sender is not learned."""
    actions = say(found, replace(said, wants_reply=True), NOW)
    assert found.members.get(said.announce.key) is None
    assert not found.accepts(said.announce)
    (answer,) = only(actions, Reply).messages
    assert not [action for action in actions if isinstance(action, Send)]
    assert answer.nonce == said.nonce
    return notices(actions), answer


@pytest.mark.parametrize(
    ("changes", "note", "why"),
    [
        ({"allow": frozenset({KEYS[1].public})}, Note.NOT_ALLOWED, "is not on the allow-list"),
        ({"pins": {THREE: KEYS[1].public}}, Note.WRONG_PIN, "is not the one pinned"),
        ({}, Note.NOT_ALLOWED, "was banned"),
    ],
)
def test_a_key_that_is_not_listed_or_pinned_or_that_was_banned_is_refused(changes, note, why):
    found = introduced(seeds=(), **changes)
    if not changes:
        found._state.banned[KEYS[2].public] = ()
    told, answer = refusal(found, hello(KEYS[2]))

    assert told == [(note, THREE)]
    assert why in answer.reason
    assert found.accepts(announce(KEYS[1]))
    assert found.accepts(announce(KEYS[0]))
    assert introduced(pins={TWO: KEYS[1].public}).accepts(announce(KEYS[1]))


@pytest.mark.parametrize(
    ("mine", "theirs"), [(HOME, TWO), (HOME, of_key(KEYS[3].public)), (ONE, of_key(KEYS[3].public))]
)
def test_in_a_swarm_by_keys_nobody_makes_a_node_dial_elsewhere(mine, theirs):
    found = introduced(seeds=(), endpoint=mine)
    said = hello(KEYS[1], endpoint=theirs)
    told, answer = refusal(found, said)
    assert told == [(Note.NOT_ALLOWED, theirs)]
    assert answer.reason == f"key {KEYS[1].public.hex()} announces an endpoint that is not its own"
    assert found.news((said.announce,), NOW) == [], "nor by what others pass on"
    assert found.accepts(announce(KEYS[1], endpoint=of_key(KEYS[1].public)))


@pytest.mark.parametrize("other", [{"task": "other"}, {"parameters": bytes(32)}])
def test_another_task_or_parameter_set_is_refused_with_ones_own(other):
    told, answer = refusal(introduced(seeds=()), hello(KEYS[1], **other))

    assert told == [(Note.OTHER_SWARM, TWO)]
    assert (answer.reason, answer.parameters) == (OTHER_SWARM, PARAMETERS)


def test_a_refusal_is_answered_each_time_and_about_one_subject():
    found = introduced(seeds=())
    assert refusal(found, hello(KEYS[1], task="other")) == refusal(found, hello(KEYS[1], task="other"))
    (notice,) = say(found, hello(KEYS[1], task="other"), NOW)
    assert notice == Notice(Note.OTHER_SWARM, TWO, PARAMETERS, subject=KEYS[1].public)


def test_a_forged_hello_is_refused_without_an_answer():
    with pytest.raises(RemoteProtocolError, match="bad announce signature"):
        say(introduced(), replace(hello(KEYS[1]), announce=resigned(announce(KEYS[1]), stranger())), NOW)


def test_being_refused_by_all_is_fatal_and_says_why():
    found = introduced(seeds=(TWO,))
    actions = found.refused(Refused(greeted(found, TWO), "key is not on the allow-list"), NOW)

    assert notices(actions) == [(Note.REFUSED, TWO)]
    assert only(actions, Fatal).text == f"{TWO} refuses this node: key is not on the allow-list"


def test_other_parameters_are_fatal_and_named():
    found = introduced(seeds=(TWO,))
    actions = found.refused(Refused(greeted(found, TWO), OTHER_SWARM, "theirs"), NOW)

    assert notices(actions) == [(Note.OTHER_SWARM, TWO)]
    assert only(actions, Fatal) == Fatal(f"{TWO} runs another task or other parameters", "theirs", TWO)


def test_being_refused_by_one_and_accepted_by_another_is_not_fatal():
    found = introduced()
    say(found, hello(KEYS[2]), NOW)
    actions = found.refused(Refused(greeted(found, TWO), "no"), NOW)

    assert (notices(actions), found.joining) == ([(Note.REFUSED, TWO)], False)
    assert len(actions) == 1


def test_refusing_the_only_seed_oneself_is_fatal_too():
    found = introduced(seeds=(TWO,))
    actions = say(found, hello(KEYS[1], nonce=greeted(found, TWO), task="other"), NOW)

    assert only(actions, Fatal).parameters == PARAMETERS


def test_a_refusal_of_something_that_was_not_said_is_refused():
    with pytest.raises(RemoteProtocolError, match="was not said"):
        introduced().refused(Refused(bytes(16), "no"), NOW)


def test_who_refused_and_then_answers_is_met():
    found = introduced()
    found.refused(Refused(greeted(found, TWO), "no"), NOW)
    say(found, hello(KEYS[1], nonce=greeted(found, TWO)), NOW)

    assert found._greetings[TWO].refused is None


# -- one key, two nodes --------------------------------------------------------------------------------


def twin(
    found: Discovery, nonce: bytes, age_s: float, instance: bytes = b"2" * 16, wants_reply: bool = False
) -> list:
    """Makes a hello in this node's own name, when this node is 10 s old."""
    own = announce(KEYS[0], endpoint=TWO, instance=instance)
    said = Hello(own, nonce, wants_reply, PARAMETERS, age_ms=int(1000 * age_s))
    return say(found, said, NOW + 10)


def test_the_younger_of_two_nodes_with_one_key_gives_up():
    text = only(twin(introduced(), NONCE, age_s=12), Fatal).text

    assert text.endswith(": give each node its own --key or --out")
    assert "already runs with this key" in text


def test_the_older_of_two_nodes_with_one_key_stays_and_answers_the_younger_one():
    found = introduced()

    assert twin(found, NONCE, age_s=8) == []
    actions = twin(found, NONCE, age_s=8, wants_reply=True)
    (answer,) = only(actions, Send).messages
    assert (only(actions, Send).to, answer.nonce, answer.wants_reply) == (TWO, NONCE, False)


@pytest.mark.parametrize("age_s", [9.96, 10])
def test_of_two_nodes_of_one_age_the_name_of_the_start_decides(age_s):
    """Delays of messages must not make each of them the younger one, or neither."""
    assert twin(introduced(instance=b"1" * 16), NONCE, age_s)
    assert not twin(introduced(instance=b"3" * 16), NONCE, age_s)


@pytest.mark.parametrize(
    ("said", "by"),
    [
        (hello(KEYS[1]), None),
        (hello(KEYS[1]), KEYS[2].public),
        (
            Hello(announce(KEYS[0], instance=b"2" * 16), NONCE, False, PARAMETERS, age_ms=2**40),
            KEYS[1].public,
        ),
    ],
    ids=["nobody", "another", "another, in this node's own name"],
)
def test_a_hello_counts_on_a_link_of_its_sender_alone(said, by):
    with pytest.raises(RemoteProtocolError, match="on the link of another"):
        introduced().hello(said, by, NOW)


# -- an older copy of a folder -------------------------------------------------------------------------


def own(epoch: int, counter: int = 1, instance: bytes = b"2" * 16, **changes) -> Announce:
    return announce(KEYS[0], epoch=epoch, counter=counter, instance=instance, **changes)


def test_a_key_that_was_further_than_this_folder_goes_on_above_it():
    found = introduced(seeds=(TWO,))
    say(found, hello(KEYS[2]), NOW)
    actions = say(found, hello(KEYS[1], known=[own(4), own(7, endpoint=FOUR), own(6)]), NOW)

    kinds = [type(action) for action in actions]
    assert only(actions, RaiseEpoch) == RaiseEpoch(7)
    assert (Note.EPOCH, "") in notices(actions)
    (question,) = outbox(actions, FOUR)  # if another runs with this key, it is there
    (news,) = outbox(actions, THREE)
    assert {question.announce.epoch, news.announce.epoch} == {8}
    assert kinds.index(RaiseEpoch) < kinds.index(Send)  # it is stored before anything is said
    assert say(found, hello(KEYS[1], known=[own(7)], counter=COUNTER + 1), NOW) == []


@pytest.mark.parametrize(
    "shown",
    [own(0, counter=0), own(7, instance=bytes(16)), resigned(own(7), stranger())],
    ids=["earlier", "of this start", "forged"],
)
def test_what_others_remember_of_this_key_may_say_nothing(shown):
    found = introduced(seeds=(TWO,))
    actions = say(found, hello(KEYS[1], known=[shown]), NOW)

    assert not [action for action in actions if isinstance(action, RaiseEpoch)]
    assert found._state.epoch == 0


def test_who_comes_back_with_an_earlier_epoch_is_shown_how_far_it_was():
    found = introduced(seeds=(TWO,))
    was = announce(KEYS[1], epoch=5, instance=b"5" * 16)
    say(found, Hello(was, NONCE, False, PARAMETERS), NOW)
    (answer,) = outbox(say(found, hello(KEYS[1], epoch=2), NOW), TWO)

    assert answer.known[0] == was
    assert found.members.get(KEYS[1].public) == was


def test_a_goodbye_of_an_earlier_start_means_nothing():
    found = introduced(seeds=(TWO,))
    say(found, hello(KEYS[1], epoch=2, counter=1), NOW)
    say(found, hello(KEYS[1], epoch=1, counter=COUNTER, leaving=True), NOW)

    assert KEYS[1].public in found.members.known


def test_an_answer_from_oneself_under_another_name_is_an_answer():
    found = introduced()
    twin(found, greeted(found, TWO), 10, instance=bytes(16))

    assert found.awaited() == (THREE,)


# -- with a tracker ------------------------------------------------------------------------------------


def roster(found: Discovery, known=(), nonce: bytes | None = None) -> Roster:
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
    unopened = Discovery(settings(KEYS[0], tracker=TRACKER), state(), rand(0))
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
    why = f"{discovery.OTHER_KEY}ab..., not cd..."
    found = introduced(tracker=TRACKER)
    assert found.unreachable(TRACKER, NOW, why) == [WrongTracker(TRACKER, why)]
    found = introduced(seeds=(TWO,))
    assert not any(isinstance(action, WrongTracker) for action in found.unreachable(TWO, NOW, why))


def test_a_tracker_that_refuses_is_fatal():
    found = introduced(tracker=TRACKER)
    actions = found.refused(Refused(greeted(found, TRACKER), "not on the list"), NOW)

    assert actions == [Fatal(f"the tracker at {TRACKER} refuses this node: not on the list")]


def test_who_sent_too_little_is_greeted_at_the_next_tick_and_heard_by_its_answer():
    found, key = introduced(), KEYS[1]
    say(found, hello(key, greeted(found, TWO)), NOW)
    say(found, hello(KEYS[2], greeted(found, THREE)), NOW)
    found.miss(key.public, NOW)
    found.miss(stranger().public, NOW)
    assert found.members.silent == {key.public}
    (question,) = outbox(found.tick(NOW), TWO)
    assert question.wants_reply
    say(found, hello(key, question.nonce, counter=COUNTER + 1), NOW)
    assert found.members.silent == frozenset()
    assert not outbox(found.tick(NOW + 1), TWO)
