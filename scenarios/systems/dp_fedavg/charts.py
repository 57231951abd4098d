"""The plots and tables of scenario `dp-fedavg`."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.frame.spec import Chart, Json, Table
from scenarios.study.charts import (
    ACCURACY,
    BARS,
    accuracy_text,
    amount,
    arms_table,
    axes,
    colour,
    curves,
    drawn,
    level,
    marked,
    protection_table,
    series,
)
from scenarios.study.sweep import Sweep
from scenarios.systems.dp_fedavg.arms import (
    BOOK,
    BOOK_ARMS,
    CLIPS,
    DELTA,
    ESTIMATOR_ARMS,
    NOISE,
    NOISE_OF_ALL,
    USERS,
    USUAL,
    by_clip,
    by_noise,
    by_users,
    noise_arm,
    users_of,
)


def charts(sweep: Sweep) -> tuple[Chart, ...]:
    """The charts that have figures, the most informative first."""
    return drawn(
        over_noise(sweep),
        over_epsilon(sweep),
        over_users(sweep),
        over_clip(sweep),
        estimators(sweep),
        noise_curves(sweep),
        book_curves(sweep),
    )


def over_noise(sweep: Sweep) -> Chart:
    """Accuracy over z, a line for each number of users; the axis shows each z with its epsilon."""
    places = {z: place for place, z in enumerate(_noise_run(sweep))}
    lines = [
        {
            **series(sweep, _users(sweep, users), {arm: places[z] for arm, z in arms.items()}, position),
            "hovertemplate": "%{y:.1%}",
        }
        for position, users in enumerate(USERS)
        if (arms := by_noise(sweep, users))
    ]
    ticks = {"tickvals": list(places.values()), "ticktext": [_tick(sweep, z) for z in places]}
    return Chart(
        "noise",
        "Accuracy over noise",
        "z is the noise over what one user can add; below it the true epsilon of a user over the run, which "
        f"follows from z, q and the rounds, and not from the number of users. {BARS}",
        tuple(lines),
        {"xaxis": {"title": {"text": "noise multiplier z"}, **ticks}, "yaxis": ACCURACY},
    )


def over_epsilon(sweep: Sweep) -> Chart:
    """The same arms over the true epsilon, with the result without noise."""
    lines = [
        series(sweep, _users(sweep, users), points, position)
        for position, users in enumerate(USERS)
        if (points := _by_epsilon(sweep, users))
    ]
    lines += _without_noise(sweep, [value for line in lines for value in line["x"]])
    return Chart(
        "epsilon",
        "Accuracy over privacy",
        "True epsilon for adding or removing one user with all its data, over all rounds, "
        f"at delta {DELTA:g}; less is more private. {BARS}",
        tuple(lines),
        axes("epsilon for one user", log_x=True),
    )


def over_users(sweep: Sweep) -> Chart:
    """Accuracy over the number of users, a line for each z."""
    lines = [
        series(sweep, _z(z), points, position)
        for position, z in enumerate(NOISE_OF_ALL)
        if len(points := by_users(sweep, z)) > 1
    ]
    return Chart(
        "users",
        "Accuracy over the number of users",
        "All users have as many rows, and each is in a round with the same probability: at one z epsilon is "
        f"the same, and the noise on the mean shrinks with the users. {BARS}",
        tuple(lines),
        marked("users", sorted({users for line in lines for users in line["x"]})),
    )


def over_clip(sweep: Sweep) -> Chart:
    """Accuracy over the clip, a line for each z."""
    lines = [
        series(sweep, _z(z), points, position)
        for position, z in enumerate(NOISE_OF_ALL)
        if len(points := by_clip(sweep, z)) > 1
    ]
    return Chart(
        "clip",
        "Accuracy over the clip",
        "A small clip S cuts what users have learned; a large one lets in noise, which grows with it: z S in "
        f"all, at the same epsilon. {BARS}",
        tuple(lines),
        marked("clip S, the L2 norm of a user's update at most", CLIPS),
    )


def estimators(sweep: Sweep) -> Chart:
    """A bar for each estimator and way to clip."""
    there = [arm for arm in ESTIMATOR_ARMS if sweep.has(arm)]
    bars = {
        "type": "bar",
        "name": f"z = {USUAL.noise_multiplier:g}, {_users(sweep, USUAL.users)}",
        "x": [ESTIMATOR_ARMS[arm] for arm in there],
        "y": [sweep.mean(arm) for arm in there],
        "error_y": {
            "type": "data",
            "array": [sweep.margin(arm) for arm in there],
            "color": "var(--ink)",
        },
        "marker": {"color": colour(0)},
        "hovertemplate": "%{y:.1%}",
    }
    return Chart(
        "estimators",
        "Accuracy by estimator",
        "f_f divides by the expected weight of a sample; f_c by the sample's own, and needs twice the noise "
        f"for the same epsilon. {BARS}",
        (bars,) if len(there) > 1 else (),
        {"xaxis": {}, "yaxis": {**ACCURACY, "rangemode": "tozero"}},
    )


def noise_curves(sweep: Sweep) -> Chart:
    """Accuracy by round, a line for each z."""
    arms = {**{arm: _z(z) for arm, z in by_noise(sweep, USUAL.users).items()}, "own": "own mechanism"}
    caption = f"{_users(sweep, USUAL.users)}, clip S = {USUAL.clip:g}; the mean over the seeds."
    return curves(sweep, "rounds", "Accuracy by round, by noise", caption, arms)


def book_curves(sweep: Sweep) -> Chart:
    """Accuracy by round: the book's settings, and ten users with noise for an epsilon below 8."""
    caption = (
        "The mean over the seeds. The book's noise is 2e-6 times what one client can add; where its line is "
        "that without noise, it lies under it. The third line is the paper's algorithm, with noise for an "
        "epsilon below 8 over 100 rounds."
    )
    return curves(sweep, "book", "The book's settings, by round", caption, BOOK_ARMS)


