"""Dataclasses become JSON and the same again; what is damaged is refused, or left to defaults."""

import json

import pytest

from benchmarks.page.server import node_view, step_view
from node.observe.views import NodeView, Peer, as_json, document
from node.storage.plain import plain, restored, salvaged
from node.storage.records import Traffic

VIEWS = [node_view(peers=8, ended=0), step_view(ended=0)]
SEEN = {"endpoint": "10.0.0.1:9001", "key": None, "contact": "silent", "round": 3}
PEER = {**SEEN, "follows": False, "is_tracker": False, "is_awaited": True, "why": ""}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_survives_its_json(view):
    assert restored(NodeView, json.loads(as_json(document(view)))) == view


def test_fields_of_a_later_version_are_left_out_and_a_missing_one_is_named():
    assert restored(Peer, {**PEER, "nickname": "ward"}) == Peer(**PEER)
    with pytest.raises(ValueError, match="missing 1 required positional argument: 'why'"):
        restored(Peer, {name: value for name, value in PEER.items() if name != "why"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("follows", 1), ("round", True), ("key", 7), ("endpoint", None), ("why", ["x"]), ("round", "3")],
)
def test_a_value_of_another_type_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} has the value"):
        restored(Peer, {**PEER, name: value})


def test_a_whole_number_will_do_for_a_fraction_but_not_the_other_way_round_and_nested_values_are_checked():
    view = document(VIEWS[0])
    assert restored(NodeView, {**view, "until": 3}).until == 3.0
    for changed, why in (
        ({"round": 1.5}, r"round has the value 1\.5"),
        ({"sent": {"sums": "x"}}, r"sent\.sums has the value 'x'"),
        ({"peers": ["no peer"]}, "'no peer' is not an object"),
    ):
        with pytest.raises(ValueError, match=why):
            restored(NodeView, {**view, **changed})


def test_floats_are_rounded_at_any_depth_and_what_json_has_no_number_for_is_none():
    cost = Traffic(1 / 3, 4, 5)
    assert plain({"sums": (cost, float("nan"))}, 3) == {
        "sums": [{"s": 0.333, "bytes_sent": 4, "bytes_received": 5}, None]
    }
    assert plain([1 / 3, float("inf"), True, None, "x"]) == [1 / 3, None, True, None, "x"]


def test_what_is_missing_or_damaged_is_left_to_the_defaults():
    assert salvaged(Traffic, {"s": 2, "bytes_sent": "many", "more": 1}) == Traffic(2.0)
    with pytest.raises(TypeError, match="'s'"):
        salvaged(Traffic, {"bytes_sent": 1})
