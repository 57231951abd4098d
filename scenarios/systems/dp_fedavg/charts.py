"""The plots and tables of scenario `dp-fedavg`."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.frame.spec import Json, Table
from scenarios.study.arms import OWN, Factors, Where
from scenarios.study.charts import ACCURACY, BARS
from scenarios.study.plots import PROVED, Bars, Curve, Level, Lines, Rounds, specified
from scenarios.study.sweep import Sweep
from scenarios.study.tables import ArmTable, Grid, arms_rows, number, protection_rows, share, tabled
from scenarios.systems.dp_fedavg.arms import (
    BOOK,
    BOOK_WITHOUT_NOISE,
    CLIPS,
    DELTA,
    FLAT,
    NOISE_OF_ALL,
    TEN_USERS,
    TEN_USERS_NOISE,
    USUAL,
    USUAL_CLIP,
    USUAL_NOISE,
    Z,
)

BOOK_NAMES: Mapping[str, Where] = {
    "the book's settings": BOOK,
    "the same without noise": BOOK_WITHOUT_NOISE,
    f"the paper's algorithm, z = {TEN_USERS_NOISE:g}": TEN_USERS,
}
QUIET: Factors = {**USUAL_CLIP, "clients": USUAL.clients, Z: 0.0}
_HOVER: Json = {"hovertemplate": "%{y:.1%}"}
_users = "{clients:g} users".format_map


def _noise(factors: Factors) -> str:
    return f"z = {factors[Z]:g}" if factors[Z] else "no noise"


def _estimator(factors: Factors) -> str:
    name = {"fixed": "f_f", "clipped": "f_c"}[str(factors["estimator"])]
    return f"{name}, {'a clip a layer' if factors['per_layer'] else 'flat clip'}"


def _epsilon(sweep: Sweep, arm: str) -> str:
    epsilon = sweep.fact(arm, "epsilon")
    return f"{epsilon:.2g}" if isinstance(epsilon, int | float) else "∞"


def _tick(sweep: Sweep, arm: str) -> str:
    """The place of an arm: its z, and below it the epsilon."""
    return f"{sweep.factor(arm, Z):g}<br>ε {_epsilon(sweep, arm)}"


def _ticks(sweep: Sweep) -> Json:
    arms = sorted(sweep.select(USUAL_CLIP), key=lambda arm: sweep.factor(arm, Z))
    in_order = list(dict.fromkeys(_tick(sweep, arm) for arm in arms))
    return {"xaxis": {"type": "category", "categoryorder": "array", "categoryarray": in_order}}


# -- plots -------------------------------------------------------------------------------------------------

OVER_NOISE = Lines(
    Z,
    key="noise",
    title="Accuracy over noise",
    caption="z is the noise over what one user can add; below it the epsilon proved for a user over the run: "
    f"it follows from z, q and the rounds, and not from the number of users. {BARS}",
    curves=(Curve(_users, USUAL_CLIP, x=_tick, style=_HOVER),),
    x_title="noise multiplier z",
    y=ACCURACY,
    look=_ticks,
)
OVER_EPSILON = Lines(
    Z,
    key="epsilon",
    title="Accuracy over privacy",
    caption="Epsilon proved for adding or removing one user with all its data, over all rounds, "
    f"at delta {DELTA:g}; less is more private. {BARS}",
    curves=(Curve(_users, USUAL_CLIP, x=PROVED),),
    levels=(Level(f"no noise, {USUAL.clients} users", QUIET),),
    x_title="epsilon for one user",
    y=ACCURACY,
    scale="log",
)
OVER_USERS = Lines(
    "clients",
    key="users",
    title="Accuracy over the number of users",
    caption="All users have as many rows, and each is in a round with the same probability: at one z epsilon "
    f"is the same, and the noise on the mean shrinks with the users. {BARS}",
    curves=(Curve(_noise, {**USUAL_CLIP, Z: NOISE_OF_ALL}),),
    x_title="users",
    y=ACCURACY,
    scale="marked",
)
OVER_CLIP = Lines(
    "clip",
    key="clip",
    title="Accuracy over the clip",
    caption="A small clip S cuts what users have learned; a large one lets in noise, which grows with it: "
    f"z S in all, at the same epsilon. {BARS}",
    curves=(Curve(_noise, {**FLAT, Z: NOISE_OF_ALL}),),
    x_title="clip S, the L2 norm of a user's update at most",
    y=ACCURACY,
    scale="marked",
    ticks=CLIPS,
)
ESTIMATORS = Bars(
    key="estimators",
    title="Accuracy by estimator",
    caption="f_f divides by the expected weight of a sample; f_c by the sample's own, and needs twice the "
    f"noise for the same epsilon. {BARS}",
    curves=(
        Curve(
            f"z = {USUAL.noise_multiplier:g}, {USUAL.clients} users",
            {"setting": "paper", "clients": USUAL.clients, Z: USUAL.noise_multiplier, "clip": USUAL.clip},
            style={**_HOVER, "error_y": {"color": "var(--ink)"}},
        ),
    ),
    label=_estimator,
    y={**ACCURACY, "rangemode": "tozero"},
)
BY_NOISE = Rounds(
    title="Accuracy by round, by noise",
    caption=f"{USUAL.clients} users, clip S = {USUAL.clip:g}; the mean over the seeds.",
    curves=(Curve(_noise, {**USUAL_CLIP, "clients": USUAL.clients}), Curve("own mechanism", OWN)),
    y=ACCURACY,
)
OF_THE_BOOK = Rounds(
    key="book",
    title="The book's settings, by round",
    caption="The mean over the seeds. The book's noise is 2e-6 times what one client can add; where its line "
    "is that without noise, it lies under it. The third line is the paper's algorithm, with noise for an "
    "epsilon below 8 over 100 rounds.",
    curves=tuple(Curve(name, where) for name, where in BOOK_NAMES.items()),
    y=ACCURACY,
)
charts = specified(OVER_NOISE, OVER_EPSILON, OVER_USERS, OVER_CLIP, ESTIMATORS, BY_NOISE, OF_THE_BOOK)

# -- tables ------------------------------------------------------------------------------------------------


def noise_table(sweep: Sweep) -> Table:
    """A row for each z, a column for each number of users."""
    users = {f"{number:g} users": {"clients": number} for number in sweep.levels("clients", USUAL_CLIP)}
    return Grid(
        f"Accuracy by noise and users, clip S = {USUAL.clip:g}",
        "z",
        rows={f"{z:g}": {**USUAL_CLIP, Z: z} for z in sweep.levels(Z, USUAL_CLIP)},
        columns={"epsilon": {}, **users},
        cells={"epsilon": _epsilon, **dict.fromkeys(users, share())},
    ).table(sweep)


CLIP_TABLE = Grid(
    f"Accuracy by clip, {USUAL.clients} users",
    "clip S",
    rows={f"{clip:g}": {**FLAT, "clients": USUAL.clients, "clip": clip} for clip in CLIPS},
    columns={_noise({Z: z}): {Z: z} for z in NOISE_OF_ALL},
)
BOOK_TABLE = ArmTable(
    "The book's settings, and as few users with privacy",
    {
        "z": number("noise multiplier"),
        "noise std": number("noise std"),
        "epsilon proved": number("epsilon"),
        "accuracy": share(),
    },
    names=BOOK_NAMES,
    heading="settings",
)
tables = tabled(
    noise_table,
    CLIP_TABLE,
    BOOK_TABLE,
    arms_rows(),
    protection_rows(
        {
            "dp-fedavg": {**USUAL_NOISE, "clip": USUAL.clip},
            "dp-fedavg-book": BOOK,
            "dp-fedavg without noise": QUIET,
            "own": OWN,
        }
    ),
)
