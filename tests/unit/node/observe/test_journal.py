"""The journal keeps notices for the page: what the run is, and the last remarks."""

from dataclasses import replace

from node.observe.journal import KEPT, PAGE, Journal, Remark
from node.runtime.privacy.group_guarantees import withstands
from node.runtime.record import events
from node.task.load import load_task
from protocol.actions import Note, Notice
from tests.parts import base
from tests.unit.node.observe.test_lines import RECORD, SUMMARY

HERE = Notice(Note.JOINED, "127.0.0.1:1", "12345678")
SUMS = withstands(load_task("digits", []).aggregation, 10)


def told(*events):
    """Makes a journal that received these events."""
    journal = Journal(lambda: 7.0)
    for event in events:
        journal.handle(event)
    return journal


def test_notices_and_warnings_are_kept_with_their_time():
    kept = told(
        events.Noticed(HERE, "somebody is here"),
        events.Warned("look at this"),
        events.RolledBack("a base is refused"),
        events.Draining(30.0),
        events.CaughtUp(base(4), "on the word of others"),
    )
    assert kept.remarks == (
        Remark(7.0, False, "somebody is here"),
        Remark(7.0, True, "look at this"),
        Remark(7.0, True, "a base is refused"),
        Remark(7.0, False, events.Draining(30.0).text),
        Remark(7.0, False, "caught up: base of generation 4, on the word of others"),
    )


def test_the_last_remarks_are_kept_and_what_the_run_is_but_not_where_the_page_is():
    kept = told(*(events.Noticed(HERE, str(number)) for number in range(KEPT + 5)))
    assert [remark.text for remark in kept.remarks] == [str(number) for number in range(5, KEPT + 5)]
    started = events.Started({"task": "digits", "sums": "as expected", PAGE: "http://h:1/#token=secret"})
    assert told(started, events.GroupResized(SUMS)).about == {"task": "digits", "sums": SUMS.text}


def test_a_run_alone_is_kept_as_a_warning_and_rounds_are_no_remarks():
    (kept,) = told(events.Finished(replace(SUMMARY, aggregated=0, fallbacks=3))).remarks
    assert kept.is_warning
    assert kept.text.startswith("you trained alone: 0 of 3 rounds were aggregated;")
    assert told(events.RoundStarted(1), events.RoundEnded(RECORD, 20), events.Finished(SUMMARY)).remarks == ()