# -- parts -------------------------------------------------------------------------------------------------


def _users(sweep: Sweep, users: int) -> str:
    """The name of a line, with the number of users as run; the command line may have changed it."""
    arms = by_noise(sweep, users)
    return f"{users_of(sweep, next(iter(arms))) if arms else users} users"


def _z(noise_multiplier: float) -> str:
    return f"z = {noise_multiplier:g}" if noise_multiplier else "no noise"


def _noise_run(sweep: Sweep) -> list[float]:
    """Every z that was run, with any number of users."""
    run = {z for users in USERS for z in by_noise(sweep, users).values()}
    return [z for z in NOISE if z in run]


def _tick(sweep: Sweep, noise_multiplier: float) -> str:
    arm = next(arm for users in USERS for arm, z in by_noise(sweep, users).items() if z == noise_multiplier)
    epsilon = sweep.fact(arm, "epsilon")
    return f"{noise_multiplier:g}<br>ε {_rounded(epsilon)}"


def _rounded(epsilon: object) -> str:
    return f"{epsilon:.2g}" if isinstance(epsilon, int | float) else "∞"


def _by_epsilon(sweep: Sweep, users: int) -> dict[str, float]:
    arms = {arm: sweep.number(arm, "epsilon") for arm, z in by_noise(sweep, users).items() if z > 0}
    return dict(sorted(arms.items(), key=lambda item: item[1]))


def _without_noise(sweep: Sweep, between: list[float]) -> list[Json]:
    arm = noise_arm(USUAL.users, 0.0)
    if not sweep.has(arm) or not between:
        return []
    name = f"no noise, {_users(sweep, USUAL.users)}"
    return [level(name, sweep.mean(arm), [min(between), max(between)])]


# -- tables ------------------------------------------------------------------------------------------------


def tables(sweep: Sweep) -> tuple[Table, ...]:
    """Tables of noise by users, clips, the book, every arm, and the protection."""
    found = (noise_table(sweep), clip_table(sweep), book_table(sweep), arms_table(sweep), _protection(sweep))
    return tuple(table for table in found if table.rows)


def noise_table(sweep: Sweep) -> Table:
    """A row for each z, a column for each number of users."""
    columns = [users for users in USERS if by_noise(sweep, users)]
    headings = ("z", "epsilon", *(_users(sweep, users) for users in columns))
    rows = tuple(
        (
            f"{z:g}",
            _tick(sweep, z).partition("ε ")[2],
            *(accuracy_text(sweep, noise_arm(u, z)) for u in columns),
        )
        for z in _noise_run(sweep)
    )
    return Table(f"Accuracy by noise and users, clip S = {USUAL.clip:g}", headings, rows)


def clip_table(sweep: Sweep) -> Table:
    """A row for each clip, a column for each z."""
    lines = {z: arms for z in NOISE_OF_ALL if len(arms := by_clip(sweep, z)) > 1}
    rows = tuple(
        (f"{clip:g}", *(_figure_of(sweep, arms, clip) for arms in lines.values()))
        for clip in CLIPS
        if any(clip in arms.values() for arms in lines.values())
    )
    title = f"Accuracy by clip, {_users(sweep, USUAL.users)}"
    return Table(title, ("clip S", *(_z(z) for z in lines)), rows)


def book_table(sweep: Sweep) -> Table:
    """The results and the true epsilon of the book's settings."""
    headings = ("settings", "z", "noise std", "true epsilon", "accuracy")
    names = ("noise multiplier", "noise std", "epsilon")
    rows = tuple(
        (words, *(amount(sweep.fact(arm, name)) for name in names), accuracy_text(sweep, arm))
        for arm, words in BOOK_ARMS.items()
        if sweep.has(arm)
    )
    return Table("The book's settings, and as few users with privacy", headings, rows)


def _figure_of(sweep: Sweep, arms: Mapping[str, float], clip: float) -> str:
    return next((accuracy_text(sweep, arm) for arm, own in arms.items() if own == clip), "")


def _protection(sweep: Sweep) -> Table:
    kinds = {
        noise_arm(USUAL.users, USUAL.noise_multiplier): "dp-fedavg",
        BOOK: "dp-fedavg-book",
        noise_arm(USUAL.users, 0.0): "dp-fedavg without noise",
        "own": "own",
    }
    return protection_table(sweep, kinds)
