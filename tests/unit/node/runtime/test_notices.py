"""What an owner is told of two pictures of a swarm, and that each thing is told once."""

from dataclasses import replace
from pathlib import Path

import pytest

from node.nicknames import NO_NICKNAMES
from node.runtime.notices import Notices
from node.runtime.record.events import Noticed
from protocol.actions import Elector, Note, Waiting
from protocol.swarm.inspection import Picture
from protocol.swarm.votes.obstacle import Obstacle, Stage, Whose
from tests.parts import base

STRONG, WEAK = replace(base(3), anchor=3), replace(base(4), anchor=3)
FOUND = Obstacle(Stage.PATIENT, 1, (Elector("h:1"), Elector("h:2")), Whose.LAST, failing=5)
PICTURE = Picture(STRONG, FOUND)


@pytest.fixture
def notices() -> Notices:
    return Notices(PICTURE, "{}", NO_NICKNAMES, Path("runs"))


def kinds(told: list[Noticed]) -> list[Note]:
    return [each.notice.kind for each in told]


def test_an_obstacle_is_told_once_and_again_when_it_changes(notices):
    (first,) = notices.of(Waiting(), PICTURE)
    assert first.text.startswith("waiting for 1 of: h:1, h:2, who made the last model; goes on")
    assert notices.of(Waiting(), replace(PICTURE, obstacle=replace(FOUND, failing=4))) == []
    willing = replace(PICTURE, obstacle=replace(FOUND, stage=Stage.WILLING))
    assert kinds(notices.of(Waiting(), willing)) == [Note.WAITING]
    other = replace(PICTURE, obstacle=replace(FOUND, absent=FOUND.absent[:1]))
    assert kinds(notices.of(Waiting(), other)) == [Note.WAITING]


def test_who_waits_anew_is_told_the_same_again(notices):
    assert notices.of(Waiting(), PICTURE)
    assert kinds(notices.of(Waiting(is_anew=True), PICTURE)) == [Note.WAITING]


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
    (told,) = notices.since(Picture(WEAK, None))
    assert told.text.endswith("of the electors: it counts until they are back")
    assert notices.since(Picture(replace(base(5), anchor=3), None)) == []


def test_what_an_event_changed_is_told_before_the_event(notices):
    assert kinds(notices.of(Waiting(is_anew=True), replace(PICTURE, base=WEAK))) == [Note.WEAK, Note.WAITING]
