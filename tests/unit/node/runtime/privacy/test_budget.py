"""A node's privacy: its mechanism, what it can still afford, the charge of an offer, and the words."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mechanisms.accounting.ledger import NO_BOUND, Gaussian, Ledger, privacy_spent
from mechanisms.accounting.terms import at_honest, unknown_terms, with_terms
from node.runtime.privacy.budget import (
    can_offer,
    can_train,
    facts,
    introduction,
    ledger_text,
    make_mechanism,
    offer_bound,
    receipt_of,
    spent_by,
    terms_of,
)
from node.system.errors import ConfigError
from node.task.load import load_task
from node.task.parameters import canonical_parameters

SHAPES = [("layers.0.weight", (8, 4)), ("layers.0.bias", (4,))]
ROWS = 100
OWN = "tests.own_mechanisms"
EMPTY = Ledger(())
QUANTILE = "privacy.window_source=quantile"
CLASSIC = "privacy.calibration=linear-classic"
PUBLIC = "privacy.public_radius=true"
RAW = ("privacy.window_source=raw", PUBLIC)

EVERY = [
    pytest.param(["ldp"], id="ldp"),
    pytest.param(["aldp"], id="aldp"),
    pytest.param(["aldp", *RAW], id="raw"),
    pytest.param(["aldp", QUANTILE], id="quantile"),
    pytest.param(["aldp", CLASSIC, PUBLIC], id="linear-classic"),
    pytest.param(["dp-sgd"], id="dp-sgd"),
]


def task_of(mechanism, *overrides, rounds=3):
    named = f"privacy.mechanism={mechanism}"
    return load_task("digits", [named, "privacy.epsilon=2", f"train.rounds={rounds}", *overrides])


def made(mechanism, *overrides, rounds=3):
    return make_mechanism(task_of(mechanism, *overrides, rounds=rounds), SHAPES, ROWS)


def charged(mechanism, ledger, pending):
    return ledger.adding(receipt_of(mechanism, ledger, pending, ()).events)


@pytest.mark.parametrize("arguments", EVERY)
@pytest.mark.parametrize("rounds", [1, 3, 10])
def test_the_budget_is_for_exactly_the_rounds_of_the_task(arguments, rounds):
    mechanism, ledger = made(*arguments, rounds=rounds), EMPTY
    for _ in range(rounds):
        assert can_train(mechanism, ledger, ())
        assert can_offer(mechanism, ledger, mechanism.per_training)
        ledger = charged(mechanism, ledger, mechanism.per_training)
    assert not can_train(mechanism, ledger, ())
    assert not can_offer(mechanism, ledger, mechanism.per_training)
    assert spent_by(mechanism, ledger).epsilon <= mechanism.guarantee.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 8, 100])
@pytest.mark.parametrize("rounds", [1, 7, 20, 999])
def test_the_last_digit_does_not_cost_a_round(epsilon, rounds):
    mechanism = made("ldp", f"privacy.epsilon={epsilon}", rounds=rounds)
    assert can_train(mechanism, Ledger(((*mechanism.per_offer, rounds - 1),)) if rounds > 1 else EMPTY, ())
    assert not can_train(mechanism, Ledger(((*mechanism.per_offer, rounds),)), ())


def test_what_pends_counts_before_it_is_offered():
    mechanism = made("dp-sgd")
    pending = mechanism.per_training * 3
    assert can_train(mechanism, EMPTY, pending[:2])
    assert not can_train(mechanism, EMPTY, pending), "a fourth training has no budget left"
    assert can_offer(mechanism, EMPTY, pending), "what was trained may still be offered"
    assert not can_offer(mechanism, EMPTY, mechanism.per_training * 4)
    assert not can_offer(mechanism, Ledger.of(mechanism.per_training), pending)
    assert charged(mechanism, EMPTY, pending) == Ledger.of(pending)


def test_without_a_guarantee_there_is_no_budget_no_charge_and_no_facts():
    mechanism = made("none")
    assert can_train(mechanism, Ledger.of([Gaussian(0.0)]), ())
    assert can_offer(mechanism, EMPTY, ())
    receipt = receipt_of(mechanism, EMPTY, (), ())
    assert (receipt.events, receipt.memory, receipt.total) == ((NO_BOUND,), (), None)
    assert receipt_of(mechanism, Ledger.of(receipt.events), (), ()).events == (), "one mark says it"
    assert facts(mechanism, EMPTY) is spent_by(mechanism, EMPTY) is None
    assert introduction(mechanism) == {
        "privacy": "none: secure aggregation hides your update in the sum; the sum itself has no noise"
    }


@pytest.mark.parametrize("arguments", EVERY)
def test_a_receipt_holds_what_pends_the_offer_and_the_total_after_it(arguments):
    mechanism = made(*arguments)
    pending, before = mechanism.per_training * 2, Ledger.of(mechanism.per_offer)
    receipt = receipt_of(mechanism, before, pending, ((4.0,),))
    assert receipt.events == (*pending, *mechanism.per_offer)
    assert receipt.memory == ((4.0,),)
    assert receipt.total == privacy_spent(before.adding(receipt.events), 1e-5)
    assert receipt.total.epsilon > spent_by(mechanism, before).epsilon


@pytest.mark.parametrize("arguments", EVERY)
def test_facts_are_the_ledger_in_figures_and_words(arguments):
    mechanism = made(*arguments)
    ledger = charged(mechanism, EMPTY, mechanism.per_training)
    told, guarantee = facts(mechanism, ledger), mechanism.guarantee
    assert told["mechanism"] == arguments[0]
    assert told["epsilon_spent"] == privacy_spent(ledger, 1e-5).epsilon > 0
    assert told["epsilon_budget"] == guarantee.epsilon
    assert told["epsilon_remaining"] == pytest.approx(guarantee.epsilon - told["epsilon_spent"])
    assert (told["epsilon_stated"], told["delta"]) == (2.0, 1e-5)
    assert told["accountant"] == ("PLD" if arguments == ["dp-sgd"] else "closed form")
    assert told["norm"] == "L2"
    assert told["neighbours"] == ("add or remove" if arguments == ["dp-sgd"] else "replace")
    assert type(told["neighbours"]) is str
    assert told["unit"] == guarantee.unit.what
    assert told["protects"] == mechanism.protects
    assert bool(told["outside"]) == (PUBLIC in arguments)


def test_what_remains_is_all_of_it_before_the_first_offer_and_never_below_nothing():
    mechanism = made("ldp")
    told = facts(mechanism, EMPTY)
    assert (told["epsilon_spent"], told["epsilon_remaining"]) == (0.0, 2.0)
    assert told["accountant"] == "nothing spent"
    told = facts(mechanism, Ledger(((*mechanism.per_offer, 5),)))
    assert told["epsilon_spent"] > told["epsilon_budget"]
    assert told["epsilon_remaining"] == 0.0


def test_the_owner_reads_what_is_protected_and_what_is_not():
    record = introduction(made("dp-sgd"))
    assert record["privacy"] == "dp-sgd, epsilon 2, delta 1e-05 over the run"
    assert record["protects"].startswith("every gradient step is clipped for each record")
    assert record["unit"] == (
        "one record (row) of a node's data, over the run; neighbours: add or remove one; "
        "sensitivity in the L2 norm"
    )
    assert record["not covered"].startswith("nothing")
    for covered in (introduction(made("aldp")), introduction(made("ldp"))):
        assert covered["unit"].startswith("one node's whole data set")
        assert covered["not covered"].startswith("nothing")
    assert introduction(made("aldp", *RAW))["not covered"].startswith("the clipping radius")
    faulty = made("aldp", CLASSIC, PUBLIC)
    assert faulty.guarantee.epsilon != 2
    proved = f"aldp, epsilon 2, delta 1e-05 over the run, proved {faulty.guarantee.epsilon:.4g}"
    assert introduction(faulty)["privacy"] == proved


def test_the_ledger_in_a_line():
    mechanism = made("aldp", *RAW, rounds=4)
    line = ledger_text(facts(mechanism, charged(mechanism, EMPTY, ())))
    so_far = privacy_spent(Ledger.of(mechanism.per_offer), 1e-5).epsilon
    told = f"privacy spent: epsilon {so_far:.4g} of 2 at delta 1e-05 ({2 - so_far:.4g} remain), for one"
    assert line.startswith(told)
    assert "data set, over the run (replace); not covered: the clipping radius" in line
    assert "not covered" not in ledger_text(facts(made("ldp"), EMPTY))


def shared_by(honest):
    overrides = ("privacy.mechanism=distributed-dp-sgd", "privacy.epsilon=2", f"privacy.honest={honest}")
    steps = ("aggregation.min_participants=10", "train.steps=20", "train.expected_batch=400")
    return make_mechanism(load_task("digits", [*overrides, *steps]), SHAPES, ROWS)


def from_a_file(told):
    """As a model file holds it, its keys in the order of letters."""
    return json.loads(json.dumps(told, sort_keys=True, allow_nan=False))


@pytest.mark.parametrize(
    ("honest", "words"), [(1, "at least 1 of the other members is"), (6, "at least 6 of")]
)
def test_a_file_says_on_whom_the_guarantee_rests(honest, words):
    shared = shared_by(honest)
    told = facts(shared, Ledger.of(shared.per_offer))
    assert f"as long as {words}" in ledger_text(told)
    assert ledger_text(from_a_file(told)) == ledger_text(told)


def stamped(mechanism, times=1):
    return with_terms(Ledger(tuple((event, times) for event in mechanism.per_offer)), terms_of(mechanism))


def test_charges_of_another_unit_stand_apart_and_those_of_another_task_at_their_own_terms():
    """Of a data set, of rows whose noise nine others share, and of rows whose noise one other shares."""
    local = made("ldp", rounds=2)
    nine, one = shared_by(9), shared_by(1)
    ledger = Ledger(stamped(local).counts + stamped(nine, 10).counts)
    told = facts(one, ledger)
    assert told["epsilon_spent"] == privacy_spent(at_honest(stamped(nine, 10), 1), 1e-5).epsilon
    assert told["epsilon_alone"] == privacy_spent(at_honest(stamped(nine, 10), 0), 1e-5).epsilon
    assert told["epsilon_spent"] > 2 * privacy_spent(stamped(nine, 10), 1e-5).epsilon
    assert told["steps_charged"] == 10
    (apart,) = told["apart"]
    so_far = privacy_spent(stamped(local), 1e-5).epsilon
    assert (apart["unit"], apart["mechanisms"]) == (local.guarantee.unit.what, ["ldp"])
    assert apart["epsilon"] == apart["epsilon_alone"] == so_far
    words = (
        f"epsilon {so_far:.4g} at delta 1e-05 for one node's whole data set, over the run (replace), which"
    )
    assert f"; apart: {words}" in ledger_text(from_a_file(told))
    assert introduction(one, ledger)["apart"].startswith(words)
    mine = facts(local, ledger)
    assert (mine["epsilon_spent"], mine["apart"][0]["mechanisms"]) == (so_far, ["distributed-dp-sgd"])
    assert "if all others work together), " not in ledger_text(mine)
    assert " if all others work together) at delta" in ledger_text(mine)
    assert can_train(local, ledger, ()), "its budget is not spent by others"
    row = made("dp-sgd")
    assert facts(row, ledger)["epsilon_spent"] == told["epsilon_alone"], "it trusts nobody"
    assert introduction(made("none"), ledger)["no bound"].startswith(
        "from this run's first offer on, nothing"
    )


def test_after_an_offer_without_noise_there_is_no_bound_and_no_budget():
    none, local = made("none"), made("ldp")
    ledger = with_terms(Ledger.of(receipt_of(none, EMPTY, (), ()).events), terms_of(none))
    assert "no bound" not in introduction(none, ledger)
    told = from_a_file(facts(local, ledger))
    assert (told["epsilon_spent"], told["epsilon_remaining"]) == (None, 0.0)
    assert ledger_text(told).startswith(
        "privacy spent: NO BOUND: offers without noise were made under this key"
    )
    assert introduction(local, ledger)["no bound"].endswith("and this node offers nothing")
    assert not can_train(local, ledger, ())
    both = Ledger(ledger.counts + stamped(made("dp-sgd"), 1).counts + stamped(local).counts)
    assert facts(made("dp-sgd"), both)["apart"][0]["epsilon"] is None
    assert "apart: no bound at delta" in ledger_text(from_a_file(facts(made("dp-sgd"), both)))


def test_charges_of_which_nobody_knows_the_terms_count_and_it_is_said():
    local = made("ldp", rounds=2)
    ledger = with_terms(Ledger.of(local.per_offer), unknown_terms(terms_of(local)))
    assert introduction(local, ledger)["unknown"].startswith("charges of an earlier version do not say what")
    assert "with honest = 1; if that was more" in introduction(local, ledger)["unknown"]
    (release,) = local.per_offer
    as_if = Gaussian(release.noise_multiplier / math.sqrt(2))
    assert facts(local, ledger)["epsilon_spent"] == pytest.approx(
        privacy_spent(Ledger.of([as_if]), 1e-5).epsilon
    )


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(0.0, 4.0), (4.0, 4.0), (4.0001, 4.01), (17.634, 17.7), (99.95, 100.0), (12345.0, 12400.0), (5.0, 5.0)],
)
def test_the_bound_is_rounded_up_to_three_digits_and_never_below_the_clip(bound, expected):
    assert offer_bound(task_of("none"), SimpleNamespace(bound=bound)) == expected


@pytest.mark.parametrize("bound", [17.634035987656194, 43.94889624027153, 5.0, 100.0, 12.3, 1e5, 998.7654321])
def test_a_difference_in_the_last_digit_makes_no_other_parameters(bound):
    task = task_of("ldp")
    texts = {
        canonical_parameters(task, SHAPES, offer_bound(task, SimpleNamespace(bound=near)))
        for near in (math.nextafter(bound, 0), bound, math.nextafter(bound, math.inf), bound * (1 + 1e-13))
    }
    assert len(texts) == 1


def test_noise_raises_the_bound_and_dp_sgd_does_not():
    task = task_of("ldp")
    mechanism = make_mechanism(task, SHAPES, ROWS)
    assert mechanism.bound <= offer_bound(task, mechanism) < 1.01 * mechanism.bound
    assert offer_bound(task_of("dp-sgd"), made("dp-sgd")) == 4.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dp-sgd", CLASSIC], ("'dp-sgd'", "calibration", "'linear-classic'", "'exact'")),
        (["aldp", CLASSIC, QUANTILE], ("'aldp'", "window_source = 'quantile'", "'raw'")),
        (["aldp", CLASSIC, "privacy.window_source=aggregate"], ("window_source = 'aggregate'", "'raw'")),
        (["ldp", CLASSIC, QUANTILE], ("window_source = 'quantile'", "'raw'")),
        (["no.such.module:Class"], ("'no.such.module:Class'", "cannot be imported")),
        ([f"{OWN}:Absent"], (f"'{OWN}:Absent'", "cannot be imported", "Absent")),
        ([f"{OWN}:UNIT"], (f"'{OWN}:UNIT'", "is not a class")),
        ([f"{OWN}:Raising"], (f"'{OWN}:Raising'", "the noise machine is out of order")),
        ([f"{OWN}:TakesNothing"], (f"'{OWN}:TakesNothing'", "argument")),
        ([f"{OWN}:Unfinished"], ("no mechanism", "it has no aggregated, offer, per_offer, per_training")),
    ],
)
def test_what_can_not_be_is_one_line(arguments, words):
    with pytest.raises(ConfigError) as caught:
        made(*arguments)
    assert caught.value.status == 2
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mechanism_that_counts_steps_is_refused_where_nobody_knows_their_number():
    line = "it needs the number of steps of a round, which train.seconds leaves open; set train.epochs"
    with pytest.raises(ConfigError, match=line):
        made(f"{OWN}:Stepping", "train.seconds=5")
    assert made(f"{OWN}:Stepping").steps == made("dp-sgd").steps


@pytest.mark.parametrize("arguments", EVERY[:-1])
def test_an_update_that_is_clipped_as_a_whole_costs_the_same_however_long_it_was_trained(arguments):
    epochs, seconds = made(*arguments), made(*arguments, "train.seconds=5")
    assert seconds.guarantee == epochs.guarantee
    assert (seconds.per_offer, seconds.per_training) == (epochs.per_offer, epochs.per_training)


def test_a_mechanism_of_ones_own_is_named_by_its_import_path_and_stopped_at_its_budget():
    mechanism = made(f"{OWN}:Counting", "privacy.window=5", rounds=4)
    setting = mechanism.setting
    assert (setting.epsilon, setting.delta, setting.clipping_radius) == (2.0, 1e-5, 1.0)
    assert (setting.window, setting.window_source, setting.calibration) == (5, "raw", "exact")
    assert (setting.rounds, setting.sizes, setting.rows) == (4, (32, 4), ROWS)
    assert (setting.batch_size, setting.epochs) == (16, 2)
    receipt = receipt_of(mechanism, EMPTY, (), ((1.0,),))
    assert receipt.events == (Gaussian(1.0),)
    assert facts(mechanism, EMPTY)["unit"] == "one ward"
    assert made(f"{OWN}:Counting", "train.seconds=5").setting.epochs is None
    mechanism = made(f"{OWN}:Counting")
    one = privacy_spent(Ledger.of(mechanism.per_offer), 1e-5).epsilon
    mechanism.guarantee = replace(mechanism.guarantee, epsilon=one)
    assert can_train(mechanism, EMPTY, ())
    assert not can_train(mechanism, Ledger.of(mechanism.per_offer), ())
