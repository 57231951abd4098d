"""What an owner is told of two pictures of a swarm, and that each thing is told once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from node.runtime.notices import Notices, strikes_words, vouch_text
from node.runtime.record.events import Noticed
from node.storage.nicknames import Nicknames
from protocol.actions import Due, Elector, Fatal, Fault, Note, Notice, Strike, TakenIn, Waiting
from protocol.invitation.words import key_words
from protocol.swarm.inspection import Picture
from protocol.swarm.lateness import Behind, Slow
from protocol.swarm.meeting.clock_skew import Skew
from protocol.swarm.meeting.patience import PatienceLeft
from protocol.swarm.votes.obstacle import Obstacle, Stage, Whose
from protocol.wire.endpoints import of_key
from protocol.wire.messages import Vouch
from tests.parts import base

STRONG, WEAK = replace(base(3), anchor=3), replace(base(4), anchor=3)
KEYS = [bytes([number]) * 32 for number in range(6)]
FOUND = Obstacle(Stage.PATIENT, 1, (Elector("h:1"), Elector("h:2")), Whose.LAST, patience=PatienceLeft(5))
PICTURE = Picture(STRONG, FOUND, FOUND, late=(), clocks={}, set_s=0.0, left_out=(), out_by=())


@pytest.fixture
def notices() -> Notices:
    named = Nicknames({KEYS[1]: "ward b"})
    return Notices(PICTURE, "{}", named, Path("runs"), lambda key: f"h:{key[0]}")


def hindered(found: Obstacle | None) -> Picture:
    return replace(PICTURE, obstacle=found, hindered=found)


def kinds(told: list[Noticed]) -> list[Note]:
    return [each.notice.kind for each in told]


def test_a_peer_with_another_list_of_members_is_called_by_its_name(notices):
    """Its endpoint stands for its key."""
    mine, theirs = (json.dumps({"roster": digit * 64, "task": digit}) for digit in "37")
    notices = Notices(PICTURE, mine, Nicknames({KEYS[1]: "Ward C"}), Path("runs"), lambda _: "")
    line = "another list: Ward C runs with the list 7777…, you with 3333…"
    (told,) = notices.of(Notice(Note.OTHER_SWARM, of_key(KEYS[1]), theirs), PICTURE)
    assert (told.text, told.notice.who) == (line, of_key(KEYS[1]))
    there = f"{of_key(KEYS[1])} runs another task or other parameters"
    assert notices.of_fatal(Fatal(there, theirs, of_key(KEYS[1]))) == line
    assert notices.of_fatal(Fatal("it ends")) == "it ends"
    other = mine.replace('"task": "3"', '"task": "4"')
    assert notices.of_fatal(Fatal("h:1 differs", other, "h:1")) == (
        'h:1 differs: task is "3" here and "4" there; make them equal'
    )


def test_a_peer_whose_endpoint_stands_for_its_key_is_called_by_its_name(notices):
    def said(kind: Note, text: str) -> str:
        (told,) = notices.of(Notice(kind, of_key(KEYS[1]), text), PICTURE)
        return told.text

    assert said(Note.UNREACHABLE, "away") == "ward b cannot be reached (away); trying again"
    assert said(Note.STAYS, "15") == (
        "the run is over here; this node stays up to 15 min more for ward b, which lacks the last model; "
        "Ctrl-C ends it"
    )
    assert said(Note.JOINED, KEYS[1].hex()[:8]) == "ward b is here (key 01010101)"


def test_an_obstacle_is_told_once_and_again_when_it_changes_or_somebody_waits_anew(notices):
    (first,) = notices.of(Waiting(), PICTURE)
    assert first.text.startswith("waiting for 1 of: h:1, h:2, who made the last model; goes on")
    assert notices.of(Waiting(), hindered(replace(FOUND, patience=PatienceLeft(4)))) == []
    willing = hindered(replace(FOUND, stage=Stage.WILLING))
    assert kinds(notices.of(Waiting(), willing)) == [Note.WAITING]
    other = hindered(replace(FOUND, absent=FOUND.absent[:1]))
    assert kinds(notices.of(Waiting(), other)) == [Note.WAITING]
    assert kinds(notices.of(Waiting(is_anew=True), other)) == [Note.WAITING]


def test_an_obstacle_that_is_gone_in_the_same_moment_is_told_all_the_same(notices):
    (told,) = notices.of(Waiting(), replace(PICTURE, obstacle=None))
    assert told.text.endswith("who made the last model; goes on without them after 5 more failed rounds")


def test_models_without_a_quorum_are_told_once_and_so_is_the_first_with_a_quorum_after_them(notices):
    assert notices.since(PICTURE) == []
    weak = replace(PICTURE, base=WEAK)
    (told,) = notices.since(weak)
    missing = "without a quorum of the electors (missing: 1 of: h:1, h:2)"
    assert told.text == f"the model of generation 4 was agreed {missing}: it counts until they are back"
    weaker = replace(weak, base=replace(base(5), anchor=3))
    assert notices.since(weaker) == notices.of(Waiting(), weaker) == []
    strong = replace(PICTURE, base=replace(base(6), anchor=6))
    (told,) = notices.since(strong)
    assert told.text == "a quorum is there: the model of generation 6 counts for good"
    assert notices.since(replace(PICTURE, base=replace(base(7), anchor=7))) == []


def test_a_model_without_a_quorum_is_told_of_where_the_electors_are_back(notices):
    (told,) = notices.since(replace(PICTURE, base=WEAK, obstacle=None))
    assert told.text.endswith("of the electors: it counts until they are back")
    assert notices.since(replace(PICTURE, base=replace(base(5), anchor=3), obstacle=None)) == []


def test_what_an_event_changed_is_told_before_the_event(notices):
    assert kinds(notices.of(Waiting(is_anew=True), replace(PICTURE, base=WEAK))) == [Note.WEAK, Note.WAITING]


def test_who_is_late_is_told_once_and_again_after_it_was_on_time(notices):
    late = (Slow(KEYS[2], "h:2", 3, 2.0), Behind(KEYS[2], "h:2", 4, 6))
    found = replace(PICTURE, late=late)
    assert [(each.notice, each.text) for each in notices.since(found)] == [
        (Notice(Note.SLOW, "h:2"), "h:2 is slow: the last 3 sums waited 2.0 s for it"),
        (Notice(Note.BEHIND, "h:2"), "h:2 fell behind: its last sum is 4, this node's 6"),
    ]
    assert notices.since(replace(found, late=(replace(late[0], mean_s=3.0), late[1]))) == []
    assert notices.since(replace(found, late=late[1:])) == []
    assert kinds(notices.since(found)) == [Note.SLOW]


def test_wrong_clocks_are_told(notices):
    assert kinds(notices.since(replace(PICTURE, clocks={KEYS[2]: Skew("h:2", 100.0)}))) == [Note.CLOCK]
    assert kinds(notices.since(replace(PICTURE, set_s=600.0))) == [Note.CLOCK]


def test_who_coordinates_though_this_node_does_not_learn_with_it_is_told_once(notices):
    def after(generation, led_by):
        made = replace(base(generation), anchor=generation)
        return [each.text for each in notices.since(replace(PICTURE, base=made, led_by=led_by))]

    (told,) = after(4, KEYS[1])
    assert told.startswith("ward b coordinates the others, and this node does not learn with it: it follows")
    assert after(5, KEYS[1]) == after(6, None) == []
    assert len(after(7, KEYS[1])) == 1


SHARE = "did not send its share, and the sum"


B, C = KEYS[1:3]


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (
            Strike(B, Fault.FAILED, Due.SHARE, 4, is_first=True),
            f"ward b {SHARE} failed: left out of the next sum, and the next time for 4 rounds",
        ),
        (Strike(C, Fault.WAITED, Due.SHARE, 1, False), f"h:2 {SHARE} waited for it: left out for 1 round"),
        (
            Strike(C, Fault.CONTRADICTS, Due.JOINED, 2, is_first=False),
            "h:2 contradicts more than one other about its vote for the joins: left out for 2 rounds",
        ),
        (
            Strike(C, Fault.IN_TWO, None, 2, is_first=False),
            "h:2 is in two groups at once for one model: left out for 2 rounds",
        ),
        (TakenIn(B, is_time_over=True), "ward b is no longer left out: its time is over"),
        (TakenIn(C, False), "h:2 is no longer left out: it has taken part in a sum to its end"),
    ],
)
def test_who_withholds_is_told_by_name(notices, action, text):
    (told,) = notices.of(action, PICTURE)
    assert (told.notice.kind, told.text) == (Note.WITHHOLDS, text)


OUT = "this machine is left out of sums for a while: its messages came late or not at all"
CUT = "is its network slow or cut?"


def test_who_has_this_node_left_out_is_told_once_until_a_sum_with_it(notices):
    few, all_ = replace(PICTURE, out_by=tuple(KEYS[1:3])), replace(PICTURE, out_by=tuple(KEYS[1:]))
    (told,) = notices.since(few)
    assert (told.notice.kind, told.text) == (Note.WITHHOLDS, f"{OUT}, say ward b, h:2; {CUT}")
    assert notices.since(replace(few, set_s=1.0)) == notices.since(PICTURE) == []
    (told,) = notices.since(all_)
    assert told.text == f"{OUT}, say ward b, h:2, h:3, ...; {CUT}"


@pytest.mark.parametrize(
    ("strikes", "rounds_out", "text"),
    [
        (0, 0, ""),
        (1, 0, "1 sum failed or waited for its messages"),
        (2, 0, "2 sums failed or waited for its messages"),
        (2, 1, "withholds: left out for 1 round"),
    ],
)
def test_what_is_held_against_a_peer(strikes, rounds_out, text):
    assert strikes_words(strikes, rounds_out) == text


def test_of_one_subject_the_first_notice_is_told_and_of_strangers_without_number_the_first_are_forgotten(
    notices, monkeypatch
):
    monkeypatch.setattr("node.runtime.notices.MAX_TOLD", 2)
    refused = [Notice(Note.NOT_ALLOWED, "h:9", "no", subject=key) for key in KEYS[:3]]
    told = [kinds(notices.of(each, PICTURE)) for each in (refused[0], refused[0], *refused[1:], refused[0])]
    assert [len(each) for each in told] == [1, 0, 1, 1, 1]
    assert kinds(notices.of(replace(refused[0], kind=Note.WRONG_PIN), PICTURE)) == [Note.WRONG_PIN]
    anybody = Notice(Note.LOST, "h:9")
    assert [each.text for each in (*notices.of(anybody, PICTURE), *notices.of(anybody, PICTURE))] == [
        "h:9 is gone: fell silent"
    ] * 2


def test_a_coordinator_is_named_and_told_again_when_it_is_silent(notices):
    met, silent = Notice(Note.COORDINATOR, "h:9", "abcd", subject=KEYS[0]), Notice(Note.COORDINATOR, "h:9")
    told = [each.text for action in (met, met, silent, silent) for each in notices.of(action, PICTURE)]
    assert told == ["coordinator h:9: abcd", *["coordinator h:9: does not answer; it is asked again"] * 2]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Ward D", "vouches for a newcomer, Ward D ("),
        ("ward B", "vouches for a new key of ward B ("),
    ],
)
def test_an_owner_hears_who_vouches_for_whom_and_what_to_type(name: str, says: str):
    vouch = Vouch(bytes(32), name, KEYS[2], KEYS[1], bytes(64))
    told = vouch_text(vouch, Nicknames({KEYS[1]: "Ward B"}), Path("runs/ward"))
    assert told.startswith(f"Ward B {says}{key_words(KEYS[2])})")
    assert ("spent of its privacy budget" in told) == (name == "ward B")
    assert told.endswith(f'murmuration members runs/ward --accept "{name}"')
