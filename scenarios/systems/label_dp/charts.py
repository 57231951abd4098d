"""The plots and tables of scenario `label-dp`."""

from __future__ import annotations

from scenarios.frame.spec import Json
from scenarios.study.arms import OWN, Where
from scenarios.study.charts import BARS, PERCENT
from scenarios.study.plots import PROVED, Curve, Level, Lines, Rounds, specified
from scenarios.study.sweep import Sweep
from scenarios.study.tables import ArmTable, error, mean, number, protection_rows, tabled
from scenarios.systems.label_dp.arms import (
    AFRESH,
    EPSILONS,
    NOISY_SIGNS,
    NONE,
    ONCE,
    SIGNS,
    entropy_of_flips,
    keeping,
)
from scenarios.vertical.cell import LOSS, READ, TRUE_LOSS
from scenarios.vertical.choices import DELTA

AUC: Json = {"title": {"text": "test AUC"}, "tickformat": "~f"}
CHANCE = 0.5
AT_ONE: Where = {"epsilon": 1}
MARKED: Json = {"mode": "lines+markers", "marker": {"size": 5}}
CAN_BE_PROVED: Where = {"epsilon": EPSILONS[1:]}
"""A logarithmic axis cannot show epsilon 0."""
ACCOUNTANT = f"epsilon at delta {DELTA:g}"

# -- plots -------------------------------------------------------------------------------------------------

OVER_STATED = Lines(
    "epsilon",
    key="stated",
    title="AUC over the stated epsilon",
    caption=f"Epsilon of one draw of one label. Drawn afresh, each label is drawn once an epoch. {BARS}",
    curves=(Curve("drawn once", ONCE), Curve("drawn afresh", AFRESH)),
    levels=(Level("no noise", NONE), Level("chance", CHANCE)),
    x_title="stated epsilon",
    y=AUC,
    scale="linear",
)
OVER_PROVED = Lines(
    "epsilon",
    key="true",
    title="AUC over the proved epsilon",
    caption=f"Pure epsilon of one label over the whole run, for replacing it. {BARS}",
    curves=(
        Curve("drawn once", {**ONCE, **CAN_BE_PROVED}, x=PROVED),
        Curve("drawn afresh", {**AFRESH, **CAN_BE_PROVED}, x=PROVED),
    ),
    levels=OVER_STATED.levels,
    x_title="epsilon proved for one label",
    y=AUC,
    scale="marked",
    ticks=(0.5, 1, 2, 5, 10, 20, 50),
)
READINGS = Lines(
    "epsilon",
    key="reading",
    title="Labels that the follower reads from gradients",
    caption="Balanced accuracy over the training rows of a follower that does nothing but look at the signs "
    f"of the gradients it is sent, added up over the epochs. Without label privacy it is 100 %. {BARS}",
    fact=READ,
    curves=OVER_STATED.curves,
    levels=(
        Level(
            "e^ε / (1 + e^ε): allowed by the stated ε",
            keeping,
            at=[tenth / 10 for tenth in range(int(10 * EPSILONS[-1]) + 1)],
        ),
    ),
    x_title="stated epsilon",
    y={"title": {"text": "labels read"}, "tickformat": PERCENT},
    scale="linear",
)
LOSSES = Rounds(
    key="losses",
    title="Training loss by epoch",
    caption="Mean over an epoch's steps, each before its step, and over the seeds. The original's log shows "
    "the loss on true labels: on labels flipped afresh none can be expected below the dashed line. To show a "
    "loss on true labels is a release of its own.",
    curves=(
        Curve("no noise", NONE, TRUE_LOSS, ink=0, style=MARKED),
        *(
            Curve(
                f"ε 1 drawn {how}, on {labels}", {**flips, **AT_ONE}, loss, dash=dash, ink=ink, style=MARKED
            )
            for ink, (how, flips) in enumerate((("afresh", AFRESH), ("once", ONCE)), start=1)
            for loss, labels, dash in ((TRUE_LOSS, "true labels", "solid"), (LOSS, "the flipped ones", "dot"))
        ),
    ),
    levels=(Level("entropy of a flip at ε 1", entropy_of_flips(1.0)),),
    x_title="epoch",
    y={"title": {"text": "cross entropy"}},
)
BY_EPOCH = Rounds(
    key="curves",
    title="AUC by epoch",
    caption="Mean over the seeds; .5 is chance. In the first epochs the network learns the share of clicks, "
    "and ranks no better than chance. Loss on true labels and AUC are computed from labels that no epsilon "
    "here covers.",
    curves=(
        Curve("no noise", NONE, style=MARKED),
        *(
            Curve(f"ε {epsilon} drawn once", {**ONCE, "epsilon": epsilon}, style=MARKED)
            for epsilon in (0, 1, 5)
        ),
        Curve("ε 1 drawn afresh", {**AFRESH, **AT_ONE}, style=MARKED),
        Curve("signs without noise", SIGNS, style=MARKED),
    ),
    x_title="epoch",
    y=AUC,
)
OVER_SIGN_NOISE = Lines(
    "epsilon",
    key="signs",
    title="AUC with noisy signs of the follower's outputs",
    caption="Epsilon of one release of an example's two signs; each epoch is another release. At 0 the signs "
    f"are coin flips, and the leader learns alone. {BARS}",
    curves=(Curve("noisy signs", NOISY_SIGNS, ink=2),),
    levels=(Level("outputs as they are", NONE), Level("signs without noise", SIGNS)),
    x_title="epsilon of one release",
    y=AUC,
    scale="linear",
)
charts = specified(OVER_STATED, OVER_PROVED, READINGS, LOSSES, BY_EPOCH, OVER_SIGN_NOISE)

# -- tables ------------------------------------------------------------------------------------------------


def _judged_rows(sweep: Sweep) -> str:
    first = next(iter(sweep.outcomes))
    rate, judged = sweep.number(first, "majority rate"), sweep.number(first, "judged rows")
    return f"Figures on {judged:g} rows, {rate:.1%} of them not clicked"


tables = tabled(
    ArmTable(
        _judged_rows,
        {
            "AUC": mean(),
            "± SE": error(),
            "log loss": mean("log loss"),
            "accuracy": mean("accuracy"),
            "balanced": mean("balanced accuracy"),
            "loss, true": mean(f"last {TRUE_LOSS}"),
            "loss, trained on": mean(f"last {LOSS}"),
        },
    ),
    ArmTable(
        "Privacy: of one label where labels are flipped, of one example's signs else",
        {
            "stated": number("stated"),
            "draws": number("draws of a label"),
            "epsilon proved": number("epsilon"),
            ACCOUNTANT: number(ACCOUNTANT),
            "labels read": mean(READ, ".1%"),
        },
    ),
    protection_rows(
        {
            "labels flipped once": ONCE,
            "labels flipped afresh": AFRESH,
            "noisy signs": NOISY_SIGNS,
            "none": NONE,
            "own": OWN,
        }
    ),
)
