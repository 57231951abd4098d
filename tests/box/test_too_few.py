"""A node whose side for validation has no row has no figure; it learns with the others as ever."""

from __future__ import annotations

from dataclasses import replace

from node.data.dataset import Dataset
from node.options import NodeOptions
from tests.box.box import few_digits
from tests.box.test_privacy import to_one_model


def none_held_back_at_the_first(options: NodeOptions) -> Dataset:
    """Returns the usual rows; the first node has none to validate."""
    whole = few_digits(options)
    if options.shard != (0, 3):
        return whole
    return replace(whole, test_x=whole.test_x[:0], test_y=whole.test_y[:0], validates=False)


def test_a_node_without_a_figure_learns_and_counts_none_of_its_rows(make_box) -> None:
    counted = ("aggregation.swarm_metric=confusion", "aggregation.swarm_metric_every=1")
    box = make_box(3, 2, *counted, rows=none_held_back_at_the_first)
    box.start_all()
    to_one_model(box)
    first, *others = box.nodes
    assert [node.status for node in box.nodes] == [0, 0, 0]
    assert first.has_said("aggregated with 3 peers; too few rows to validate; all ")
    for mine, line in zip(first.history, others[0].history, strict=True):
        assert (mine["loss"], mine["accuracy"], mine["value"], mine["metrics"]) == (None, None, None, {})
        assert mine["swarm"] == {**line["swarm"], "mine": None}
        assert line["swarm"]["mine"] is not None
    assert (first.summary["value"], first.summary["metrics"]) == (None, {})
