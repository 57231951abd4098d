"""The plots and tables of scenario `rpfl`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scenarios.federated.measures import AUC, BALANCED, MAJORITY
from scenarios.federated.measures import BACKDOOR as SUCCESS
from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.charts import (
    ACCURACY,
    BARS,
    PERCENT,
    accuracy_text,
    amount,
    arms_table,
    axes,
    colour,
    drawn,
    level,
    protection_table,
    series,
)
from scenarios.study.sweep import FINAL, Sweep
from scenarios.swarms.lying import MEMBERS as SMALLEST_SUM
from scenarios.swarms.lying import OWN, ROLLED_BACK
from scenarios.systems.rpfl import lying
from scenarios.systems.rpfl.arms import (
    ADULT,
    ATTACKS,
    BACKDOOR,
    CDP,
    CLEAN,
    DEFENCES,
    FEDAVG,
    FLIP,
    FORGED,
    FORGED_SHARE,
    GM,
    GM_RPFL,
    LDP,
    LOAN_IID,
    LOAN_STATES,
    MEMBER_METHODS,
    NORM,
    PRIVACY,
    REDRAWN,
    SHARES,
    TM,
    WEAK_DP,
    WEIGHTS,
    arm,
    over_shares,
    rpfl,
)
from scenarios.systems.rpfl.theorems import LEAST_STD, by_noise

MEMBERSHIP, CALIBRATED = "membership accuracy", "calibrated membership accuracy"
SWARM_DEFENCES: Mapping[str, str] = {
    lying.SUM: "one sum",
    lying.MEDIAN: "median of group sums",
    lying.GATE: "loss gates",
    lying.BOTH: "groups and gates",
}
SWARM_LIES: Mapping[str, str] = {
    lying.NOBODY: "nobody lies",
    lying.SOME: f"{lying.WITHSTOOD} lie",
    lying.MANY: f"{lying.TOO_MANY} lie",
    lying.ONCE_ONLY: "a single lie",
    lying.FROM_LATE: f"from round {lying.LATE} on",
}
DOCUMENT: Mapping[str, tuple[str, str]] = {
    FEDAVG: ("82 %", "86 %"),
    "cdp8": ("64 %", "73 %"),
    "ldp1": ("46 %", "58 %"),
    rpfl(0.0): ("48 %", "80 %"),
}
"""Table I: attack and classification accuracy. It does not state its epsilons."""
DASHES: Mapping[str, str] = {
    **dict.fromkeys((FEDAVG, LDP, CDP), "dot"),
    **dict.fromkeys((NORM, WEAK_DP, GM, TM), "solid"),
    **dict.fromkeys((*(rpfl(weight) for weight in WEIGHTS), REDRAWN, GM_RPFL), "dash"),
}
"""Dotted: no defence against liars; solid: robust aggregators; dashed: RPFL."""
SYMBOLS: Mapping[str, str] = {"dot": "circle", "solid": "square", "dash": "diamond"}
TALL_PX = 480
"""The height of plots with long names under their bars."""
PLACES: Mapping[str, int] = {defence: place % 7 for place, defence in enumerate(DEFENCES)}
"""The positions of colours: twelve lines share seven, and those that share one differ in their dashes."""
SHARE_OF_SUCCESS: Json = {"title": {"text": "backdoor success"}, "tickformat": PERCENT, "range": [0, 1.02]}
ATTACK_ACCURACY: Json = {"title": {"text": "share told right"}, "tickformat": PERCENT}


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """The charts that have figures, the most informative first."""
    return drawn(
        backdoors(sweep),
        trade(sweep),
        members(sweep),
        accuracies(sweep, BACKDOOR, "backdoor-accuracy", "Accuracy under a backdoor"),
        accuracies(sweep, FLIP, "flip-accuracy", "Accuracy under flipped labels"),
        robustness(sweep),
        forged(sweep),
        loans(sweep),
        swarms(sweep),
    )


def _lines(sweep: Sweep, attack: str, fact: str) -> list[Json]:
    return [
        series(sweep, words, points, PLACES[defence], DASHES[defence], fact)
        for defence, words in DEFENCES.items()
        if len(points := over_shares(sweep, attack, defence)) > 1
    ]


def backdoors(sweep: Sweep) -> Chart:
    """Backdoor success over the share of attackers."""
    return Chart(
        "backdoor",
        "How often a backdoor works",
        "Adult, logistic regression: test rows of class 0 that bear the attackers' trigger and are taken for "
        "class 1. Dotted: no defence against liars; solid: robust aggregators, which see every "
        "update; dashed: "
        f"RPFL. {BARS}",
        tuple(_lines(sweep, BACKDOOR, SUCCESS)),
        axes("share of attackers", SHARE_OF_SUCCESS),
    )


def accuracies(sweep: Sweep, attack: str, key: str, title: str) -> Chart:
    """Balanced accuracy over the share of attackers."""
    lines = _lines(sweep, attack, BALANCED)
    y: Json = {"title": {"text": "balanced accuracy"}, "tickformat": PERCENT}
    found = (*lines, level("guessing", 0.5, [0.0, SHARES[-1]])) if lines else ()
    caption = (
        "Adult, the mean of the two classes' accuracies: three quarters of the rows are of class 0, "
        "and always "
        f"saying so is 76 % accurate, and 50 % balanced. {BARS}"
    )
    layout = {**axes("share of attackers", y), "height": TALL_PX}
    return Chart(key, title, caption, tuple(found), layout)


def trade(sweep: Sweep) -> Chart:
    """The accuracy of a defence without attackers, against the success of attacks."""
    places = [
        (defence, words, arm(ADULT, CLEAN, 0.0, defence), arm(ADULT, BACKDOOR, SHARES[-1], defence))
        for defence, words in DEFENCES.items()
    ]
    points = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": words,
            "x": [sweep.mean(clean)],
            "y": [sweep.mean(attacked, SUCCESS)],
            "marker": {"color": colour(PLACES[defence]), "size": 12, "symbol": SYMBOLS[DASHES[defence]]},
        }
        for defence, words, clean, attacked in places
        if sweep.has(clean, attacked)
    ]
    x = {"title": {"text": "test accuracy when nobody attacks"}, "tickformat": PERCENT}
    return Chart(
        "trade",
        "What a defence prevents, and what it costs",
        "Adult; squares: robust aggregators, diamonds: RPFL. Up: backdoor success with "
        f"{SHARES[-1]:.0%} attackers, less is better. Right: "
        "accuracy without any.",
        tuple(points),
        {"xaxis": x, "yaxis": {**SHARE_OF_SUCCESS, "range": [-0.05, 1.08]}, "height": TALL_PX},
    )


def robustness(sweep: Sweep) -> Chart:
    """Accuracy under attack, and backdoor success, over the noise on rows: the document's motivation."""
    lines = [
        (f"accuracy, {ATTACKS[CLEAN]}", CLEAN, FINAL),
        (f"accuracy, {ATTACKS[BACKDOOR]}", BACKDOOR, FINAL),
        (f"accuracy, {ATTACKS[FLIP]}", FLIP, FINAL),
        (f"balanced accuracy, {ATTACKS[FLIP]}", FLIP, BALANCED),
        ("backdoor success", BACKDOOR, SUCCESS),
    ]
    traces = [
        series(sweep, name, points, place, "solid", fact)
        for place, (name, attack, fact) in enumerate(lines)
        if len(points := _by_std(sweep, attack)) > 1
    ]
    return Chart(
        "robustness",
        "Noise on rows, and what it does to robustness",
        f"Adult, {SHARES[-1]:.0%} attackers, rows of norm 1 with Gaussian noise, drawn once. The document: "
        "robustness first rises with the noise and then falls. Where the model always says no, its accuracy "
        f"is 76 %, its balanced accuracy 50 %, and no backdoor succeeds. {BARS}",
        tuple(traces),
        axes("noise std of each coordinate of a row", {"tickformat": PERCENT}, log_x=True),
    )


