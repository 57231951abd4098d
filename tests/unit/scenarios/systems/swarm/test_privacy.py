"""What the report shows of privacy: accuracy over epsilon, who is protected, and what was of no use."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from scenarios.swarms.baselines import PrivateCurve
from scenarios.swarms.results import SwarmResults
from scenarios.systems.swarm import privacy
from scenarios.systems.swarm.charts import charts
from scenarios.systems.swarm.claims import headline
from scenarios.systems.swarm.claims import tables as all_tables
from tests.unit.scenarios.conftest import PEERS, ROUNDS, accuracy_after, ledger, spent_after

MakeResults = Callable[..., SwarmResults]
EPSILONS = tuple(8.0 * number / ROUNDS for number in range(1, ROUNDS + 1))


def replayed(mechanism: str, final: float) -> PrivateCurve:
    return PrivateCurve(mechanism, (*(0.1,) * (ROUNDS - 1), final), EPSILONS, ledger(mechanism, 8.0))


@pytest.fixture
def private(make_results: MakeResults) -> SwarmResults:
    return make_results(mechanism="dp-sgd", replays=(replayed("aldp", 0.15), replayed("ldp", 0.2)))


def test_the_real_curve_has_each_rounds_lowest_accuracy_and_largest_epsilon(private: SwarmResults) -> None:
    curve = privacy.curve_of(private.peers)
    assert curve.mechanism == "dp-sgd"
    assert curve.values == tuple(accuracy_after(number) for number in range(1, ROUNDS + 1))
    assert curve.epsilon == tuple(spent_after(number, 3) for number in range(1, ROUNDS + 1))
    assert curve.privacy["epsilon_spent"] == 8.0, "the ledger of the peer that has spent most"
    worse = replace(private.peers[1].rounds[4], value=0.01)
    peers = list(private.peers)
    peers[1] = replace(peers[1], rounds=(*peers[1].rounds[:4], worse, *peers[1].rounds[5:]))
    lower = privacy.curve_of(peers)
    assert lower.values[4] == 0.01


def test_the_chart_shows_the_real_peers_the_replays_and_guessing(private: SwarmResults) -> None:
    (chart,) = privacy.over_epsilon(private)
    assert [trace["name"] for trace in chart.traces] == [
        *("dp-sgd", "aldp (replay)", "ldp (replay)", "the best constant answer")
    ]
    assert chart.traces[0]["x"] == [spent_after(number, 3) for number in range(1, ROUNDS + 1)]
    assert chart.traces[1]["x"] == list(EPSILONS)
    assert (chart.traces[-1]["x"], chart.traces[-1]["y"]) == ([0, 8.0], [0.1, 0.1])
    assert "delta 1e-05" in chart.caption
    assert "dp-sgd ran on the real peers" in chart.caption
    assert charts(private)[0] == chart, "the most telling first"


def test_the_tables_and_the_arm_have_all_figures_of_each_mechanism(private):
    figures, words = privacy.tables(private)
    assert [row[0] for row in figures.rows] == [row[0] for row in words.rows] == ["dp-sgd", "aldp", "ldp"]
    assert figures.rows[0] == (*("dp-sgd", "96.5 %", "8.000", "8", "1e-05"), "the unit of dp-sgd (replace)")
    assert words.rows[0] == ("dp-sgd", "what dp-sgd protects", "nothing")
    assert words.rows[1] == ("aldp", "what aldp protects", "the radius")
    for table in all_tables(private):
        assert {len(row) for row in table.rows} == {len(table.headings)}
    figures = json.loads(json.dumps(privacy.arm(private), allow_nan=False))
    assert set(figures) == {"dp-sgd", "aldp", "ldp"}
    assert figures["ldp"]["accuracy"] == 0.2
    assert len(figures["dp-sgd"]["epsilon_by_round"]) == len(figures["dp-sgd"]["accuracy_by_round"]) == ROUNDS
    assert figures["aldp"]["outside"] == "the radius"


@pytest.mark.parametrize(("final", "useless"), [(0.1, True), (0.1999, True), (0.2001, False), (0.9, False)])
def test_less_than_ten_points_above_guessing_is_useless(make_results, final, useless):
    results = make_results(mechanism="dp-sgd", replays=(replayed("ldp", final),))
    said = privacy.verdict_in_words(results)
    assert said.startswith("dp-sgd reached 96.5 % at epsilon 8.")
    assert ("ldp at epsilon 8 is useless here: " in said) == useless
    assert ("the best constant answer gives 10.0 %." in said) == useless
    assert (f"ldp reached {100 * final:.1f} % at epsilon 8." in said) == (not useless)
    assert said in headline(results)


def test_one_peer_beyond_its_budget_breaks_the_claim(private: SwarmResults) -> None:
    verdict = privacy.within_budget(private)
    assert verdict.holds
    assert verdict.numbers == {"largest epsilon spent": 8.0, "budget": 8.0}
    last = private.peers[-1]
    over = {**last.summary.privacy, "epsilon_budget": 7.0, "epsilon_remaining": 0.0}
    peers = (*private.peers[:-1], replace(last, summary=replace(last.summary, privacy=over)))
    assert not privacy.within_budget(replace(private, peers=peers)).holds


def test_without_privacy_nothing_is_said_of_it(results: SwarmResults) -> None:
    assert (privacy.curve_of(results.peers), privacy.curves(results)) == (None, ())
    assert (privacy.over_epsilon(results), privacy.tables(results), privacy.arm(results)) == ((), (), {})
    assert privacy.verdict_in_words(results) == ""
    assert privacy.within_budget(results).holds
    assert headline(results).endswith("one model on pooled data 97.0 %.")
    assert len(results.peers) == PEERS
