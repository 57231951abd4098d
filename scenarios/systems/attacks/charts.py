"""The plots and tables of scenario `attacks`; pictures are heatmaps in a grid of small axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from scenarios.frame.spec import Chart, Json, Table
from scenarios.inference.inversion import FOUND, RECOVERED, TRUTH
from scenarios.inference.membership import ATTACKS
from scenarios.study.charts import BARS, amount, colour, drawn, marked, protection_table, series
from scenarios.study.sweep import FINAL, Sweep
from scenarios.systems.attacks.arms import (
    MEMBERS,
    NODE_ROWS,
    RECORD_EPSILONS,
    SUMS,
    UPDATE_EPSILONS,
    inversion_node,
    inversion_noise,
    inversion_sum,
    membership_noise,
    property_noise,
    property_sum,
    run_of,
)

PICTURED: Mapping[str, str] = {
    inversion_sum(1): "bare",
    inversion_sum(3): "sum of 3",
    inversion_sum(100): "sum of 100",
    inversion_node(100): "trained",
    inversion_noise(10000): "ε 10,000",
    inversion_noise(100): "ε 100",
    "own": "own",
}
"""The arms whose pictures are drawn, with their captions."""
PICTURED_SEEDS = 3
SIMILARITY: Json = {"title": {"text": "similarity"}, "range": [-0.1, 1.05]}
CHANCE = 0.5
"""The AUC of random guesses."""
AUC: Json = {"title": {"text": "AUC"}, "range": [0.4, 1.02]}
ATTACK_NAMES: Mapping[str, str] = {
    "loss": "loss threshold",
    "calibrated": "less the shadows' loss",
    "ratio": "likelihood ratio",
}


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """The charts that have figures, pictures first."""
    return drawn(
        pictures(sweep),
        inversion_by_rows(sweep),
        property_by_members(sweep),
        over_noise(sweep),
        membership(sweep),
    )


# -- pictures ----------------------------------------------------------------------------------------------


def pictures(sweep: Sweep) -> Chart:
    """A column for the truth and for each arm, a row for each of the first seeds."""
    arms = run_of(sweep, PICTURED)
    columns = [("true", arms[0], TRUTH), *((PICTURED[arm], arm, FOUND) for arm in arms)] if arms else []
    rows = range(min(PICTURED_SEEDS, len(sweep.seeds)))
    traces = [
        _picture(sweep.outcomes[arm][row].series[name], 1 + row * len(columns) + column, words)
        for row in rows
        for column, (words, arm, name) in enumerate(columns)
    ]
    caption = (
        "One row for each of the first seeds. Bare: an update of one step on one image. Sum of 3, of 100: a "
        "secure sum of as many such updates. Trained: two epochs on 100 images, as nodes train. ε: the bare "
        "update, clipped and noised. The attacker knows the labels; of all that it found the picture most "
        "like the true one is shown."
    )
    layout = _grid([words for words, _, _ in columns], len(rows))
    return Chart("pictures", "What is found of an image", caption, tuple(traces), layout)


def _picture(pixels: Sequence[float], place: int, words: str) -> Json:
    side = math.isqrt(len(pixels))
    return {
        "type": "heatmap",
        "name": words,
        "z": np.reshape(pixels, (side, side)).tolist(),
        "zmin": 0,
        "zmax": 1,
        "showscale": False,
        "colorscale": [[0, "var(--rule)"], [1, "var(--ink)"]],
        "hoverinfo": "skip",
        **_on(place),
    }


def _on(place: int) -> Json:
    """The names of a small picture's axes, by its position from 1."""
    return {} if place == 1 else {"xaxis": f"x{place}", "yaxis": f"y{place}"}