def _by_std(sweep: Sweep, attack: str) -> dict[str, float]:
    """The arms with noise on rows under this attack, each with the noise std; a log axis has no 0."""
    found = {name: sweep.number(name, LEAST_STD) for name in by_noise(sweep, attack)}
    return {name: std for name, std in found.items() if not math.isnan(std)}


def forged(sweep: Sweep) -> Chart:
    """Bars: attacks beyond the threat model."""
    bars = [
        _bars(
            f"{ATTACKS[attack]}",
            {words: arm(ADULT, attack, FORGED_SHARE, defence) for defence, words in DEFENCES.items()},
            sweep,
            place,
        )
        for place, attack in enumerate(FORGED)
    ]
    return Chart(
        "forged",
        "Accuracy where updates are forged",
        f"Adult, {FORGED_SHARE:.0%} of the clients send something else than what they trained: beyond "
        "the threat "
        f"model of the document. {BARS}",
        tuple(bar for bar in bars if bar["x"]),
        {"barmode": "group", "yaxis": ACCURACY, "height": TALL_PX},
    )


def loans(sweep: Sweep) -> Chart:
    """Bars: AUC on loans, at random and by state."""
    bars = [
        _bars(
            f"{words}, {ATTACKS[attack]}",
            {name: arm(where, attack, share, defence) for defence, name in DEFENCES.items()},
            sweep,
            place,
            AUC,
        )
        for place, (where, words, attack, share) in enumerate(
            (where, words, attack, share)
            for where, words in ((LOAN_IID, "at random"), (LOAN_STATES, "by state"))
            for attack, share in ((CLEAN, 0.0), (FLIP, SHARES[-1]))
        )
    ]
    return Chart(
        "loans",
        "Loans: how well bad ones are told",
        "AUC of a perceptron; 0.5 is guessing. Accuracy says nothing here: all arms that learn at "
        "all have the "
        f"majority rate. {BARS}",
        tuple(bar for bar in bars if bar["x"]),
        {"barmode": "group", "yaxis": {"title": {"text": "AUC"}, "range": [0.3, 0.75]}, "height": TALL_PX},
    )


