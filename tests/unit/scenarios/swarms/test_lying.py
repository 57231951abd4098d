"""Swarms with liars: who lies, how, when; the effect of groups and gates; the arms and their claims."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from mechanisms.noise.randomness import SeededWords
from mechanisms.servers.group_median import group_median
from node.system.errors import ConfigError
from node.task.load import load_task
from scenarios.study.cells import Outcome
from scenarios.study.sweep import Sweep
from scenarios.swarms.cells import SwarmCell
from scenarios.swarms.lying import HONEST, MEMBERS, OWN, REFUSED, ROLLED_BACK, Lie, LyingSwarm, LyingSwarmCell
from scenarios.swarms.replay import datasets_of
from scenarios.systems.rpfl import lying
from scenarios.systems.rpfl.lying import ARMS, CLAIMS
from tests.own_studies import STUDY
from tests.unit.scenarios.rooms import replayed as run
from tests.unit.scenarios.rooms import room

PEERS, SALT = 9, 7
SMALL = ("train.epochs=1", "train.batch_size=64", "model.args.sizes=[64,8,10]", "train.rounds=3")
ONE_LIAR = Lie(1 / PEERS, first=2, last=2)
GATE = "aggregation.loss_gate=0.3"


def cell(lie: Lie, groups: int, *overrides: str) -> LyingSwarmCell:
    return LyingSwarmCell("arm", load_task("digits", [*SMALL, *overrides]), PEERS, lie, groups)


def swarm_of(one: LyingSwarmCell) -> LyingSwarm:
    return LyingSwarm(one.task, datasets_of(one.task, one.peers), SALT, one.lie, one.groups)


def test_where_nobody_lies_one_sum_is_the_swarm_and_a_cell_gives_the_same_twice():
    one = cell(HONEST, 1)
    assert run(one).facts["model sha256"] == run(SwarmCell("arm", one.task, PEERS)).facts["model sha256"]
    gated = cell(HONEST, 1, GATE)
    assert run(gated).facts["model sha256"] == run(one).facts["model sha256"], "a gate that refuses nothing"
    one = cell(ONE_LIAR, 3, GATE)
    first, again = run(one), run(one)
    assert (first.figures, first.facts, first.series) == (again.figures, again.facts, again.series)
    other = replace(one, arm="other")
    assert run(other).facts["model sha256"] != first.facts["model sha256"]


def test_liars_follow_from_the_seed_and_lie_in_their_rounds_and_no_others():
    few, more = Lie(2 / 15), Lie(5 / 15)
    assert [len(lie.liars(15, 0)) for lie in (HONEST, few, more)] == [0, 2, 5]
    assert few.liars(15, 0) < more.liars(15, 0)
    assert len({few.liars(15, seed) for seed in range(9)}) > 1
    one = cell(ONE_LIAR, 1)
    honest = run(replace(one, lie=HONEST)).figures
    assert run(one).figures[0] == honest[0]
    assert run(one).figures[1] < honest[1]
    late = replace(one, lie=replace(ONE_LIAR, first=4, last=9))
    assert run(late).figures == honest


@pytest.mark.parametrize(("forgery", "factor"), [("sign-flipped", -10.0), ("scaled", 10.0)])
def test_a_liar_sends_what_it_learned_forged_and_cut_to_the_bound(forgery: str, factor: float) -> None:
    one = cell(replace(ONE_LIAR, forgery=forgery), 1, "aggregation.clip=0.05")
    lying, honest = swarm_of(one), swarm_of(replace(one, lie=HONEST))
    for number in (1, 2):
        lying.round(number)
        honest.round(number)
        (liar,) = lying.liars
        for peer, (sent, true) in enumerate(zip(lying.offers, honest.offers, strict=True)):
            forged = np.clip(factor * true.vector, -0.05, 0.05)
            expected = forged if (peer, number) == (liar, 2) else true.vector
            np.testing.assert_allclose(sent.vector, expected, atol=1e-5)
    assert np.abs(lying.offers[liar].vector).max() == np.float32(0.05)


def test_groups_move_the_base_by_the_median_of_their_means() -> None:
    swarm = swarm_of(cell(ONE_LIAR, 3))
    dealer = SeededWords(np.random.default_rng([42, 0, SALT]))
    for number in (1, 2):
        before = swarm.base
        swarm.round(number)
        offers = np.stack([offer.vector for offer in swarm.offers])
        np.testing.assert_allclose(swarm.base, before + group_median(offers, 3, dealer), atol=1e-6)


def test_honest_peers_that_refuse_a_base_start_from_the_last_good_one_and_offer_the_way_back() -> None:
    swarm = swarm_of(cell(replace(ONE_LIAR, factor=1000.0), 1, GATE))
    swarm.round(1)
    good = swarm.base
    swarm.round(2)
    bad = swarm.base
    (liar,) = swarm.liars
    assert [gate.refused for gate in swarm.gates] == [peer != liar for peer in range(PEERS)]
    assert all(gate.start is (bad if peer == liar else good) for peer, gate in enumerate(swarm.gates))
    swarm.round(3)
    for peer in (one for one in range(PEERS) if one != liar):
        (own,) = swarm.training.vectors(good, 3, [peer])
        np.testing.assert_allclose(bad + swarm.offers[peer].vector, own, atol=1e-4)
    assert np.linalg.norm(swarm.base - good) < 0.25 * np.linalg.norm(bad - good)


def test_a_gate_takes_the_lowest_loss_so_far_for_its_measure() -> None:
    swarm = swarm_of(cell(HONEST, 1, "aggregation.loss_gate=0.1"))
    gate, start, loss = swarm.gates[0], swarm.base, swarm.trainers[0].own_loss
    (learned,) = swarm.training.vectors(start, 1, [0])
    assert loss(learned) < loss(start) - 0.1
    for base, refused in ((start, False), (learned, False), (start, True), (learned, False)):
        gate.start_from(base)
        assert gate.refused == refused


def test_facts_say_what_a_defence_costs_and_did() -> None:
    one = cell(replace(ONE_LIAR, factor=1000.0), 1, GATE)
    sum_only, gated, grouped = (
        run(replace(one, task=cell(HONEST, 1).task)),
        run(one),
        run(replace(one, groups=3)),
    )
    assert [outcome.facts[MEMBERS] for outcome in (sum_only, gated, grouped)] == [9, 9, 3]
    assert [outcome.facts["liars"] for outcome in (sum_only, gated)] == [1, 1]
    assert (sum_only.facts[ROLLED_BACK], sum_only.series[REFUSED]) == (0.0, (0.0, 0.0, 0.0))
    assert gated.series[REFUSED][:2] == (0.0, 1.0)
    assert gated.facts[ROLLED_BACK] == sum(gated.series[REFUSED])
    assert sum_only.facts[OWN] == pytest.approx(sum_only.final)
    last = run(replace(one, lie=replace(one.lie, first=3, last=3)))
    assert last.facts[OWN] == pytest.approx(last.figures[1]), "they go on from the last good base"
    assert last.final < last.figures[1]
    assert sum_only.facts["epsilon"] is None


def test_two_descriptions_are_equal_exactly_for_the_same_arm() -> None:
    one = cell(ONE_LIAR, 3)
    described = json.loads(json.dumps(one.describe(), allow_nan=False))
    assert described["kind"] == "lying swarm"
    assert json.loads(json.dumps(one.seeded(5).describe())) == described
    others = [
        *(one.among(12), one.lasting(5), one.changed({"aggregation": {"loss_gate": 1}})),
        *(replace(one, groups=1), replace(one, lie=HONEST)),
    ]
    assert all(json.loads(json.dumps(other.describe())) != described for other in others)
    assert pickle.loads(pickle.dumps(one)) == one
    assert (one.seeded(4).seed, one.lasting(7).rounds, one.arm, one.data_sets) == (4, 7, "arm", ())


@pytest.mark.parametrize(
    ("groups", "overrides", "said"),
    [
        (2, (), "arm: 9 peers in 2 groups; allowed: one group, or 3 and more of at least 3 peers each"),
        (4, (), "9 peers in 4 groups"),
        (3, (GATE, "privacy.mechanism=dp-sgd"), "aggregation.loss_gate = 0.3 is refused with privacy.mech"),
    ],
)
def test_what_can_not_be_run_is_one_line_before(groups: int, overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        cell(HONEST, groups, *overrides).check(room())
    assert "\n" not in str(refused.value)
    cell(HONEST, 3).check(room())


def sweep(figures: dict[str, Outcome]) -> Sweep:
    """Two seeds that give the same."""
    arms = tuple(one for one in ARMS if one.arm in figures)
    return Sweep(STUDY, (0, 1), arms, {name: (outcome, outcome) for name, outcome in figures.items()})


def arm(defence: str, lie: str) -> str:
    return f"swarm-{defence}-{lie}"


def made_up(final: float, after: float = 0.9, own: float = 0.9, refused: float = 0.0) -> Outcome:
    """Makes up an outcome of twenty rounds: `after` the single lie, `final` at the end."""
    curve = (0.9,) * 8 + (after,) * 3 + (final,) * 9
    return Outcome(curve, {OWN: own, ROLLED_BACK: refused, MEMBERS: 3}, 1.0)


AS_MEASURED = {
    **{arm(name, "honest"): made_up(0.957) for name in lying.DEFENCES},
    arm("sum", "2liars"): made_up(0.125),
    arm("groups", "2liars"): made_up(0.909),
    arm("groups", "5liars"): made_up(0.1),
    arm("both", "5liars"): made_up(0.1),
    arm("sum", "once"): made_up(0.937, after=0.66),
    arm("gate", "once"): made_up(0.954, after=0.91, refused=1.0),
    arm("sum", "late"): made_up(0.18, own=0.18),
    arm("gate", "late"): made_up(0.175, own=0.857),
}


@pytest.mark.parametrize(
    ("claim", "changed"),
    [
        (0, {arm("groups", "honest"): made_up(0.93)}),
        (0, {arm("gate", "honest"): made_up(0.957, refused=0.2)}),
        (1, {arm("groups", "2liars"): made_up(0.87)}),
        (1, {arm("sum", "2liars"): made_up(0.6)}),
        (2, {arm("both", "5liars"): made_up(0.6)}),
        (3, {arm("gate", "once"): made_up(0.954, after=0.75)}),
        (3, {arm("gate", "once"): made_up(0.93, after=0.91)}),
        (4, {arm("gate", "late"): made_up(0.6, own=0.857)}),
        (4, {arm("gate", "late"): made_up(0.175, own=0.7)}),
        (4, {arm("sum", "late"): made_up(0.18, own=0.7)}),
    ],
)
def test_each_claim_can_turn_out_false(claim: int, changed: dict[str, Outcome]) -> None:
    assert CLAIMS[claim].judge(sweep({})) is None
    assert CLAIMS[claim].judge(sweep(AS_MEASURED)).holds
    verdict = CLAIMS[claim].judge(sweep(AS_MEASURED | changed))
    assert not verdict.holds


def test_every_defence_stands_under_every_lie_and_a_short_run_says_nothing_of_one_that_never_came():
    names = [cell.arm for cell in ARMS]
    assert len(set(names)) == len(names) == 20
    for one in ARMS:
        one.cell.check(room())
        assert set(one.arm) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    short = {name: replace(outcome, figures=outcome.figures[:5]) for name, outcome in AS_MEASURED.items()}
    assert CLAIMS[3].judge(sweep(short)) is None
