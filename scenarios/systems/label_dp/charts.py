"""The plots and tables of scenario `label-dp`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.charts import (
    BARS,
    PERCENT,
    amount,
    axes,
    colour,
    drawn,
    level,
    marked,
    protection_table,
    series,
)
from scenarios.study.sweep import FINAL, Sweep
from scenarios.systems.label_dp.arms import (
    CLEAN,
    SIGNS,
    entropy_of_flips,
    keeping,
    noisy_signs,
    once,
    once_arm,
    redrawn,
    redrawn_arm,
    signs_arm,
)
from scenarios.vertical.cell import LOSS, READ, TRUE_LOSS
from scenarios.vertical.choices import DELTA

AUC: Json = {"title": {"text": "test AUC"}, "tickformat": "~f"}
CHANCE = 0.5
MARKS = (0.5, 1, 2, 5, 10, 20, 50)
ONCE, AFRESH = "drawn once", "drawn afresh"
RELEASES = "Loss on true labels and AUC are computed from labels that no epsilon here covers."


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """The charts that have figures, the most informative first."""
    return drawn(
        over_stated(sweep),
        over_proved(sweep),
        reading(sweep),
        losses(sweep),
        curves(sweep),
        over_sign_noise(sweep),
    )


def over_stated(sweep: Sweep) -> Chart:
    """AUC over the epsilon of one draw, a line for each way to draw flips."""
    lines = _both(sweep, once(sweep), redrawn(sweep))
    return Chart(
        "stated",
        "AUC over the stated epsilon",
        f"Epsilon of one draw of one label. Drawn afresh, each label is drawn once an epoch. {BARS}",
        (*lines, *_levels(sweep, lines)),
        axes("stated epsilon", AUC),
    )


def over_proved(sweep: Sweep) -> Chart:
    """The same arms over the epsilon of all draws together; this axis cannot show epsilon 0."""
    drawn_once, afresh = (
        {arm: sweep.number(arm, "epsilon") for arm, own in arms.items() if own > 0}
        for arms in (once(sweep), redrawn(sweep))
    )
    lines = _both(sweep, drawn_once, afresh)
    return Chart(
        "true",
        "AUC over the proved epsilon",
        f"Pure epsilon of one label over the whole run, for replacing it. {BARS}",
        (*lines, *_levels(sweep, lines)),
        marked("epsilon proved for one label", MARKS, AUC),
    )


def reading(sweep: Sweep) -> Chart:
    """The accuracy of the follower's guesses from gradients."""
    lines = _both(sweep, once(sweep), redrawn(sweep), READ)
    places = sorted({place for line in lines for place in line["x"]})
    allowed = {
        "type": "scatter",
        "mode": "lines",
        "name": "e^ε / (1 + e^ε): allowed by the stated ε",
        "x": [place / 10 for place in range(int(10 * max(places)) + 1)] if places else [],
        "y": [keeping(place / 10) for place in range(int(10 * max(places)) + 1)] if places else [],
        "line": {"color": "var(--faint)", "width": 2, "dash": "dash"},
    }
    return Chart(
        "reading",
        "Labels that the follower reads from gradients",
        "Balanced accuracy over the training rows of a follower that does nothing but look at the signs of "
        f"the gradients it is sent, added up over the epochs. Without label privacy it is 100 %. {BARS}",
        (*lines, allowed) if lines else (),
        axes("stated epsilon", {"title": {"text": "labels read"}, "tickformat": PERCENT}),
    )


@dataclass(frozen=True)
class _Line:
    """A curve by epoch: its arm and series, its name, its colour and dash."""

    arm: str
    series: str
    name: str
    position: int
    dash: str = "solid"

    def drawn(self, sweep: Sweep) -> Json:
        """The trace in the format of the plotting library."""
        values = sweep.curve(self.arm, self.series)
        return {
            "type": "scatter",
            "mode": "lines+markers",
            "name": self.name,
            "x": list(range(1, len(values) + 1)),
            "y": list(values),
            "line": {"color": colour(self.position), "width": 2.5, "dash": self.dash},
            "marker": {"color": colour(self.position), "size": 5},
        }


def losses(sweep: Sweep) -> Chart:
    """The loss on true labels, which the original's log shows, and the loss on flipped labels."""
    lines = [_Line(CLEAN, TRUE_LOSS, "no noise", 0)]
    for position, (arm, name) in enumerate(((redrawn_arm(1), AFRESH), (once_arm(1), ONCE)), start=1):
        lines.append(_Line(arm, TRUE_LOSS, f"ε 1 {name}, on true labels", position))
        lines.append(_Line(arm, LOSS, f"ε 1 {name}, on the flipped ones", position, "dot"))
    traces = [line.drawn(sweep) for line in lines if sweep.has(line.arm)]
    least = [level("entropy of a flip at ε 1", entropy_of_flips(1.0), _span(traces))] if traces else []
    return Chart(
        "losses",
        "Training loss by epoch",
        "Mean over an epoch's steps, each before its step, and over the seeds. The original's log shows the "
        "loss on true labels: on labels flipped afresh none can be expected below the dashed line. To show "
        "a loss on true labels is a release of its own.",
        (*traces, *least),
        axes("epoch", {"title": {"text": "cross entropy"}}),
    )


