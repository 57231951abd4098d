"""The changes between two views, and that a page can apply them to the old view."""

import json
from dataclasses import replace

from benchmarks.page.server import node_view, rounds, tracker_view
from node.observe.journal import Remark
from node.observe.views import MORE_HISTORY, as_json, changes, document

VIEW = node_view(peers=2, ended=3)


def put_together(old: dict, new: dict) -> dict:
    """Applies the changes as the page does."""
    more = new.pop(MORE_HISTORY, [])
    return {**old, **new, "history": [*old["history"], *more]}


def test_nothing_is_new_between_equal_views():
    assert changes(VIEW, replace(VIEW)) == {}


def test_only_the_fields_that_differ_are_told():
    told = changes(VIEW, replace(VIEW, phase="sums", waiting_for=()))

    assert told == {"phase": "sums", "waiting_for": []}


def test_of_the_history_only_the_rounds_that_were_added_are_told():
    later = replace(VIEW, history=rounds(5), round=5)
    told = changes(VIEW, later)

    assert [row["round"] for row in told[MORE_HISTORY]] == [4, 5]
    assert set(told) == {"round", MORE_HISTORY}
    assert put_together(document(VIEW), told) == document(later)


def test_the_first_rounds_are_all_new():
    told = changes(replace(VIEW, history=()), VIEW)

    assert [row["round"] for row in told[MORE_HISTORY]] == [1, 2, 3]


def test_a_history_that_is_cut_in_front_is_not_told_again():
    later = replace(VIEW, history=rounds(3, first=2))

    assert [row["round"] for row in changes(VIEW, later)[MORE_HISTORY]] == [4]


def test_a_history_that_was_cut_behind_all_that_was_told_is_new():
    later = replace(VIEW, history=rounds(2, first=9))

    assert [row["round"] for row in changes(VIEW, later)[MORE_HISTORY]] == [9, 10]


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
