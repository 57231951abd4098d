"""Claims by makers on made-up results: when each holds, when it does not, and when it is not judged."""

from dataclasses import replace

import pytest

from scenarios.study.bounds import above, ahead, below
from scenarios.study.makers import (
    alike,
    apart,
    at_least,
    best_inside,
    every,
    falls,
    identity,
    lacking_arms,
    lacking_line,
    lacking_pairs,
    never_falls,
    no_worse,
    rises,
    within,
)
from tests.unit.scenarios.study.made_up import TWO, sweep

RISING = {"ldp 1": 0.3, "ldp 8": 0.301, "ldp 100": 0.5}
LDP = {"mechanism": "ldp"}


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        (RISING, True),
        ({"ldp 100": 0.5, "ldp 8": 0.3, "ldp 1": 0.2}, True),  # by level, not by place
        ({**RISING, "ldp 8": 0.299}, False),  # a clear fall on the way
        ({**RISING, "ldp 100": 0.3, "ldp 8": 0.3}, False),  # never more
        ({**RISING, "ldp 100": 0.2}, False),
        ({**RISING, "sgd 1": 0.9, "sgd 8": 0.8}, False),  # another line falls
    ],
)
def test_rises(figures, holds):
    assert rises("epsilon").judge(sweep(figures)).holds is holds
    lost = falls("epsilon", fact="lost").judge(sweep(figures))
    assert lost.holds is holds


def test_never_falls_asks_for_no_rise_and_noise_within_a_margin_is_no_fall():
    flat = {"ldp 1": 0.3, "ldp 8": 0.3}
    assert never_falls("epsilon").judge(sweep(flat)).holds
    assert not rises("epsilon").judge(sweep(flat)).holds
    assert not never_falls("epsilon").judge(sweep({**flat, "ldp 8": 0.29})).holds
    assert never_falls("clients").judge(sweep(flat)) is None
    assert rises("epsilon").judge(sweep({**RISING, "ldp 8": 0.299}, jitter=0.01)).holds


def test_a_line_is_chosen_by_where_and_its_numbers_are_told():
    figures = {**RISING, "sgd 1": 0.9, "sgd 8": 0.8}
    verdict = rises("epsilon", LDP).judge(sweep(figures))
    assert verdict.holds
    assert verdict.numbers["epsilon 1"] == pytest.approx(0.3)
    assert verdict.numbers["epsilon 8"] == pytest.approx(0.301)
    both = rises("epsilon").judge(sweep(figures))
    assert both.numbers["mechanism sgd: epsilon 8"] == pytest.approx(0.8)
    assert both.numbers["mechanism ldp: rise from first to last in margins"] > 1
    least = both.numbers["mechanism sgd: rise from first to last in margins"]
    assert both.numbers["least rise from first to last in margins"] == least < 0
    most = both.numbers["mechanism sgd: largest fall in margins"]
    assert both.numbers["largest fall in margins"] == most > 1
    assert verdict.numbers["rise from first to last in margins"] > 1
    assert falls("epsilon", {"mechanism": "sgd"}).judge(sweep(figures)).holds


@pytest.mark.parametrize("made", [rises("clients"), falls("epsilon", {"mechanism": "none"}), rises("rounds")])
def test_without_a_line_nothing_is_judged(made):
    assert made.judge(sweep(RISING)) is None


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({"a 1": 0.1, "a 2": 0.5, "a 3": 0.2}, True),
        ({"a 1": 0.1, "a 2": 0.3, "a 3": 0.5, "a 4": 0.2}, True),
        ({"a 1": 0.5, "a 2": 0.5, "a 3": 0.2}, False),
        ({"a 1": 0.1, "a 2": 0.5, "a 3": 0.6}, False),
        ({"a 1": 0.1, "a 2": 0.5}, None),
    ],
)
def test_best_inside(figures, holds):
    verdict = best_inside("epsilon").judge(sweep(figures))
    assert (verdict and verdict.holds) is holds


