"""What a view's JSON says becomes the same view again, and nothing else does."""

import json

import pytest

from benchmarks.page.server import node_view, step_view
from node.observe.restoring import restored
from node.observe.views import NodeView, Peer, as_json, document

VIEWS = [node_view(peers=8, ended=3), step_view(ended=2)]
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
