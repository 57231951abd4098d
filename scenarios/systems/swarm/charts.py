"""The plots of scenario `swarm`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from node.runtime.record.figures import AGGREGATED, Record
from scenarios.frame.spec import Chart, Json
from scenarios.study.charts import by_round, colour, metric_axis, metric_hover, sentence, whole_numbers
from scenarios.swarms.history import PHASES
from scenarios.swarms.results import (
    BASE_RATE,
    SwarmResults,
    entries_by_round,
    lowest_by_round,
    mean,
    phase_mean,
)
from scenarios.systems.swarm import privacy

PHASE_NAMES = {"train": "training", "group": "group", "shares": "shares", "sums": "sums"}
REASONS = {"group-timeout": "no group", "shares-timeout": "shares missing", "sums-timeout": "sums missing",
           "contributors-differ": "over other members", "joins-timeout": "joins missing",
           "masks-timeout": "more silent than tolerated", "caught": "a liar, banned",
           "wrong-count": "a wrong masked vector", "wrong-weights": "a wrong weight",
           "budget-spent": "privacy budget spent", "all-spent": "all budgets spent",
           "late-member": "came after the first sum",
           "swarm-finished": "too late",
           "outdated": "a newer model came"}  # fmt: skip
FAINT = "var(--faint)"


def charts(results: SwarmResults) -> tuple[Chart, ...]:
    """All plots, the most informative first."""
    return (
        *privacy.over_epsilon(results),
        comparison(results),
        value_by_peer(results),
        by_phase(results, "s"),
        by_phase(results, "bytes_sent"),
        outcomes(results),
    )


def comparison(results: SwarmResults) -> Chart:
    """The swarm against every peer alone and against pooled training."""
    alone = results.baselines.alone
    steps, hover = list(range(1, results.rounds + 1)), metric_hover(results.metric)
    traces: list[Json] = [
        _line(f"peer {peer} alone", steps, curve.values, FAINT, 1.5, hover, group="alone", legend=False)
        for peer, curve in enumerate(alone)
    ]
    alone_mean = [mean(column) for column in zip(*(curve.values for curve in alone), strict=True)]
    grey = "var(--muted)"
    traces.append(_line("alone, mean", steps, alone_mean, grey, 2.5, hover, dash="dash", group="alone"))
    traces.append(
        _line("pooled data", steps, results.baselines.pooled.values, colour(1), 2.5, hover, dash="dot")
    )
    lowest = lowest_by_round(results.peers, lambda entry: entry.value)
    traces.append(_line("the swarm", list(lowest), list(lowest.values()), colour(0), 3.5, hover))
    traces.append(_base_rate(results))
    return Chart(
        "comparison",
        "Together, alone, and on pooled data",
        f"{sentence(results.metric)} on the common test split after each round. Thin lines: each peer "
        "training on its own data only. The swarm's line is its worst peer. Dotted at the bottom: "
        "what the best constant answer reaches.",
        tuple(traces),
        by_round(results.rounds, metric_axis(results.metric)),
    )


def value_by_peer(results: SwarmResults) -> Chart:
    """One line for each peer. If peers agree, their lines coincide: the first are wide, the last narrow."""
    count = len(results.peers)
    traces = [
        _line(
            f"peer {peer.peer}",
            [entry.round for entry in peer.rounds],
            [entry.value for entry in peer.rounds],
            colour(peer.peer),
            2 + 12 * (count - 1 - position) / max(1, count - 1),
            metric_hover(results.metric),
        )
        for position, peer in enumerate(results.peers)
    ]
    return Chart(
        "headline",
        f"{sentence(results.metric)} by round, for each peer",
        "Where the peers hold the same model their lines lie inside one another, from wide to narrow.",
        (*traces, *_of_all(results), _base_rate(results)),
        by_round(results.rounds, metric_axis(results.metric)),
    )


def _of_all(results: SwarmResults) -> tuple[Json, ...]:
    """The line of all members' rows together, where the task counts them; it is that of the model before."""
    found = {entry.round - 1: entry.of_all for peer in results.peers for entry in peer.rounds if entry.of_all}
    if not found:
        return ()
    rounds, hover = sorted(found), metric_hover(results.metric)
    values = [found[number] for number in rounds]
    return (_line("all rows, by secure sum", rounds, values, "var(--faint)", 2, hover, "dash"),)


