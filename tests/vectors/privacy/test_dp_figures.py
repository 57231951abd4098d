"""Known figures of Gaussian mechanisms: delta = 1e-5, L2 sensitivity 1. Their digits are their precision."""

import json
from pathlib import Path

import pytest

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import (
    Ledger,
    SampledGaussian,
    delta_spent,
    privacy_spent,
    releases_noise_multiplier,
    sampled_noise_multiplier,
)

KNOWN = json.loads((Path(__file__).parent / "dp_figures.json").read_text())
DELTA = 1e-5


def same(figure: str, found: float) -> bool:
    """Whether `found`, rounded to the digits of `figure`, is `figure`."""
    mantissa, _, exponent = figure.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(found - float(figure)) <= 0.5000001 * unit


@pytest.mark.parametrize("row", KNOWN["one_release"], ids=lambda row: f"epsilon {row['epsilon']}")
def test_one_release(row):
    epsilon = float(row["epsilon"])
    classic = gaussian.classic_noise_multiplier(epsilon, DELTA, replay=True)
    assert same(row["classic_noise_std"], classic)
    assert same(row["exact_noise_std"], gaussian.noise_multiplier(epsilon, DELTA))
    assert same(row["true_delta_of_classic"], gaussian.delta(epsilon, classic))


def test_where_the_classic_formula_is_not_private():
    each = gaussian.classic_noise_multiplier(20 / 100, DELTA / 100, replay=True)
    evenly = gaussian.epsilon(DELTA, gaussian.compose([each] * 100))
    assert same(KNOWN["true_epsilon_of_linear_classic_at_20_over_100"], evenly)
    for epsilon, true in KNOWN["true_epsilon_of_classic"].items():
        classic = gaussian.classic_noise_multiplier(float(epsilon), DELTA, replay=True)
        assert same(true, gaussian.epsilon(DELTA, classic))
    first = float(KNOWN["classic_first_fails_at_epsilon"])
    for epsilon, private in ((first - 0.005, True), (first + 0.005, False)):
        classic = gaussian.classic_noise_multiplier(epsilon, DELTA, replay=True)
        assert (gaussian.delta(epsilon, classic) <= DELTA) is private


@pytest.mark.parametrize("row", KNOWN["releases"], ids=lambda row: f"T {row['releases']} e {row['epsilon']}")
def test_several_releases(row):
    """`linear_classic` splits epsilon and delta evenly; `classic_whole_delta` splits epsilon alone."""
    epsilon, releases = float(row["epsilon"]), int(row["releases"])
    each = gaussian.classic_noise_multiplier(epsilon / releases, DELTA / releases, replay=True)
    best = releases_noise_multiplier(epsilon, DELTA, releases)
    assert same(row["linear_classic"], each)
    assert same(
        row["classic_whole_delta"], gaussian.classic_noise_multiplier(epsilon / releases, DELTA, replay=True)
    )
    assert same(row["exact"], best)
    assert same(row["ratio"], each / best)


@pytest.mark.parametrize("row", KNOWN["accountants"], ids=lambda row: ", ".join(list(row.values())[:3]))
def test_accountants(row):
    """The grid of a PLD rounds up: ours by less than 0.1 %, that of the figures by as much."""
    z, q, steps = float(row["noise_std"]), float(row["sampling_probability"]), int(row["steps"])
    ledger = Ledger.of([SampledGaussian(z, q, steps)])
    found = privacy_spent(ledger, DELTA)
    assert found.epsilon == pytest.approx(float(row["pld"]), rel=1e-3)
    assert found.method == ("closed form" if q == 1 else "PLD")
    assert delta_spent(ledger, found.epsilon) == pytest.approx(DELTA, rel=1e-2)
    again = sampled_noise_multiplier(found.epsilon, DELTA, q, steps)
    assert z * 0.999 <= again <= z * 1.01
