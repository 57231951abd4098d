"""The plots and tables of scenario `rpfl`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from scenarios.federated.measures import AUC, BALANCED, MAJORITY
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.frame.spec import Chart, Json
from scenarios.study.arms import Factors, Where
from scenarios.study.charts import ACCURACY, BARS, PERCENT, colour
from scenarios.study.plots import Bars, Curve, Level, Lines, at_fact, specified
from scenarios.study.sweep import FINAL, Sweep
from scenarios.study.tables import (
    ArmTable,
    Cells,
    Grid,
    arms_rows,
    mean,
    number,
    protection_rows,
    share,
    tabled,
    words,
)
from scenarios.swarms.lying import MEMBERS as SMALLEST_SUM
from scenarios.swarms.lying import OWN, ROLLED_BACK
from scenarios.systems.rpfl import lying
from scenarios.systems.rpfl.arms import (
    AT_REST,
    ATTACKS,
    DEFENCES,
    DOOR,
    FEW,
    FORGED,
    FORGED_SHARE,
    MEMBER_METHODS,
    MOST,
    POISONS,
    SHARES,
    Defence,
    words_of,
)
from scenarios.systems.rpfl.claims import MEMBERSHIPS
from scenarios.systems.rpfl.theorems import LEAST_STD

DOCUMENT: Mapping[str, tuple[str, str]] = {
    "plain averaging": ("82 %", "86 %"),
    "CDP, epsilon 8": ("64 %", "73 %"),
    "LDP on rows, epsilon 1": ("46 %", "58 %"),
    "RPFL, literal": ("48 %", "80 %"),
}
"""Table I: attack and classification accuracy. It does not state its epsilons."""
TALL_PX = 480
"""The height of plots with long names under their bars."""
SHARE_OF_SUCCESS: Json = {"title": {"text": "backdoor success"}, "tickformat": PERCENT, "range": [0, 1.02]}


# -- lines -------------------------------------------------------------------------------------------------


def _dash(defence: Defence) -> str:
    """Dotted: no defence against liars; solid: robust aggregators; dashed: RPFL."""
    if defence.factors["defence"] in ("fedavg", "ldp", "cdp"):
        return "dot"
    return "dash" if "weight" in defence.factors else "solid"


def _ink(defence: Defence) -> int:
    """The position of a colour: twelve lines share seven, and those that share one differ in their dashes."""
    return DEFENCES.index(defence) % 7


def _over_shares(attack: str) -> tuple[Curve, ...]:
    """A line for each defence: without attackers, then with more and more of them."""
    where: Where = {"setting": "adult", "attack": ("clean", attack)}
    return tuple(
        Curve(one.words, {**where, **one.factors}, x="share", dash=_dash(one), ink=_ink(one))
        for one in DEFENCES
    )


OVER_SHARES = "share of attackers"
BACKDOORS = Lines(
    "",
    key="backdoor",
    title="How often a backdoor works",
    caption="Adult, logistic regression: test rows of class 0 that bear the attackers' trigger and are taken "
    "for class 1. Dotted: no defence against liars; solid: robust aggregators, which see every update; "
    f"dashed: RPFL. {BARS}",
    fact=SUCCESS,
    curves=_over_shares("backdoor"),
    x_title=OVER_SHARES,
    y=SHARE_OF_SUCCESS,
    scale="linear",
)


def _accuracies(attack: str, key: str, title: str) -> Lines:
    return Lines(
        "",
        key=key,
        title=title,
        caption="Adult, the mean of the two classes' accuracies: three quarters of the rows are of class 0, "
        f"and always saying so is 76 % accurate, and 50 % balanced. {BARS}",
        fact=BALANCED,
        curves=_over_shares(attack),
        levels=(Level("guessing", 0.5),),
        x_title=OVER_SHARES,
        y={"title": {"text": "balanced accuracy"}, "tickformat": PERCENT},
        scale="linear",
        look={"height": TALL_PX},
    )


def trade(sweep: Sweep) -> Chart:
    """The accuracy of a defence without attackers, against the success of attacks."""
    symbols = {"dot": "circle", "solid": "square", "dash": "diamond"}
    points: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": one.words,
            "x": [sweep.mean(arms[0])],
            "y": [sweep.mean(arms[1], SUCCESS)],
            "marker": {"color": colour(_ink(one)), "size": 12, "symbol": symbols[_dash(one)]},
        }
        for one in DEFENCES
        if (arms := sweep.firsts({**AT_REST, **one.factors}, {**DOOR, **one.factors}))
    ]
    x = {"title": {"text": "test accuracy when nobody attacks"}, "tickformat": PERCENT}
    return Chart(
        "trade",
        "What a defence prevents, and what it costs",
        "Adult; squares: robust aggregators, diamonds: RPFL. Up: backdoor success with "
        f"{MOST:.0%} attackers, less is better. Right: accuracy without any.",
        tuple(points),
        {"xaxis": x, "yaxis": {**SHARE_OF_SUCCESS, "range": [-0.05, 1.08]}, "height": TALL_PX},
    )


def _noised(name: str, attack: str, fact: str = FINAL) -> Curve:
    """A line if it has two points; its name is a function for that reason."""
    where: Where = {"setting": "adult", "attack": attack, "defence": "ldp"}
    most: Where = {} if attack == "clean" else {"share": MOST}
    return Curve(name.format_map, {**where, **most}, fact, x=at_fact(LEAST_STD))


ROBUSTNESS = Lines(
    "epsilon",
    key="robustness",
    title="Noise on rows, and what it does to robustness",
    caption=f"Adult, {MOST:.0%} attackers, rows of norm 1 with Gaussian noise, drawn once. The document: "
    "robustness first rises with the noise and then falls. Where the model always says no, its accuracy "
    f"is 76 %, its balanced accuracy 50 %, and no backdoor succeeds. {BARS}",
    curves=(
        _noised(f"accuracy, {ATTACKS['clean']}", "clean"),
        _noised(f"accuracy, {ATTACKS['backdoor']}", "backdoor"),
        _noised(f"accuracy, {ATTACKS['flip']}", "flip"),
        _noised(f"balanced accuracy, {ATTACKS['flip']}", "flip", BALANCED),
        _noised("backdoor success", "backdoor", SUCCESS),
    ),
    x_title="noise std of each coordinate of a row",
    y={"tickformat": PERCENT},
    scale="log",
)


# -- bars --------------------------------------------------------------------------------------------------


def _bars(
    key: str,
    title: str,
    caption: str,
    label: Callable[[Factors], str],
    curves: Sequence[tuple[str, Where, str]],
    y: Json = ACCURACY,
    levels: tuple[Level, ...] = (),
) -> Bars:
    """Bars with thin intervals; `curves`: name, selection and fact of each."""
    thin: Json = {"error_y": {"thickness": 1.2}}
    made = tuple(Curve(name, where, fact, style=thin) for name, where, fact in curves)
    look: Json = {"height": TALL_PX}
    return Bars(
        key=key,
        title=title,
        caption=f"{caption} {BARS}",
        curves=made,
        levels=levels,
        label=label,
        y=y,
        look=look,
    )


FORGERIES = _bars(
    "forged",
    "Accuracy where updates are forged",
    f"Adult, {FORGED_SHARE:.0%} of the clients send something else than what they trained: beyond the threat "
    "model of the document.",
    partial(words_of, DEFENCES),
    [(ATTACKS[attack], {"setting": "adult", "attack": attack}, "") for attack in FORGED],
)
LOANS = _bars(
    "loans",
    "Loans: how well bad ones are told",
    "AUC of a perceptron; 0.5 is guessing. Accuracy says nothing here: all arms that learn at all have the "
    "majority rate.",
    partial(words_of, DEFENCES),
    [
        (f"{divided}, {ATTACKS[attack]}", {"setting": setting, "attack": attack}, AUC)
        for setting, divided in (("loan-iid", "at random"), ("loan-states", "by state"))
        for attack in ("clean", "flip")
    ],
    {"title": {"text": "AUC"}, "range": [0.3, 0.75]},
)
SWARMS = _bars(
    "swarms",
    "Lying peers in a swarm without a server",
    "Digits, 15 peers: accuracy of the agreed model after the last round. Nobody sees a single update, only "
    "a sum: of all peers, or of groups of three.",
    lambda factors: lying.LIES[str(factors["lie"])][1],
    [(words, {**lying.SWARM, "defence": by}, "") for by, (*_, words) in lying.DEFENCES.items()],
)
MEMBER_ACCURACIES = _bars(
    "members",
    "Table I again: who was in the training rows, and what was learned",
    "200 loans, learned by heart: the share of members and others that an attack tells right, of as many of "
    "each, and the test accuracy. Always saying `paid` has the majority rate.",
    partial(words_of, MEMBER_METHODS),
    [
        ("membership, by loss", FEW, MEMBERSHIPS[0]),
        ("membership, by shadow models", FEW, MEMBERSHIPS[1]),
        ("classification", FEW, FINAL),
    ],
    {"title": {"text": "share told right"}, "tickformat": PERCENT, "range": [0, 1]},
    (Level("chance, for membership", 0.5), Level("majority rate", FEW, MAJORITY)),
)
charts = specified(
    BACKDOORS,
    trade,
    MEMBER_ACCURACIES,
    _accuracies("backdoor", "backdoor-accuracy", "Accuracy under a backdoor"),
    _accuracies("flip", "flip-accuracy", "Accuracy under flipped labels"),
    ROBUSTNESS,
    FORGERIES,
    LOANS,
    SWARMS,
)


# -- tables ------------------------------------------------------------------------------------------------


def _on_adult(title: str, columns: Mapping[str, Where], cells: Cells) -> Grid:
    rows: Mapping[str, Where] = {one.words: {"setting": "adult", **one.factors} for one in DEFENCES}
    return Grid(title, "defence", rows, columns, cells)


def _on_loans() -> Grid:
    """AUC and backdoor success too, as accuracy equals the majority rate nearly everywhere."""
    shown: Mapping[str, tuple[str, str]] = {
        "accuracy": ("clean", FINAL),
        "balanced": ("clean", BALANCED),
        "AUC": ("clean", AUC),
        "AUC, flip 40 %": ("flip", AUC),
        "backdoor 40 %": ("backdoor", SUCCESS),
    }
    columns: dict[str, Where] = {}
    cells: dict[str, Cells] = {}
    for setting, divided in (("loan-iid", "random"), ("loan-states", "states")):
        for heading, (attack, fact) in shown.items():
            columns[f"{divided}: {heading}"] = {"setting": setting, "attack": attack}
            cells[f"{divided}: {heading}"] = share(fact)
    rows = {one.words: one.factors for one in DEFENCES}
    return Grid("Loans, at random and by state", "defence", rows, columns, cells)


def _document(place: int) -> Cells:
    """The document's figure for the method of an arm."""
    return lambda sweep, arm: DOCUMENT.get(words_of(MEMBER_METHODS, sweep.factors[arm]), ("", ""))[place]


