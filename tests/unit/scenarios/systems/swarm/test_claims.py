import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.frame.folder import first_difference
from scenarios.frame.spec import Request, judge
from scenarios.study.client_accuracy import WORST
from scenarios.study.costs import UP
from scenarios.study.skew import DISTANCE, FEWEST
from scenarios.swarms.results import SwarmResults
from scenarios.systems.swarm import claims
from tests.unit.scenarios.refusals import refused

MakeResults = Callable[..., SwarmResults]


def test_all_claims_hold_for_a_good_run_and_just_within_both_bounds(results, make_results):
    assert [claim.verdict.holds for claim in judge(claims.CLAIMS, results)] == [True] * 6
    within = make_results(alone=0.8845, pooled=0.9945)
    assert all(claim.verdict.holds for claim in judge(claims.CLAIMS, within))


@pytest.mark.parametrize(
    ("place", "changed", "numbers"),
    [
        (0, {"digests": {3: "cd" * 32}}, {"peers": 5, "different models": 2}),
        (1, {"fallbacks": frozenset({(2, 7)})}, {"rounds of all peers": 100, "aggregated": 99}),
        (3, {"alone": 0.90}, {"gain in points": 6.5}),
        (3, {"alone": 0.8855}, {"gain in points": 7.95}),
        (4, {"pooled": 0.999}, {"loss in points": 3.4}),
        (4, {"pooled": 0.9955}, {"loss in points": 3.05}),
    ],
)
def test_a_change_breaks_one_claim(make_results: MakeResults, place, changed, numbers) -> None:
    verdicts = [claim.judge(make_results(**changed)) for claim in claims.CLAIMS]
    assert [one.holds for one in verdicts if one] == [number != place for number in range(len(claims.CLAIMS))]
    assert {name: verdicts[place].numbers[name] for name in numbers} == pytest.approx(numbers, abs=0.01)


def test_accuracy_is_the_lowest_of_all_peers_and_a_round_without_one_breaks_the_claim(results):
    assert claims.accurate(results).numbers["lowest of all peers"] == pytest.approx(0.965, abs=1e-4)
    first = results.peers[0]
    low = replace(first, summary=replace(first.summary, accuracy=0.939))
    assert not claims.accurate(replace(results, peers=(low, *results.peers[1:]))).holds
    assert not claims.all_aggregated(replace(results, rounds=results.rounds + 1)).holds


def test_every_arm_is_json_with_an_accuracy_and_tables_are_rectangular(results):
    figures = json.loads(json.dumps(claims.arms(results), allow_nan=False))
    assert figures.pop("privacy") == {}
    assert set(figures) == {"swarm", "alone", "pooled"}
    assert all(0 < arm["accuracy"] <= 1 for arm in figures.values())
    assert len(figures["swarm"]["peers"]) == len(figures["alone"]["peers"]) == 5
    assert figures["swarm"]["peers"][0]["mean_by_phase"]["shares"]["bytes_sent"] == 1400
    for table in claims.tables(results):
        assert {len(row) for row in table.rows} == {len(table.headings)}


def test_defaults_a_quick_run_and_the_seed_of_the_task():
    configuration = claims.plan(Request())
    assert (configuration.peers, configuration.rounds, configuration.task.task.seed) == (5, 20, 0)
    assert claims.plan(Request(quick=True)).rounds == 5
    assert claims.plan(Request(quick=True, rounds=9)).rounds == 9
    assert claims.plan(Request(seed=7)).task.task.seed == 7


@pytest.mark.parametrize(
    "request_", [Request(), Request(peers=4, seed=3), Request(overrides=("task.seed=3", "train.epochs=1"))]
)
def test_the_command_to_run_it_again_gives_the_same_configuration(request_: Request) -> None:
    configuration = claims.plan(request_)
    arguments = claims.again(configuration)
    sets = tuple(arguments[at + 1] for at, text in enumerate(arguments) if text == "--set")
    peers, rounds, seed = (int(arguments[at]) for at in (1, 3, 5))
    repeated = claims.plan(Request(peers=peers, rounds=rounds, seed=seed, overrides=sets))
    assert first_difference(dict(claims.describe(configuration)), dict(claims.describe(repeated))) is None


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(peers=2), "--peers 2: allowed are 3"),
        (Request(peers=65), "to 64"),
        (Request(rounds=0), "--rounds 0"),
        (Request(overrides=("scenario.alpha=1",)), "no keys of its own"),
        (Request(seed=1, overrides=("task.seed=2",)), "give one of them"),
        (Request(overrides=("train.nothing=2",)), "train.nothing"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(request_: Request, said: str) -> None:
    with refused(said):
        claims.plan(request_)


def test_keys_of_the_cluster_are_no_keys_of_the_task(tmp_path: Path) -> None:
    folder = f" ray.working_dir = {tmp_path}"
    with_ray = claims.plan(Request(engine="ray", overrides=(folder, "train.epochs=1")))
    assert with_ray.engine.ray.working_dir == str(tmp_path)
    assert with_ray.task == claims.plan(Request(overrides=("train.epochs=1",))).task


def test_a_table_tells_how_unlike_peers_are_and_none_is_empty(results: SwarmResults) -> None:
    assert claims.unlike(results) == ()
    facts = {WORST: 0.5, FEWEST: 12, UP: 2500.0, DISTANCE: math.nan, "another": 3.0}
    (table,) = claims.unlike(replace(results, facts=facts))
    assert [value for _, value in table.rows] == ["50.0%", "12", "nan", "2.5"]
    assert table in claims.tables(replace(results, facts=facts))
    assert claims.arms(replace(results, facts=facts))["swarm"][UP] == 2500.0
