from collections.abc import Callable
from dataclasses import replace

from node.storage.records import SwarmFigure
from protocol.actions import Reason
from scenarios.swarms.results import BASE_RATE, SwarmResults
from scenarios.systems.swarm.charts import REASONS, by_phase, comparison, outcomes, value_by_peer
from scenarios.systems.swarm.claims import tables

MakeResults = Callable[..., SwarmResults]


def test_the_swarm_is_shown_against_every_peer_alone_and_pooled_over_the_base_rate(results):
    names = [trace["name"] for trace in comparison(results).traces]
    alone = [f"peer {peer} alone" for peer in range(5)]
    assert names == [*alone, "alone, mean", "pooled data", "the swarm", BASE_RATE]
    for chart in (comparison(results), value_by_peer(results)):
        assert (chart.traces[-1]["name"], chart.traces[-1]["x"]) == (BASE_RATE, [1, 20])
        assert chart.traces[-1]["y"] == [results.guessing] * 2 == [0.1, 0.1]
    widths = [trace["line"]["width"] for trace in value_by_peer(results).traces[:-1]]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == len(widths)


def test_the_metric_of_all_rows_stands_at_its_model_and_phases_are_means_over_the_peers(results):
    assert "all rows, by secure sum" not in {trace["name"] for trace in value_by_peer(results).traces}
    first = results.peers[0]
    of_all = SwarmFigure("accuracy", 0.9, 0.1, None, 0.9, 540, 5, 4)
    counted = tuple(replace(entry, swarm=None if entry.round % 5 else of_all) for entry in first.rounds)
    shown = value_by_peer(replace(results, peers=(replace(first, rounds=counted), *results.peers[1:])))
    trace = shown.traces[-2]
    assert (trace["name"], trace["x"], trace["y"]) == ("all rows, by secure sum", [4, 9, 14, 19], [0.9] * 4)
    seconds = {trace["name"]: trace["y"][0] for trace in by_phase(results, "s").traces}
    assert list(seconds) == ["training", "group", "shares", "sums"]
    assert abs(seconds["training"] - 0.14) < 1e-9
    sent = {trace["name"]: trace["y"][0] for trace in by_phase(results, "bytes_sent").traces}
    assert sent == {"group": 900, "shares": 1440, "sums": 73_600}


def test_charts_and_tables_name_the_metric_that_the_rows_chose(results: SwarmResults) -> None:
    pooled = replace(results.baselines.pooled, metric="auc")
    skewed = replace(results, baselines=replace(results.baselines, pooled=pooled))
    assert value_by_peer(results).title == "Accuracy by round, for each peer"
    assert value_by_peer(results).layout["yaxis"] == {
        "title": {"text": "test accuracy"}, "tickformat": "~%"
    }  # fmt: skip
    assert value_by_peer(skewed).title == "AUC by round, for each peer"
    assert value_by_peer(skewed).layout["yaxis"] == {"title": {"text": "test AUC"}}
    assert comparison(skewed).traces[0]["hovertemplate"] == "%{y:.3f}"
    assert tables(skewed)[1].headings == ("trained", "rows", "AUC")
    assert tables(skewed)[1].rows[-1] == ("not at all: the best constant answer", "0", "0.100")


def test_outcomes_count_every_peer_in_every_round_or_as_not_there(make_results, results):
    chart = outcomes(make_results(fallbacks=frozenset({(1, 4), (2, 4)})))
    counts = {trace["name"]: trace["y"] for trace in chart.traces}
    assert list(counts) == ["aggregated", "fell back: sums missing"]
    assert (counts["aggregated"][3], counts["fell back: sums missing"][3]) == (3, 2)
    assert all(sum(column) == 5 for column in zip(*counts.values(), strict=True))
    first = results.peers[0]
    late = type(first)(first.peer, first.rounds[2:], first.summary)
    chart = outcomes(replace(results, peers=(late, *results.peers[1:])))
    assert {trace["name"]: trace["y"][0] for trace in chart.traces} == {"aggregated": 4, "not there": 1}
    assert set(REASONS) == set(Reason)
    assert len(set(REASONS.values())) == len(REASONS)
