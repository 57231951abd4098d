"""Runs side by side: their figures and thinned-out curves."""

from dataclasses import replace

import pytest

from benchmarks.page.server import node_view, rounds
from node.observe.comparison import MAX_POINTS, Comparison, compared, thinned
from node.observe.run_folder import RunFolder
from tests.unit.node.observe.folders import AT, run_in


def test_a_run_is_described_by_its_last_round_and_its_sums():
    view = node_view(peers=3, ended=18)
    (run,) = compared([replace(view, folder="runs/a")]).runs
    last = view.history[-1]
    assert (run.folder, run.path, run.task) == ("runs/a", "1/", "digits")
    assert (run.aggregated, run.fallbacks, run.metric) == (16, 2, "accuracy")
    assert (run.value, run.loss, run.epsilon) == (last.accuracy, last.loss, last.epsilon)
    assert run.bytes_sent == sum(one.bytes_sent for one in view.history)
    assert run.train_s == pytest.approx(18 * 0.4)
    assert run.mechanism == "dp-sgd"
    assert [point.round for point in run.points] == list(range(1, 19))


def test_the_figure_of_a_run_is_its_headline_and_before_the_first_round_there_is_none():
    (skewed,) = (replace(one, metric="auc", value=0.25) for one in rounds(1))
    (run,) = compared([replace(node_view(ended=1), history=(skewed,))]).runs
    assert (run.metric, run.value) == ("auc", 0.25)
    (run,) = compared([replace(node_view(ended=0), history=(), privacy=None)]).runs
    assert (run.value, run.loss, run.epsilon, run.mechanism, run.points) == (None, None, None, None, ())


@pytest.mark.parametrize(("count", "most"), [(10, 10), (11, 10), (5000, 500), (3, 2)])
def test_thinned_rounds_keep_both_ends_and_never_one_twice(count, most):
    kept = [one.round for one in thinned(rounds(count), most)]
    assert len(kept) == min(count, most)
    assert (kept[0], kept[-1]) == (1, count)
    assert sorted(set(kept)) == kept
    assert len(compared([node_view(ended=2000)]).runs[0].points) == MAX_POINTS


async def test_the_comparison_follows_its_folders(tmp_path):
    paths = [run_in(tmp_path / name, ended=name == "a") for name in ("a", "b")]
    shown = await Comparison([RunFolder(path, lambda: AT) for path in paths]).view()
    assert [(run.folder, run.path, run.ended) for run in shown.runs] == [
        (str(paths[0]), "1/", True),
        (str(paths[1]), "2/", False),
    ]
    assert not shown.ended
