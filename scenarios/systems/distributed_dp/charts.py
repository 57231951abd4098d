"""The plots and tables of scenario `distributed-dp`: accuracy over epsilon by trust, and the cost."""

from __future__ import annotations

from scenarios.frame.spec import Json
from scenarios.study.charts import ACCURACY, BARS
from scenarios.study.plots import Curve, Level, Lines, Rounds, specified
from scenarios.study.tables import ArmTable, Grid, arms_rows, mean, number, protection_rows, share, tabled
from scenarios.swarms.dealt import AUC, FACTOR, GRADIENT_S, STEP_BYTES, STEP_S
from scenarios.systems.distributed_dp.arms import CENTRAL, EPSILONS, POOLED, SETTINGS, Setting

_NOT_RECORDS = "ldp protects a whole data set, the others one record: the same number is another promise."
_AUC_AXIS: Json = {"title": {"text": "AUC on the test rows"}}


def over_epsilon(of: Setting) -> Lines:
    """Accuracy over epsilon, a line for each kind of arms, and the level without privacy."""
    return Lines(
        "epsilon",
        key=f"epsilon-{of.name}",
        title=f"{of.title}: {'AUC' if of.data.measure == AUC else 'accuracy'} over epsilon",
        caption=f"To the right is less privacy. {_NOT_RECORDS} {BARS}",
        curves=tuple(
            Curve(name, {**of.where, **kind}, dash="dash" if kind == CENTRAL else "solid")
            for name, kind in of.kinds.items()
        ),
        levels=(Level("all rows, without privacy", {**of.where, **POOLED}),),
        x_title="epsilon stated, for the whole run",
        y=_axis(of),
        scale="marked",
    )


def by_round(of: Setting) -> Rounds:
    """Figures by round at epsilon 3."""
    return Rounds(
        key=f"rounds-{of.name}",
        title=f"{of.title}: by round, epsilon 3",
        caption="With shared noise a round is ten steps, and the average of the iterates is evaluated.",
        curves=tuple(Curve(name, {**of.where, **kind, "epsilon": 3}) for name, kind in of.kinds.items()),
        y=_axis(of),
    )


def _axis(of: Setting) -> Json:
    return _AUC_AXIS if of.data.measure == AUC else ACCURACY


charts = specified(*map(over_epsilon, SETTINGS), *map(by_round, SETTINGS))
tables = tabled(
    Grid(
        "By epsilon",
        "accuracy (adult: AUC)",
        rows={
            f"{of.name}, {name}": {**of.where, **kind} for of in SETTINGS for name, kind in of.kinds.items()
        },
        columns={f"epsilon {epsilon}": {"epsilon": epsilon} for epsilon in EPSILONS},
    ),
    ArmTable(
        "Without privacy",
        {"accuracy (adult: AUC)": share()},
        names={of.name: {**of.where, **POOLED} for of in SETTINGS},
        heading="all rows of",
    ),
    ArmTable(
        "Cost of a step",
        {
            "noise over a server's": number(FACTOR),
            "gradient, ms a peer": mean(GRADIENT_S, ".3g", 1e3),
            "step, s": mean(STEP_S, ".3g"),
            "sent, kB a peer and step": mean(STEP_BYTES, ".3g", 1e-3),
        },
        only=lambda sweep, arm: sweep.fact(arm, FACTOR) is not None,
    ),
    protection_rows({name: kind for of in SETTINGS for name, kind in of.kinds.items()}),
    arms_rows(),
)