def swarms(sweep: Sweep) -> Chart:
    """Bars: lying peers in a swarm in which no peer sees single updates."""
    bars = [
        _bars(
            SWARM_DEFENCES[defence],
            {SWARM_LIES[lie]: lying.arm(defence, lie) for lie in lying.LIES},
            sweep,
            place,
        )
        for place, defence in enumerate(lying.DEFENCES)
    ]
    return Chart(
        "swarms",
        "Lying peers in a swarm without a server",
        "Digits, 15 peers: accuracy of the agreed model after the last round. Nobody sees a single "
        "update, only "
        f"a sum: of all peers, or of groups of three. {BARS}",
        tuple(bar for bar in bars if bar["x"]),
        {"barmode": "group", "yaxis": ACCURACY, "height": TALL_PX},
    )


def members(sweep: Sweep) -> Chart:
    """Bars: the accuracy of membership inference, with the model's accuracy and the majority rate."""
    arms = {words: f"{PRIVACY}-{method}" for method, words in MEMBER_METHODS.items()}
    there = {words: name for words, name in arms.items() if sweep.has(name)}
    bars = [
        _bars("membership, by loss", there, sweep, 0, MEMBERSHIP),
        _bars("membership, by shadow models", there, sweep, 1, CALIBRATED),
        _bars("classification", there, sweep, 2),
    ]
    lines = [level("chance, for membership", 0.5, list(there))] if there else []
    if there:
        lines.append(level("majority rate", sweep.mean(next(iter(there.values())), MAJORITY), list(there)))
    return Chart(
        "members",
        "Table I again: who was in the training rows, and what was learned",
        "200 loans, learned by heart: the share of members and others that an attack tells right, of "
        "as many of "
        f"each, and the test accuracy. Always saying `paid` has the majority rate. {BARS}",
        (*bars, *lines) if there else (),
        {"barmode": "group", "yaxis": {**ATTACK_ACCURACY, "range": [0, 1]}, "height": TALL_PX},
    )


def _bars(name: str, arms: Mapping[str, str], sweep: Sweep, place: int, fact: str = FINAL) -> Json:
    there = {words: one for words, one in arms.items() if sweep.has(one)}
    errors = [sweep.margin(one, fact) for one in there.values()]
    return {
        "type": "bar",
        "name": name,
        "x": list(there),
        "y": [sweep.mean(one, fact) for one in there.values()],
        "error_y": {"type": "data", "array": errors, "thickness": 1.2},
        "marker": {"color": colour(place)},
    }


# -- tables ------------------------------------------------------------------------------------------------


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """Tables of Adult by attack, loans, Table I, the protection, and every arm."""
    found = (
        success_table(sweep),
        accuracy_table(sweep),
        loan_table(sweep),
        swarm_table(sweep),
        members_table(sweep),
        protection_table(sweep, {arm(ADULT, CLEAN, 0.0, name): words for name, words in DEFENCES.items()}),
        arms_table(sweep),
    )
    return tuple(table for table in found if table.rows)