tables = tabled(
    _on_adult(
        "Adult: backdoor success, by attackers",
        {
            "0%": {"attack": "clean"},
            **{f"{part:.0%}": {"attack": "backdoor", "share": part} for part in SHARES},
        },
        share(SUCCESS),
    ),
    _on_adult(
        "Adult: accuracy, by attack (majority rate 76 %)",
        {
            "no attack": {"attack": "clean"},
            **{f"{ATTACKS[one]}, {MOST:.0%}": {"attack": one, "share": MOST} for one in POISONS},
            **{f"{ATTACKS[one]}, {FORGED_SHARE:.0%}": {"attack": one} for one in FORGED},
        },
        share(),
    ),
    _on_loans(),
    ArmTable(
        "Lying peers in a swarm: digits, 15 peers",
        {
            "agreed model": share(),
            "honest peers go on from": share(OWN),
            "rounds refused": mean(ROLLED_BACK, ".1f"),
            "members in the least sum": mean(SMALLEST_SUM, ".0f"),
        },
        names={
            f"{told}: {by}": {**lying.SWARM, "defence": defence, "lie": lie}
            for lie, (_, told) in lying.LIES.items()
            for defence, (*_, by) in lying.DEFENCES.items()
        },
        heading="peers",
    ),
    ArmTable(
        "Table I: membership attack and classification, loans",
        {
            "document: attack": _document(0),
            "document: accuracy": _document(1),
            "attack, by loss": share(MEMBERSHIPS[0]),
            "attack, by shadows": share(MEMBERSHIPS[1]),
            "accuracy": share(),
            "balanced": share(BALANCED),
            "AUC": share(AUC),
            "majority rate": share(MAJORITY),
            "epsilon stated": number("stated"),
            "epsilon proved": number("epsilon"),
            "for": words("unit", "nobody"),
        },
        names={one.words: {**FEW, **one.factors} for one in MEMBER_METHODS},
        heading="method",
    ),
    protection_rows({one.words: {**AT_REST, **one.factors} for one in DEFENCES}),
    arms_rows(),
)
