"""The plots and tables of scenario `attacks`; pictures are heatmaps in a grid of small axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from scenarios.frame.spec import Chart, Json
from scenarios.inference.inversion import FOUND, RECOVERED, TRUTH
from scenarios.inference.membership import ATTACKS
from scenarios.study.arms import OWN, Factors, Where
from scenarios.study.charts import BARS
from scenarios.study.plots import Bars, Curve, Lines, specified
from scenarios.study.sweep import Sweep
from scenarios.study.tables import ArmTable, Cells, error, mean, number, protection_rows, tabled
from scenarios.systems.attacks.arms import (
    CLIENTS,
    INVERSION,
    LDP,
    MEMBERS,
    MEMBERSHIP,
    NODE_ROWS,
    NODES,
    NONE,
    PRIVATE_MODELS,
    PROPERTY,
    RECORD_EPSILONS,
    ROWS,
    SUMS,
    UPDATE_EPSILONS,
)

PICTURED: Mapping[str, Where] = {
    "bare": {**ROWS, "updates": 1},
    "sum of 3": {**ROWS, "updates": 3},
    "sum of 100": {**ROWS, "updates": 100},
    "trained": {**NODES, "updates": 1, "rows": 100},
    "ε 10,000": {**INVERSION, **LDP, "epsilon": 10000},
    "ε 100": {**INVERSION, **LDP, "epsilon": 100},
    "own": OWN,
}
"""The arms whose pictures are drawn, by their captions."""
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

# -- pictures ----------------------------------------------------------------------------------------------


class Pictures:
    """A column for the truth and for each arm, a row for each of the first seeds."""

    def chart(self, sweep: Sweep) -> Chart:
        """See study.plots.Plot."""
        found = {words: sweep.first(where) for words, where in PICTURED.items()}
        shown = [(words, arm, FOUND) for words, arm in found.items() if arm is not None]
        columns = [("true", shown[0][1], TRUTH), *shown] if shown else []
        rows = range(min(PICTURED_SEEDS, len(sweep.seeds)))
        traces = [
            _picture(sweep.outcomes[arm][row].series[name], 1 + row * len(columns) + column, words)
            for row in rows
            for column, (words, arm, name) in enumerate(columns)
        ]
        caption = (
            "One row for each of the first seeds. Bare: an update of one step on one image. Sum of 3, of "
            "100: a secure sum of as many such updates. Trained: two epochs on 100 images, as nodes train. "
            "ε: the bare update, clipped and noised. The attacker knows the labels; of all that it found the "
            "picture most like the true one is shown."
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


def _rows_of(sweep: Sweep, arm: str) -> float:
    """The rows that a sum is made of."""
    return sweep.factor(arm, "updates") * sweep.factor(arm, "rows")


BY_ROWS = Lines(
    "",
    key="inversion",
    title="Gradient inversion, by rows in the sum",
    caption="How like the true image what is found is: 1 is the same up to brightness. The guess is what as "
    "many other images of the same digit reach without any update. From "
    f"{RECOVERED:g} on a row counts as recovered. {BARS}",
    curves=(
        Curve("updates of one step on one row", ROWS, x=_rows_of),
        Curve("one update, trained as nodes do", {**NODES, "updates": 1}, x=_rows_of),
        Curve("the first layer's quotient only", ROWS, "quotient", _rows_of),
        Curve("a guess", {**INVERSION, **NONE}, "guess", _rows_of, dash="dot", ink=7),
    ),
    x_title="rows that the sum is made of",
    y=SIMILARITY,
    scale="marked",
    ticks=sorted({*SUMS, *NODE_ROWS[2:]}),
)
BY_MEMBERS = Lines(
    "updates",
    key="property",
    title="Property inference, by members",
    caption="Are most of this client's rows women's? AUC of the attack for one member of a sum; 0.5 is "
    f"chance. The dotted line knows exactly how many members have the property, and not which. {BARS}",
    curves=(
        Curve("attack", CLIENTS),
        Curve(
            "one who counts the members that have it",
            CLIENTS,
            "counting auc",
            dash="dot",
            ink=7,
        ),
    ),
    x_title="members of the sum",
    y=AUC,
    scale="marked",
    ticks=MEMBERS,
)
OVER_NOISE = Lines(
    "epsilon",
    key="noise",
    title="What noise on an update prevents",
    caption="One update, clipped and noised before it leaves; epsilon is for the node's whole data set and "
    f"this one update. {BARS}",
    curves=(
        Curve("inversion: similarity", {**INVERSION, **LDP}),
        Curve("property: AUC", {**PROPERTY, **LDP}),
    ),
    x_title="epsilon of the update",
    y={"title": {"text": "similarity, AUC"}},
    scale="marked",
    ticks=UPDATE_EPSILONS,
)


NOISES = ("no noise", *(f"ε = {epsilon}" for epsilon in RECORD_EPSILONS[::-1]))
"""From the least noise to the most."""


def _noise(factors: Factors) -> str:
    return f"ε = {factors['epsilon']:g}" if "epsilon" in factors else NOISES[0]


MEMBERS_SHOWN = Bars(
    key="membership",
    title="Membership inference",
    caption="Was this image among the 150 that the model is trained on? AUC of each attack, from 0.5, which "
    f"is chance; epsilon is for one record over the training. {BARS}",
    curves=tuple(
        Curve(name, MEMBERSHIP, f"{attack} auc", style={"error_y": {"color": "var(--ink)"}})
        for attack, name in ATTACK_NAMES.items()
    ),
    label=_noise,
    base=CHANCE,
    y={**AUC, "range": [0.45, 0.75]},
    look={"xaxis": {"type": "category", "categoryorder": "array", "categoryarray": NOISES}},
)
charts = specified(Pictures(), BY_ROWS, BY_MEMBERS, OVER_NOISE, MEMBERS_SHOWN)

# -- tables ------------------------------------------------------------------------------------------------


def _with_error(sweep: Sweep, arm: str) -> str:
    return f"{mean(form='.2f')(sweep, arm)} ± {error(form='.2f')(sweep, arm)}"


def _rows(title: str, fact: str, columns: Mapping[str, Cells]) -> ArmTable:
    """The arms that have a fact, which all arms of an attack have, that of one's own too; and epsilon."""
    return ArmTable(
        title,
        {**columns, "epsilon": number("epsilon")},
        only=lambda sweep, arm: sweep.fact(arm, fact) is not None,
    )


def _means(facts: Mapping[str, str]) -> Mapping[str, Cells]:
    return {heading: mean(fact, ".2f") for heading, fact in facts.items()}


tables = tabled(
    _rows(
        "Gradient inversion: similarity with the true row",
        "quotient",
        {
            **_means({"quotient": "quotient", "search": "search"}),
            "best": _with_error,
            **_means({"guess": "guess", "recovered": "recovered"}),
        },
    ),
    _rows(
        "Property inference: mostly women",
        "counting auc",
        {"AUC": _with_error, **_means({"accuracy": "accuracy", "AUC by counting": "counting auc"})},
    ),
    _rows(
        "Membership inference: AUC of each attack; the ratio's TPR at an FPR of .05; the model's accuracy",
        "ratio auc",
        _means(
            {
                **{attack: f"{attack} auc" for attack in ATTACKS},
                "TPR": "ratio tpr",
                "advantage": "ratio advantage",
                "accuracy": "accuracy",
            }
        ),
    ),
    protection_rows({"none": NONE, "ldp": LDP, "dp-sgd": PRIVATE_MODELS, "own": OWN}),
)