def success_table(sweep: Sweep) -> Table:
    """A row for each defence, a column for each share of attackers."""
    columns = {f"{share:.0%}": (BACKDOOR if share else CLEAN, share) for share in (0.0, *SHARES)}
    rows = _rows(sweep, ADULT, list(columns.values()), SUCCESS)
    return Table("Adult: backdoor success, by attackers", ("defence", *columns), rows)


def accuracy_table(sweep: Sweep) -> Table:
    """A row for each defence, a column for each attack."""
    columns = {
        "no attack": (CLEAN, 0.0),
        **{f"{ATTACKS[attack]}, {SHARES[-1]:.0%}": (attack, SHARES[-1]) for attack in (BACKDOOR, FLIP)},
        **{f"{ATTACKS[attack]}, {FORGED_SHARE:.0%}": (attack, FORGED_SHARE) for attack in FORGED},
    }
    rows = _rows(sweep, ADULT, list(columns.values()), FINAL)
    return Table("Adult: accuracy, by attack (majority rate 76 %)", ("defence", *columns), rows)


def loan_table(sweep: Sweep) -> Table:
    """AUC and backdoor success, as accuracy equals the majority rate nearly everywhere."""
    rows = []
    for defence, words in DEFENCES.items():
        cells = [
            accuracy_text(sweep, arm(where, attack, share, defence), fact)
            for where in (LOAN_IID, LOAN_STATES)
            for attack, share, fact in (
                *((CLEAN, 0.0, FINAL), (CLEAN, 0.0, BALANCED), (CLEAN, 0.0, AUC)),
                *((FLIP, SHARES[-1], AUC), (BACKDOOR, SHARES[-1], SUCCESS)),
            )
        ]
        if any(cells):
            rows.append((words, *cells))
    columns = ("accuracy", "balanced", "AUC", "AUC, flip 40 %", "backdoor 40 %")
    headings = tuple(f"{where}: {column}" for where in ("random", "states") for column in columns)
    return Table("Loans, at random and by state", ("defence", *headings), tuple(rows))


def swarm_table(sweep: Sweep) -> Table:
    """A row for each lie and defence."""
    rows = tuple(
        (
            f"{SWARM_LIES[lie]}: {SWARM_DEFENCES[defence]}",
            accuracy_text(sweep, name),
            accuracy_text(sweep, name, OWN),
            f"{sweep.mean(name, ROLLED_BACK):.1f}",
            f"{sweep.mean(name, SMALLEST_SUM):.0f}",
        )
        for lie in lying.LIES
        for defence in lying.DEFENCES
        if sweep.has(name := lying.arm(defence, lie))
    )
    headings = (
        "peers",
        "agreed model",
        "honest peers go on from",
        "rounds refused",
        "members in the least sum",
    )
    return Table("Lying peers in a swarm: digits, 15 peers", headings, rows)


def members_table(sweep: Sweep) -> Table:
    """Our figures for Table I, with those of the document."""
    facts = (MEMBERSHIP, CALIBRATED, FINAL, BALANCED, AUC, MAJORITY)
    rows = tuple(
        (
            words,
            *DOCUMENT.get(method, ("", "")),
            *(accuracy_text(sweep, name, fact) for fact in facts),
            *(amount(sweep.fact(name, fact)) for fact in ("stated", "epsilon")),
            str(sweep.fact(name, "unit") or "nobody"),
        )
        for method, words in MEMBER_METHODS.items()
        if sweep.has(name := f"{PRIVACY}-{method}")
    )
    headings = (
        *("method", "document: attack", "document: accuracy", "attack, by loss", "attack, by shadows"),
        *("accuracy", "balanced", "AUC", "majority rate", "epsilon stated", "epsilon proved", "for"),
    )
    return Table("Table I: membership attack and classification, loans", headings, rows)


def _rows(
    sweep: Sweep, where: str, columns: Sequence[tuple[str, float]], fact: str
) -> tuple[tuple[str, ...], ...]:
    found = (
        (
            words,
            *(accuracy_text(sweep, arm(where, attack, share, defence), fact) for attack, share in columns),
        )
        for defence, words in DEFENCES.items()
    )
    return tuple(row for row in found if any(row[1:]))
