"""The plots and tables of scenario `aldp`: accuracies first, then errors of shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scenarios.frame.spec import Json
from scenarios.study.arms import OWN, Where, level_text
from scenarios.study.charts import ACCURACY, colour
from scenarios.study.plots import PROVED, Curve, Level, Lines, Rounds, specified
from scenarios.study.sweep import Sweep
from scenarios.study.tables import ArmTable, arms_rows, factor, mean, protection_rows, tabled, words
from scenarios.systems.aldp.arms import CAP, DP_SGD, EXACT, FIXED, FLOATS, LINEAR, NONE, RADII, SHARE_RANGE

STATED_ERROR = 10e-8
"""The error of a sum of shares over maxShareValue that the source states."""
RADIUS_NAMES = {
    "raw": "mean of one's last norms (as the source has it)",
    "aggregate": "from the last aggregates",
    "quantile": "noised quantile",
    "fixed": "fixed",
}
KINDS: Mapping[str, Where] = {
    "aldp, exact": EXACT,
    "aldp, linear-classic": LINEAR,
    "ldp": FIXED,
    "aldp, radius from aggregates": {"radius": "aggregate"},
    "dp-sgd": DP_SGD,
    "none": NONE,
    "own": OWN,
}


def _log(title: str) -> Json:
    return {"title": {"text": title}, "type": "log", "exponentformat": "power"}


# -- plots -------------------------------------------------------------------------------------------------

OVER_EPSILON = Lines(
    "epsilon",
    key="epsilon",
    title="Accuracy over epsilon",
    caption="Test accuracy after the last round; bars are 95 % confidence intervals over the seeds. For aldp "
    "an epsilon is about a peer's whole data set, for dp-sgd about one row of it: the same number means "
    "another thing. linear-classic is the source's own calibration, faults included.",
    curves=(
        Curve("aldp, exact", EXACT, x=PROVED, ink=0),
        Curve("linear-classic, by its proved epsilon", LINEAR, x=PROVED, ink=1),
        Curve("linear-classic, by the epsilon it states", LINEAR, dash="dot", ink=1),
        Curve("dp-sgd, for one record", DP_SGD, x=PROVED, dash="dashdot", ink=2),
    ),
    levels=(Level("no noise", NONE),),
    x_title="epsilon, over all rounds",
    y=ACCURACY,
    scale="log",
)
STATED_AND_PROVED = Lines(
    "epsilon",
    key="spent",
    title="What is spent, and what is stated",
    caption="The epsilon that an accountant proves over the one asked for. Below the line of exact noise "
    "more noise is added than needed; above it the statement is not proved.",
    fact="epsilon",
    curves=(Curve("exact", EXACT), Curve("linear-classic", LINEAR)),
    x_title="epsilon stated",
    y=_log("epsilon proved"),
    scale="log",
)


def _caps_caption(sweep: Sweep) -> str:
    (epsilon, *_) = (line.others["epsilon"] for line in sweep.lines(CAP, {"radius": RADII}))
    return (
        f"Test accuracy at epsilon {level_text(epsilon)} over the largest radius allowed. A radius that "
        "follows one's own norms needs no good guess, but it is taken before noise and the noise level shows "
        "it: epsilon does not cover that. The other three leak nothing."
    )


OVER_CAPS = Lines(
    CAP,
    key="radius",
    title="The clipping radius",
    caption=_caps_caption,
    curves=(Curve(lambda rule: RADIUS_NAMES[str(rule["radius"])], {"radius": RADII}),),
    x_title="largest clipping radius",
    y=ACCURACY,
    scale="log",
)
OVER_PEERS = Lines(
    "peers",
    key="peers",
    title="The number of peers",
    caption="Test accuracy when the same rows are dealt to more peers. Noise averages out among many; the "
    "rows of each become few.",
    curves=(Curve("aldp at epsilon {epsilon:g}".format_map, EXACT), Curve("no noise", NONE)),
    y=ACCURACY,
    scale="linear",
)
SHARE_ERRORS = Lines(
    SHARE_RANGE,
    key="shares",
    title="The error of shares",
    caption="Not an accuracy: how far a coordinate of the mean that nodes decode is from the true mean, on "
    "updates that peers have trained. Each share is drawn within the range on the x axis.",
    curves=(
        Curve("float shares, median error", FLOATS),
        Curve("float shares, largest error", FLOATS, "largest_error"),
    ),
    levels=(
        Level(
            "as the source states", lambda value: value * STATED_ERROR, style={"line": {"color": colour(2)}}
        ),
        Level("in fixed point, median error", {"shares": "ring"}),
    ),
    x_title="maxShareValue",
    y=_log("error of a coordinate"),
    scale="log",
)
BY_ROUND = Rounds(
    key="curves",
    title="Round by round",
    caption="Test accuracy, the mean over the seeds.",
    curves=(
        Curve("no noise", NONE),
        *(Curve(f"aldp, epsilon {epsilon}", {**EXACT, "epsilon": epsilon}) for epsilon in (3000, 300, 20)),
        Curve("dp-sgd, epsilon 20", {**DP_SGD, "epsilon": 20}),
    ),
    y=ACCURACY,
)
charts = specified(OVER_EPSILON, STATED_AND_PROVED, OVER_CAPS, OVER_PEERS, SHARE_ERRORS, BY_ROUND)

# -- tables ------------------------------------------------------------------------------------------------


def _stated_error(sweep: Sweep, arm: str) -> str:
    error = sweep.factor(arm, SHARE_RANGE) * STATED_ERROR
    return f"{error:.0e}" if error == error else "-"


tables = tabled(
    replace(arms_rows(), only=lambda sweep, arm: "shares" not in sweep.factors[arm]),
    ArmTable(
        "Errors of shares (not accuracies)",
        {
            "shares": factor("shares"),
            "maxShareValue": factor(SHARE_RANGE, "-"),
            "median error": mean(form=".1e"),
            "largest error": mean("largest_error", ".1e"),
            "as stated": _stated_error,
        },
        only=lambda sweep, arm: "shares" in sweep.factors[arm],
    ),
    protection_rows(KINDS),
    ArmTable(
        "What epsilon does not cover",
        {"what it does not cover": words("outside", "nothing that leaves a node")},
        only=lambda sweep, arm: bool(sweep.fact(arm, "unit")),
        names=KINDS,
        heading="mechanism",
    ),
)