def _grid(words: Sequence[str], rows: int) -> Json:
    """The axes for rows of square pictures, from the top, and the captions over the first row."""
    layout: dict[str, object] = {"showlegend": False, "hovermode": False}
    for row in range(rows):
        for column in range(len(words)):
            place = 1 + row * len(words) + column
            number = "" if place == 1 else str(place)
            across, down = _part(column, len(words), 0.04), _part(row, rows, 0.06)
            top = 0.92
            layout[f"xaxis{number}"] = {
                "domain": across, "anchor": f"y{number}", "visible": False, "constrain": "domain",
            }  # fmt: skip
            layout[f"yaxis{number}"] = {
                "domain": [top * (1 - down[1]), top * (1 - down[0])], "anchor": f"x{number}",
                "visible": False, "autorange": "reversed", "scaleanchor": f"x{number}",
                "constrain": "domain",
            }  # fmt: skip
    layout["annotations"] = [
        {
            "text": text.replace(" ", "<br>", 1),
            "x": sum(_part(column, len(words), 0.04)) / 2,
            "y": 1.0,
            "xref": "paper",
            "yref": "paper",
            "xanchor": "center",
            "yanchor": "top",
            "showarrow": False,
            "font": {"size": 11, "color": "var(--muted)"},
        }
        for column, text in enumerate(words)
    ]
    return layout


def _part(number: int, of: int, gap: float) -> list[float]:
    """The range in [0, 1] of part `number` of `of` equal parts with gaps between them."""
    width = (1 - gap * (of - 1)) / of
    return [number * (width + gap), number * (width + gap) + width]


# -- lines -------------------------------------------------------------------------------------------------


def inversion_by_rows(sweep: Sweep) -> Chart:
    """Similarity over the rows in the sum: updates of one row, and updates of trained nodes."""
    singles = {inversion_sum(updates): float(updates) for updates in SUMS}
    nodes = {inversion_node(rows): float(rows) for rows in NODE_ROWS}
    lines = [
        series(sweep, name, _run(sweep, points), position, fact=fact, dash=dash)
        for name, points, position, fact, dash in (
            ("updates of one step on one row", singles, 0, FINAL, "solid"),
            ("one update, trained as nodes do", nodes, 1, FINAL, "solid"),
            ("the first layer's quotient only", singles, 2, "quotient", "solid"),
            ("a guess", {**singles, **nodes}, 7, "guess", "dot"),
        )
        if _run(sweep, points)
    ]
    caption = (
        "How like the true image what is found is: 1 is the same up to brightness. The guess is what as many "
        f"other images of the same digit reach without any update. From {RECOVERED:g} on a row counts as "
        f"recovered. {BARS}"
    )
    layout = marked("rows that the sum is made of", sorted({*SUMS, *NODE_ROWS[2:]}), SIMILARITY)
    return Chart("inversion", "Gradient inversion, by rows in the sum", caption, tuple(lines), layout)


def property_by_members(sweep: Sweep) -> Chart:
    """AUC over the members of a sum, for the attack and for an attacker that knows the count."""
    points = _run(sweep, {property_sum(members): float(members) for members in MEMBERS})
    lines = [
        series(sweep, "attack", points, 0),
        series(sweep, "one who counts the members that have it", points, 7, "dot", "counting auc"),
    ]
    caption = (
        "Are most of this client's rows women's? AUC of the attack for one member of a sum; 0.5 is chance. "
        f"The dotted line knows exactly how many members have the property, and not which. {BARS}"
    )
    layout = marked("members of the sum", MEMBERS, AUC)
    return Chart(
        "property", "Property inference, by members", caption, tuple(lines) if points else (), layout
    )


def over_noise(sweep: Sweep) -> Chart:
    """Inversion and property inference over the epsilon of one noised update."""
    lines = [
        series(
            sweep, name, _run(sweep, {arm(epsilon): float(epsilon) for epsilon in UPDATE_EPSILONS}), position
        )
        for name, arm, position in (
            ("inversion: similarity", inversion_noise, 0),
            ("property: AUC", property_noise, 1),
        )
    ]
    caption = (
        "One update, clipped and noised before it leaves; epsilon is for the node's whole data set and this "
        f"one update. {BARS}"
    )
    layout = marked("epsilon of the update", UPDATE_EPSILONS, {"title": {"text": "similarity, AUC"}})
    return Chart(
        "noise", "What noise on an update prevents", caption, tuple(x for x in lines if x["x"]), layout
    )


