"""What was told is kept for the page, the last of it, and told on as it was."""

import io

from node.observe.journal import KEPT, PAGE, Journal, Remark
from node.observe.reporting import PlainReporter, draining_text
from node.runtime.group_guarantees import withstands
from node.task.load import load_task
from protocol.actions import Note, Notice
from tests.parts import base
from tests.unit.node.observe.test_reporting import RECORD, SUMMARY

HERE = Notice(Note.JOINED, "127.0.0.1:1", "12345678")
SUMS = withstands(load_task("digits", []).aggregation, 10)


def journal() -> tuple[Journal, io.StringIO]:
    out = io.StringIO()
    return Journal(PlainReporter(out), lambda: 7.0), out


def test_notices_and_warnings_are_kept_with_their_time():
    kept, _ = journal()
    kept.notice(HERE, "somebody is here")
    kept.warning("look at this")
    kept.rolled_back("a base is refused")
    kept.draining(30.0)
    kept.caught_up(base(4), "on the word of others")

    assert kept.remarks == (
        Remark(7.0, False, "somebody is here"),
        Remark(7.0, True, "look at this"),
        Remark(7.0, True, "a base is refused"),
        Remark(7.0, False, draining_text(30.0)),
        Remark(7.0, False, "caught up: base of generation 4, on the word of others"),
    )


def test_the_last_ones_are_kept():
    kept, _ = journal()
    for number in range(KEPT + 5):
        kept.notice(HERE, str(number))

    assert [remark.text for remark in kept.remarks] == [str(number) for number in range(5, KEPT + 5)]


def test_what_the_run_is_is_kept_but_not_where_the_page_is():
    kept, out = journal()
    kept.started({"task": "digits", "sums": "as expected", PAGE: "http://h:1/#token=secret"})
    kept.sums(SUMS)

    assert kept.about == {"task": "digits", "sums": SUMS.text}
    assert "page: http://h:1/#token=secret" in out.getvalue()


def test_all_is_told_on():
    kept, out = journal()
    kept.training(1)
    kept.notice(HERE, "a")
    kept.warning("b")
    kept.caught_up(base(4), "c")
    kept.round_ended(RECORD, 20)
    kept.finished(SUMMARY)
    lines = out.getvalue().splitlines()

    assert lines[:3] == ["a", "warning: b", "caught up: base of generation 4, c"]
    assert [lines[3][:11], lines[4][:8]] == ["round 1/20:", "finished"]
