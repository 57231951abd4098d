"""The privacy part of scenario `swarm`: the headline over epsilon, and a sentence on each protection."""

from __future__ import annotations

from collections.abc import Sequence

from node.training.figures.metric_words import METRIC_NAMES, value_text
from scenarios.frame.spec import Chart, Json, Table, Verdict
from scenarios.study.charts import level, metric_axis, metric_hover, sentence
from scenarios.swarms.baselines import PrivateCurve
from scenarios.swarms.history import amount, most_spent
from scenarios.swarms.nodes import PeerRun
from scenarios.swarms.results import BASE_RATE, SwarmResults, entries_by_round

COLOURS = {"dp-sgd": "var(--series-1)", "aldp": "var(--series-2)", "ldp": "var(--series-3)"}
USEFUL_POINTS = 10.0
"""A model that beats guessing the most frequent class by fewer points is not useful."""


def curve_of(peers: Sequence[PeerRun]) -> PrivateCurve | None:
    """The real peers' curve: each round's lowest value and largest epsilon; None without privacy."""
    most = most_spent([peer.summary.privacy for peer in peers])
    if most is None:
        return None
    rounds = entries_by_round(peers).values()
    values = tuple(min(entry.value or 0.0 for entry in entries) for entries in rounds)
    epsilon = tuple(max(entry.epsilon or 0.0 for entry in entries) for entries in rounds)
    return PrivateCurve(str(most["mechanism"]), values, epsilon, dict(most))


def curves(results: SwarmResults) -> tuple[PrivateCurve, ...]:
    """The real peers' curve first, then the replays; none without privacy."""
    own = curve_of(results.peers)
    return () if own is None else (own, *results.replays)


def over_epsilon(results: SwarmResults) -> tuple[Chart, ...]:
    """The headline metric over the epsilon spent so far; no chart without privacy."""
    found, metric = curves(results), results.metric
    if not found:
        return ()
    traces = [_trace(curve, metric, position == 0) for position, curve in enumerate(found)]
    last = max(curve.epsilon[-1] for curve in found)
    guessing = {**level(BASE_RATE, results.guessing, [0, last]), "hovertemplate": metric_hover(metric)}
    delta = amount(found[0].privacy, "delta")
    return (
        Chart(
            "epsilon",
            f"{sentence(metric)} over epsilon",
            f"Test {METRIC_NAMES[metric]} of the common model against the epsilon spent so far "
            f"(delta {delta:g}; the peer that spent most). {found[0].mechanism} ran on the real peers, "
            "the others are replays over the same data without a network. "
            "Their epsilons protect different things: see the table below.",
            (*traces, guessing),
            {
                "xaxis": {"title": {"text": "epsilon spent"}, "rangemode": "tozero"},
                "yaxis": {**metric_axis(metric), "range": [0, 1]},
            },
        ),
    )


def _trace(curve: PrivateCurve, metric: str, is_real: bool) -> Json:
    colour = COLOURS.get(curve.mechanism, "var(--series-4)")
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": curve.mechanism if is_real else f"{curve.mechanism} (replay)",
        "x": list(curve.epsilon),
        "y": list(curve.values),
        "line": {"color": colour, "width": 3.5 if is_real else 2, "dash": "solid" if is_real else "dot"},
        "marker": {"color": colour, "size": 6},
        "hovertemplate": "epsilon %{x:.3f}: " + metric_hover(metric),
    }


def tables(results: SwarmResults) -> tuple[Table, ...]:
    """Each mechanism's ledger and result; no table without privacy."""
    found = curves(results)
    if not found:
        return ()
    figures = ("mechanism", METRIC_NAMES[results.metric], "epsilon spent", "of", "delta", "for")
    words = ("mechanism", "what is protected", "what epsilon does not cover")
    spent = (
        (
            curve.mechanism,
            value_text(results.metric, curve.final),
            f"{curve.privacy['epsilon_spent']:.3f}",
            f"{curve.privacy['epsilon_budget']:.3g}",
            f"{curve.privacy['delta']:g}",
            f"{curve.privacy['unit']} ({curve.privacy['neighbours']})",
        )
        for curve in found
    )
    protection = (
        (curve.mechanism, str(curve.privacy["protects"]), str(curve.privacy["outside"]) or "nothing")
        for curve in found
    )
    return (Table("Privacy", figures, tuple(spent)), Table("What is protected", words, tuple(protection)))


def verdict_in_words(results: SwarmResults) -> str:
    """A sentence on how useful each mechanism was; "" without privacy."""
    return " ".join(_privacy_words(curve, results) for curve in curves(results))


def _privacy_words(curve: PrivateCurve, results: SwarmResults) -> str:
    said, guessing = value_text(results.metric, curve.final), results.guessing
    epsilon = amount(curve.privacy, "epsilon_spent")
    if 100 * (curve.final - guessing) < USEFUL_POINTS:
        return (
            f"{curve.mechanism} at epsilon {epsilon:.3g} is useless here: {said}, where "
            f"the best constant answer gives {value_text(results.metric, guessing)}."
        )
    return f"{curve.mechanism} reached {said} at epsilon {epsilon:.3g}."


def within_budget(results: SwarmResults) -> Verdict:
    """Whether no peer's ledger exceeds its budget; without privacy nothing is spent."""
    ledgers = [peer.summary.privacy for peer in results.peers if peer.summary.privacy is not None]
    if not ledgers:
        return Verdict(True, {"privacy": "none asked for"})
    spent, budgets = (
        [amount(ledger, name) for ledger in ledgers] for name in ("epsilon_spent", "epsilon_budget")
    )
    holds = all(one <= budget * (1 + 1e-6) for one, budget in zip(spent, budgets, strict=True))
    return Verdict(holds, {"largest epsilon spent": max(spent), "budget": max(budgets)})


def arm(results: SwarmResults) -> Json:
    """The figures of every mechanism as JSON."""
    return {
        curve.mechanism: {
            results.metric: curve.final,
            f"{results.metric}_by_round": list(curve.values),
            "epsilon_by_round": list(curve.epsilon),
            **curve.privacy,
        }
        for curve in curves(results)
    }