def membership(sweep: Sweep) -> Chart:
    """A group of bars for each epsilon, a bar for each attack."""
    arms = run_of(sweep, _by_epsilon())
    bars = [
        {
            "type": "bar",
            "name": ATTACK_NAMES[attack],
            "x": [_by_epsilon()[arm] for arm in arms],
            "base": CHANCE,
            "y": [sweep.mean(arm, f"{attack} auc") - CHANCE for arm in arms],
            "error_y": {
                "type": "data",
                "array": [sweep.margin(arm, f"{attack} auc") for arm in arms],
                "color": "var(--ink)",
            },
            "marker": {"color": colour(position)},
        }
        for position, attack in enumerate(ATTACKS)
    ]
    caption = (
        "Was this image among the 150 that the model is trained on? AUC of each attack, from 0.5, which "
        f"is chance; epsilon is for one record over the training. {BARS}"
    )
    layout = {"barmode": "group", "xaxis": {"type": "category"}, "yaxis": {**AUC, "range": [0.45, 0.75]}}
    return Chart("membership", "Membership inference", caption, tuple(bars) if arms else (), layout)


def _by_epsilon() -> dict[str, str]:
    noised = {membership_noise(epsilon): f"ε = {epsilon}" for epsilon in RECORD_EPSILONS[::-1]}
    return {membership_noise(0): "no noise", **noised}


def _run(sweep: Sweep, points: Mapping[str, float]) -> dict[str, float]:
    return {arm: points[arm] for arm in run_of(sweep, points)}


# -- tables ------------------------------------------------------------------------------------------------


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """A table for each attack, and one of the protection."""
    found = (inversion_table(sweep), property_table(sweep), membership_table(sweep), _protection(sweep))
    return tuple(table for table in found if table.rows)


def inversion_table(sweep: Sweep) -> Table:
    """The similarity of each attack, compared with a guess."""
    facts = ("quotient", "search", FINAL, "guess", "recovered")
    headings = ("arm", "quotient", "search", "best", "guess", "recovered", "epsilon")
    return Table(
        "Gradient inversion: similarity with the true row", headings, _rows(sweep, "inversion", facts)
    )


def property_table(sweep: Sweep) -> Table:
    """AUC and accuracy of property inference."""
    facts = (FINAL, "accuracy", "counting auc")
    headings = ("arm", "AUC", "accuracy", "AUC by counting", "epsilon")
    return Table("Property inference: mostly women", headings, _rows(sweep, "property", facts))


def membership_table(sweep: Sweep) -> Table:
    """AUCs, TPR and advantage of the likelihood ratio, and the accuracy of the model."""
    facts = (*(f"{attack} auc" for attack in ATTACKS), "ratio tpr", "ratio advantage", "accuracy")
    headings = ("arm", "loss", "calibrated", "ratio", "TPR", "advantage", "accuracy", "epsilon")
    title = "Membership inference: AUC of each attack; the ratio's TPR at an FPR of .05; the model's accuracy"
    return Table(title, headings, _rows(sweep, "membership", facts))


def _rows(sweep: Sweep, kind: str, facts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The rows of the arms of a kind, as their cells state it: means of facts, and epsilon."""
    return tuple(
        (cell.arm, *(_mean(sweep, cell.arm, fact) for fact in facts), amount(sweep.fact(cell.arm, "epsilon")))
        for cell in sweep.cells.values()
        if cell.describe()["kind"] == kind
    )


def _mean(sweep: Sweep, arm: str, fact: str) -> str:
    """The mean of a fact with its standard error, as text."""
    error = f" ± {sweep.standard_error(arm):.2f}" if fact == FINAL else ""
    return f"{sweep.mean(arm, fact):.2f}{error}"


def _protection(sweep: Sweep) -> Table:
    kinds = {
        inversion_sum(1): "none",
        inversion_noise(1): "ldp",
        membership_noise(1): "dp-sgd",
        "own": "own",
    }
    return protection_table(sweep, kinds)