def _base_rate(results: SwarmResults) -> Json:
    """The line of the best constant answer."""
    rounds = [1, max(results.rounds, 1)]
    hover = metric_hover(results.metric)
    return _line(BASE_RATE, rounds, [results.guessing] * 2, "var(--muted)", 1.5, hover, "dot")


def by_phase(results: SwarmResults, quantity: Literal["s", "bytes_sent"]) -> Chart:
    """Stacked bars: what each phase of a round cost a peer on average."""
    rounds = entries_by_round(results.peers)
    every = [entry for peer in results.peers for entry in peer.rounds]
    phases = PHASES if quantity == "s" else tuple(phase for phase in PHASES if phase != "train")
    axis: Json
    if quantity == "s":
        name, title, hover, axis = "seconds", "Seconds by phase", "%{y:.3f} s", {"title": {"text": "seconds"}}
        said = ", ".join(f"{PHASE_NAMES[phase]} {phase_mean(every, phase, 's'):.2f} s" for phase in phases)
        caption = f"The mean of all peers, round by round. Mean round: {said}."
    else:
        name, title, hover = "bytes-sent", "Bytes sent by phase", "%{y:.3s}B"
        axis = {"title": {"text": "bytes"}, "tickformat": "~s", "ticksuffix": "B"}
        sent = mean([float(entry.bytes_sent) for entry in every]) / 1e3
        received = mean([float(entry.bytes_received) for entry in every]) / 1e3
        moved = f"{sent:.0f} kB out, {received:.0f} kB in"
        caption = f"What one peer sends, the mean of all. Mean round: {moved}."
    traces = [
        _bar(
            PHASE_NAMES[phase],
            [*rounds],
            [phase_mean(entries, phase, quantity) for entries in rounds.values()],
            colour(PHASES.index(phase)),
            hover,
        )
        for phase in phases
    ]
    layout = {**by_round(results.rounds, axis), "barmode": "stack"}
    return Chart(name, title, caption, tuple(traces), layout)


def outcomes(results: SwarmResults) -> Chart:
    """Stacked bars: how many peers aggregated in each round, fell back, by reason, or were absent."""
    peers = len(results.peers)
    counts = {
        number: Counter(map(_outcome_name, [*entries, *[None] * (peers - len(entries))]))
        for number, entries in entries_by_round(results.peers).items()
    }
    names = sorted(
        {name for count in counts.values() for name in count},
        key=lambda name: ({"aggregated": 0, "not there": 2}.get(name, 1), name),
    )
    colours = {"aggregated": "var(--good)", "not there": FAINT}
    traces = [
        _bar(
            name,
            [*counts],
            [count[name] for count in counts.values()],
            colours.get(name, f"var(--bad-{position % 3 + 1})"),
            "%{y} peers",
        )
        for position, name in enumerate(names)
    ]
    axis = {"title": {"text": "peers"}, **whole_numbers(peers)}
    return Chart(
        "outcomes",
        "Outcomes by round",
        "How many peers took in the aggregate of a round, and how many fell back on their own update.",
        tuple(traces),
        {**by_round(results.rounds, axis), "barmode": "stack"},
    )


def _outcome_name(entry: Record | None) -> str:
    if entry is None:
        return "not there"
    if entry.outcome == AGGREGATED:
        return "aggregated"
    return f"fell back: {REASONS.get(entry.reason or '', entry.reason or 'no reason given')}"


def _line(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    colour: str,
    width: float,
    hover: str,
    dash: str = "solid",
    group: str | None = None,
    legend: bool = True,
) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) == 1 else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": width, "dash": dash},
        "marker": {"color": colour, "size": 6 + width},
        "showlegend": legend,
        "hovertemplate": hover,
        **({"legendgroup": group} if group else {}),
    }


def _bar(name: str, x: Sequence[int], y: Sequence[float], colour: str, hover: str) -> Json:
    return {
        "type": "bar",
        "name": name,
        "x": list(x),
        "y": list(y),
        "marker": {"color": colour},
        "hovertemplate": hover,
    }