def test_at_least_looks_at_the_least_of_the_arms():
    assert at_least(0.29).judge(sweep(RISING)).holds
    verdict = at_least(0.4).judge(sweep(RISING))
    assert (verdict.holds, verdict.numbers["in"], verdict.numbers["arms"]) == (False, "ldp 1", 3)
    assert at_least(0.4, {"epsilon": 100}).judge(sweep(RISING)).holds
    assert at_least(0.4, {"epsilon": 3}).judge(sweep(RISING)) is None


SGD, NONE = {"mechanism": "sgd"}, {"mechanism": "none"}


@pytest.mark.parametrize(
    ("higher", "lower", "figures", "holds"),
    [
        (SGD, LDP, TWO, True),
        (LDP, SGD, TWO, False),
        (SGD, LDP, {**TWO, "sgd 1": 0.3}, False),  # at one of the epsilons no difference
        (NONE, LDP, TWO, True),  # without an epsilon it stands beside every one
        (NONE, LDP, {**TWO, "ldp 8": 0.9}, False),
        (SGD, {"mechanism": "rpfl"}, TWO, None),
    ],
)
def test_apart(higher, lower, figures, holds):
    verdict = apart(higher, lower).judge(sweep(figures))
    assert (verdict and verdict.holds) is holds


@pytest.mark.parametrize(
    ("one", "other", "figures", "holds"),
    [
        (SGD, LDP, TWO, True),
        (SGD, LDP, {**TWO, "sgd 1": 0.3}, True),  # equal is no worse
        (SGD, LDP, {**TWO, "sgd 1": 0.299}, False),
        (SGD, {"mechanism": "rpfl"}, TWO, None),
    ],
)
def test_no_worse(one, other, figures, holds):
    verdict = no_worse(one, other).judge(sweep(figures))
    assert (verdict and verdict.holds) is holds


@pytest.mark.parametrize(
    ("figures", "holds"),
    [
        ({**TWO, "sgd 8": 0.4, "sgd 1": 0.3}, True),
        (TWO, False),
        ({**TWO, "sgd 8": 0.4, "sgd 1": 0.29}, False),
    ],
)
def test_alike(figures, holds):
    for pair in ((SGD, LDP), (LDP, SGD)):
        assert alike(*pair).judge(sweep(figures)).holds is holds
    assert alike(SGD, {"mechanism": "rpfl"}).judge(sweep(figures)) is None


def test_several_claims_as_one_and_a_claim_as_an_identity():
    claim = every("Both", rises("epsilon", SGD), apart(SGD, LDP))
    verdict = claim.judge(sweep(TWO))
    assert (claim.name, claim.kind, verdict.holds) == ("Both", "finding", True)
    assert {"epsilon 1", "pairs"} <= {*verdict.numbers}
    assert not claim.judge(sweep({**TWO, "ldp 1": 0.4})).holds
    assert every("Both", rises("epsilon", SGD), rises("clients")).judge(sweep(TWO)) is None
    twice = every("Twice", apart(SGD, LDP), apart(NONE, LDP)).judge(sweep(TWO))
    assert "least difference in margins, part 2" in twice.numbers
    assert "pairs, part 2" not in twice.numbers, "an equal number is said once"
    assert identity(claim).kind == "identity"


def test_within_needs_the_whole_interval():
    at_1 = {"mechanism": "ldp", "epsilon": 1}, {"mechanism": "sgd", "epsilon": 1}
    assert within(0.003, *at_1).judge(sweep(TWO)).holds
    assert not within(0.001, *at_1).judge(sweep(TWO)).holds
    assert not within(0.001, *reversed(at_1)).judge(sweep(TWO)).holds
    assert not within(0.003, *at_1).judge(sweep(TWO, jitter=0.01)).holds  # the mean alone is not enough
    assert not within(0.003, LDP, SGD).judge(sweep(TWO)).holds  # not at 8
    assert within(0.003, LDP, {"mechanism": "rpfl"}).judge(sweep(TWO)) is None


