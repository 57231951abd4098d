"""A member that is refused by others who may be at another stage tries again, and no longer than it may."""

import pytest

from node.estimators.learning import nobody_there, once_there
from node.estimators.stages import Stage
from node.runtime.record.ending import Alone, End
from node.runtime.record.events import Noticed, RoundEnded, Warned
from node.runtime.record.figures import Record
from node.system.errors import ConfigError, OtherSwarm
from protocol.actions import Note, Notice

AGREEMENT, OTHER, TASK, GARBAGE = '{"estimator":{"model":1}}', '{"estimator":{"model":2}}', "{}", "]"
MET = RoundEnded(Record(round=1, participants=3), rounds=24)


@pytest.mark.parametrize(("refusals", "tries", "ends"), [(0, 1, True), (2, 3, True), (3, 3, False)])
def test_refused_attempts_are_repeated_up_to_a_number(refusals, tries, ends):
    made, pauses = [], []

    def attempt() -> str:
        made.append(0)
        if len(made) <= refusals:
            raise OtherSwarm("they agree still", "h:1", AGREEMENT)
        return "learned"

    check = Stage(agrees=False, agreed_on=AGREEMENT).check
    if ends:
        assert once_there(attempt, check, tries, lambda: pauses.append(0)) == "learned"
    else:
        with pytest.raises(OtherSwarm):
            once_there(attempt, check, tries, lambda: pauses.append(0))
    assert len(pauses) == len(made) - 1


@pytest.mark.parametrize(
    ("stage", "events", "theirs", "told", "passes"),
    [
        ({"agrees": True}, [], OTHER, "h:1: model is 1", False),
        ({"agrees": True}, [], TASK, "h:1 does not agree on columns and classes: it declares them, or", True),
        ({"agrees": True}, [MET], TASK, None, True),
        ({"agrees": False}, [], AGREEMENT, "h:1 agrees on what the columns and classes are, which", False),
        ({"agrees": False, "agreed_on": AGREEMENT}, [], AGREEMENT, None, True),
        ({"agrees": False, "agreed_on": AGREEMENT}, [], OTHER, "h:1 has begun another fit", True),
        ({"agrees": False}, [], GARBAGE, "h:1: estimator.model is 1", True),
    ],
)
def test_who_differs_is_told_and_who_is_at_another_stage_is_not(stage, events, theirs, told, passes):
    subject, line = Stage(**stage), "h:1: estimator.model is 1"
    for event in events:
        assert subject.told_of(event) is None
    found = subject.told_of(Noticed(Notice(Note.OTHER_SWARM, "h:1", theirs), line))
    assert bool(found) == bool(told)
    assert (found or "").startswith(told or "")
    refusal = OtherSwarm(line, "h:1", theirs)
    if passes:
        subject.check(refusal)
    else:
        with pytest.raises(ConfigError, match=told):
            subject.check(refusal)


def test_who_differs_from_all_others_waits_for_nobody():
    subject = Stage(agrees=True, others=frozenset({"h:1", "h:2"}))
    for who in ("h:1", "h:1", "h:3"):
        subject.told_of(Noticed(Notice(Note.OTHER_SWARM, who, OTHER), f"{who}: model"))
        subject.check_others()
    subject.told_of(Noticed(Notice(Note.OTHER_SWARM, "h:2", OTHER), "h:2: model"))
    with pytest.raises(ConfigError, match="h:1: model"):
        subject.check_others()


def test_who_waited_in_vain_is_told_what_to_call():
    why = "no group came while this node waited for one: h:2 did not come"
    told = str(
        nobody_there(Alone(End.NOBODY_CAME, why, "after round 0 of 24", "start the same command line again"))
    )
    assert told == f"{why}; call fit again when the others are there, or give a longer wait"


def test_of_other_events_only_what_the_owner_must_know_is_told():
    subject = Stage(agrees=True)
    assert subject.told_of(Noticed(Notice(Note.NOT_ALLOWED, "h:1"), "not let in")) == "not let in"
    assert subject.told_of(Noticed(Notice(Note.JOINED, "h:1"), "is here")) is None
    assert subject.told_of(Warned("look")) == "look"