def curves(sweep: Sweep) -> Chart:
    """AUC by epoch for some arms."""
    named = {
        CLEAN: "no noise",
        **{once_arm(epsilon): f"ε {epsilon:g} {ONCE}" for epsilon in (0, 1, 5)},
        redrawn_arm(1): f"ε 1 {AFRESH}",
        SIGNS: "signs without noise",
    }
    lines = [
        _Line(arm, FINAL, name, position).drawn(sweep)
        for position, (arm, name) in enumerate(named.items())
        if sweep.has(arm)
    ]
    return Chart(
        "curves",
        "AUC by epoch",
        "Mean over the seeds; .5 is chance. In the first epochs the network learns the share of clicks, and "
        f"ranks no better than chance. {RELEASES}",
        tuple(lines),
        axes("epoch", AUC),
    )


def over_sign_noise(sweep: Sweep) -> Chart:
    """AUC of the arms with noisy signs of the follower's outputs."""
    points = noisy_signs(sweep)
    if not points:
        return Chart("signs", "", "", (), {})
    span = [min(points.values()), max(points.values())]
    named = {CLEAN: "outputs as they are", SIGNS: "signs without noise"}
    levels = [level(name, sweep.mean(arm), span) for arm, name in named.items() if sweep.has(arm)]
    return Chart(
        "signs",
        "AUC with noisy signs of the follower's outputs",
        "Epsilon of one release of an example's two signs; each epoch is another release. At 0 the signs "
        f"are coin flips, and the leader learns alone. {BARS}",
        (series(sweep, "noisy signs", points, 2), *levels),
        axes("epsilon of one release", AUC),
    )


def _both(
    sweep: Sweep, drawn_once: Mapping[str, float], afresh: Mapping[str, float], fact: str = FINAL
) -> list[Json]:
    named = ((ONCE, drawn_once), (AFRESH, afresh))
    return [
        series(sweep, name, points, position, fact=fact)
        for position, (name, points) in enumerate(named)
        if points
    ]


def _levels(sweep: Sweep, lines: list[Json]) -> list[Json]:
    """Levels without noise and of guessing."""
    if not lines:
        return []
    clean = [level("no noise", sweep.mean(CLEAN), _span(lines))] if sweep.has(CLEAN) else []
    return [*clean, level("chance", CHANCE, _span(lines))]


def _span(lines: list[Json]) -> list[float]:
    places = [place for line in lines for place in line["x"]]
    return [min(places), max(places)]


# -- tables ------------------------------------------------------------------------------------------------


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """Tables of every arm's figures, its cost, and its protection."""
    return (figures_table(sweep), privacy_table(sweep), _protection(sweep))


def figures_table(sweep: Sweep) -> Table:
    """The figures of each arm, with the share of the most frequent label."""
    headings = ("arm", "AUC", "± SE", "log loss", "accuracy", "balanced", "loss, true", "loss, trained on")
    names = ("log loss", "accuracy", "balanced accuracy", f"last {TRUE_LOSS}", f"last {LOSS}")
    rows = tuple(
        (
            arm,
            f"{sweep.mean(arm):.3f}",
            f"{sweep.standard_error(arm):.3f}",
            *(f"{sweep.mean(arm, name):.3f}" for name in names),
        )
        for arm in sweep.outcomes
    )
    first = next(iter(sweep.outcomes))
    rate, judged = sweep.number(first, "majority rate"), sweep.number(first, "judged rows")
    return Table(f"Figures on {judged:g} rows, {rate:.1%} of them not clicked", headings, rows)


def privacy_table(sweep: Sweep) -> Table:
    """The stated and the proved epsilon of each arm, and the follower's guesses."""
    accountant = f"epsilon at delta {DELTA:g}"
    headings = ("arm", "stated", "draws", "epsilon proved", accountant, "labels read")
    names = ("stated", "draws of a label", "epsilon", accountant)
    rows = tuple(
        (
            arm,
            *(amount(sweep.fact(arm, name)) for name in names),
            f"{sweep.mean(arm, READ):.1%}",
        )
        for arm in sweep.outcomes
    )
    return Table(
        "Privacy: of one label where labels are flipped, of one example's signs else", headings, rows
    )


def _protection(sweep: Sweep) -> Table:
    kinds = {
        once_arm(1): "labels flipped once",
        redrawn_arm(1): "labels flipped afresh",
        signs_arm(1): "noisy signs",
        CLEAN: "none",
        "own": "own",
    }
    return protection_table(sweep, kinds)