def test_numbers_of_a_fact_say_which_and_every_gain_is_shown():
    of_figure, of_fact = (apart(SGD, LDP, fact).judge(sweep(TWO)).numbers for fact in ("figure", "lost"))
    assert of_figure["ldp 1"] == pytest.approx(0.3)
    assert of_fact["ldp 8, lost"] == pytest.approx(0.6)
    assert not {"ldp 1", "ldp 8"} & {*of_fact}
    numbers = no_worse(SGD, LDP, shown="lost").judge(sweep(TWO)).numbers
    assert numbers["ldp 8, lost"] == pytest.approx(0.6)
    assert numbers["sgd 8 over ldp 8 in margins"] > 1
    assert numbers["pairs"] == 2


@pytest.mark.parametrize(
    "made",
    [
        rises("epsilon", fact="told"),
        never_falls("epsilon", fact="told"),
        best_inside("epsilon", fact="told"),
        at_least(0.1, fact="told"),
        apart(SGD, LDP, "told"),
        no_worse(SGD, LDP, "told"),
        alike(SGD, LDP, "told"),
        within(9.0, SGD, LDP, "told"),
        above(0.1, SGD, "told"),
        below(0.1, SGD, "told"),
        ahead(-9.0, SGD, LDP, "told"),
    ],
)
def test_where_one_arm_lacks_the_fact_nothing_is_judged(made):
    """What is not known is never the least and never the greatest: it must not pass unseen."""
    whole = sweep({f"{kind} {epsilon}": 0.1 * epsilon for kind in ("ldp", "sgd") for epsilon in (1, 2, 3)})
    for lacking in (None, "sgd 2", "sgd 1"):
        outcomes = {
            arm: tuple(replace(one, facts={} if arm == lacking else {"told": one.final}) for one in those)
            for arm, those in whole.outcomes.items()
        }
        verdict = made.judge(replace(whole, outcomes=outcomes))
        assert (verdict is None) is (lacking is not None)


def test_names_say_what_is_claimed():
    assert rises("epsilon", LDP).name == "The figure rises as epsilon grows (mechanism ldp)"
    assert falls("epsilon", fact="attack success").name == "Attack success falls as epsilon grows"
    assert apart(SGD, {"mechanism": ["ldp", "none"]}).name == (
        "The figure is higher with mechanism sgd than with mechanism ldp or none"
    )
    assert within(0.01, SGD, LDP).name.endswith("by at most 0.01 between mechanism sgd and mechanism ldp")
    assert at_least(0.5, name="Mine").name == "Mine"
    assert best_inside("rounds").name == "The figure is best between the least and the greatest rounds"


def test_what_a_claim_lacks_is_said_before_anything_runs():
    factors = sweep(TWO).factors
    assert lacking_line(factors, "epsilon", {}, 2) == ""
    assert "no arm has the factor 'epsilom'; allowed: mechanism, epsilon" in lacking_line(
        factors, "epsilom", {}, 2
    )
    assert "no arms mechanism none differ in 'epsilon' alone" in lacking_line(factors, "epsilon", NONE, 2)
    assert "with 3 levels or more" in lacking_line(factors, "epsilon", {}, 3)
    assert lacking_arms(factors, {"epsilon": 3}) == "no arm has epsilon 3"
    assert lacking_pairs(factors, SGD, LDP) == ""
    assert lacking_pairs(factors, {"epsilon": 3}, LDP) == "no arm has epsilon 3"
    at_1, at_8 = {"epsilon": 1, **LDP}, {**SGD, "mechanism": ["rpfl"]}
    assert "no arm has mechanism rpfl" in lacking_pairs(factors, at_1, at_8)
    other = {"a": {"k": 1, "m": 1}, "b": {"k": 2, "m": 2}}
    assert "agrees with one with k 2" in lacking_pairs(other, {"k": 1}, {"k": 2})
