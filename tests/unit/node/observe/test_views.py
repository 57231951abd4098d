"""The changes between two views, and that a page can apply them to the old view."""

import json
from dataclasses import replace

import pytest

from benchmarks.page.server import node_view, rounds, tracker_view
from node.observe.journal import Remark
from node.observe.views import MORE_HISTORY, as_json, changes, document

VIEW = node_view(peers=2, ended=3)


def put_together(old: dict, new: dict) -> dict:
    """Applies the changes as the page does."""
    more = new.pop(MORE_HISTORY, [])
    return {**old, **new, "history": [*old["history"], *more]}


def test_only_the_fields_that_differ_are_told():
    assert changes(VIEW, replace(VIEW)) == {}
    told = changes(VIEW, replace(VIEW, phase="sums", waiting_for=()))
    assert told == {"phase": "sums", "waiting_for": []}
    later = replace(VIEW, history=rounds(5), round=5)
    told = changes(VIEW, later)
    assert set(told) == {"round", MORE_HISTORY}
    assert put_together(document(VIEW), told) == document(later)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (VIEW.history, rounds(5), [4, 5]),
        ((), VIEW.history, [1, 2, 3]),
        (VIEW.history, rounds(3, first=2), [4]),  # cut in front
        (VIEW.history, rounds(2, first=9), [9, 10]),  # cut behind all that was told
    ],
)
def test_which_rounds_are_new(old, new, told):
    more = changes(replace(VIEW, history=old), replace(VIEW, history=new))[MORE_HISTORY]
    assert [row["round"] for row in more] == told


def test_the_document_is_json_that_a_browser_takes():
    privacy = {**VIEW.privacy, "epsilon_spent": float("inf"), "delta": float("nan")}
    text = as_json(document(replace(VIEW, privacy=privacy, remarks=(Remark(1.5, True, "<b>&\u2028"),))))
    read = json.loads(text, parse_constant=lambda name: 1 / 0)
    assert read["privacy"]["epsilon_spent"] is read["privacy"]["delta"] is None
    assert read["remarks"] == [{"at": 1.5, "is_warning": True, "text": "<b>&\u2028"}]
    assert "\n" not in text  # a line of an event


def test_a_tracker_tells_nothing_that_comes_from_data():
    text = as_json(document(tracker_view())).lower()
    assert not [word for word in ("accuracy", "loss", "epsilon", "history") if word in text]
