"""The plots and tables of scenario `nbafl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mechanisms.servers.nbafl import delta_of
from scenarios.frame.spec import Json, Table
from scenarios.study.arms import OWN, Factors
from scenarios.study.charts import ACCURACY, BARS, accuracy_text, amount
from scenarios.study.plots import Curve, Drawn, Level, Lines, Rounds, specified
from scenarios.study.sweep import Sweep
from scenarios.study.tables import ArmTable, arms_rows, number, protection_rows, share, tabled
from scenarios.systems.nbafl.arms import CELLS, RATIO, WAYS, mnist, writers

DOCUMENT: Mapping[tuple[float, float], float] = {
    (100.0, 1.0): 80.58, (100.0, 2.0): 80.39, (100.0, 3.0): 74.80,
    (50.0, 1.0): 80.58, (50.0, 2.0): 67.98, (50.0, 3.0): 54.85,
    (10.0, 1.0): 41.71, (10.0, 2.0): 24.82, (10.0, 3.0): 11.73,
}  # fmt: skip
"""FederatedScope's table, accuracy in percent by (epsilon, c)."""

DOWNLOAD = "download noise std"
_LARGEST_NOISE: Factors = {"epsilon": CELLS[-1][0], "constant": CELLS[-1][1]}
_DRAWN = ((100.0, 1.0), (10.0, 1.0), (10.0, 2.0), (10.0, 3.0))
"""The cells whose curves are drawn; more lines would be hard to distinguish."""

# -- the table ---------------------------------------------------------------------------------------------

_DOCUMENT_LINE: Json = {
    "type": "scatter",
    "mode": "lines+markers",
    "name": "FederatedScope, the document",
    "x": [constant / epsilon for epsilon, constant in CELLS],
    "y": [DOCUMENT[cell] / 100 for cell in CELLS],
    "line": {"color": "var(--muted)", "width": 2, "dash": "dot"},
    "marker": {"color": "var(--muted)", "size": 7, "symbol": "diamond"},
}
OVER_RATIO = Lines(
    "",
    key="ratio",
    title="Accuracy over the noise",
    caption="The nine cells of FederatedScope's table: noise goes with c / epsilon; no epsilon there is "
    "proved. The document's model is larger and its writers are more, so compare the shapes, not the "
    f"heights. {BARS}",
    curves=(
        Curve("FederatedScope, here", writers("federatedscope"), x=RATIO),
        Curve("the paper, here", writers("paper"), x=RATIO),
    ),
    levels=(
        Drawn(_DOCUMENT_LINE),
        Level("no noise", writers("no noise")),
        Level("weights clipped, no noise", writers("clip only"), style={"line": {"dash": "dashdot"}}),
    ),
    x_title=RATIO,
    y=ACCURACY,
    scale="marked",
)


def _points(sweep: Sweep, arms: Sequence[str]) -> Json:
    deltas = [f"delta {amount(sweep.fact(arm, 'delta'))}" for arm in arms]
    return {"mode": "markers", "text": deltas, "marker": {"size": 9}}


STATED_AND_PROVED = Lines(
    "",
    key="epsilon",
    title="The epsilon that is stated, and the proved one",
    caption="The paper's way. Proved: what clip and upload noise prove for a client's whole data set, over "
    "all rounds, at the same delta. The paper takes one record to move the weights by 2 C / m only, which "
    "training does not ensure. Points above each other state one epsilon at different deltas.",
    fact="epsilon",
    curves=(
        Curve("table's cells", writers("paper"), x="epsilon", style=_points),
        Curve("MNIST", mnist("paper"), over="epsilon", style=_points),
    ),
    levels=(Level("proved is what is stated", lambda epsilon: epsilon),),
    x_title="epsilon stated",
    y={"title": {"text": "epsilon proved"}, "type": "log", "exponentformat": "power"},
    scale="marked",
)
TABLE_CURVES = Rounds(
    title="Accuracy by round, by noise",
    caption="As FederatedScope has it; the mean over the seeds.",
    curves=(
        Curve("no noise", writers("no noise")),
        *(
            Curve(
                f"{RATIO} {constant / epsilon:g}",
                {**writers("federatedscope"), "epsilon": epsilon, "constant": constant},
            )
            for epsilon, constant in _DRAWN
        ),
        Curve("own mechanism", OWN),
    ),
    y=ACCURACY,
)

# -- MNIST -------------------------------------------------------------------------------------------------

OVER_EPSILON = Lines(
    "epsilon",
    key="mnist-epsilon",
    title="MNIST: accuracy over the stated epsilon",
    caption="The paper's way, its model and delta 0.01, every client in every round; both uploads and "
    f"download are noised. The epsilons that are proved are far larger, as the plot of both shows. {BARS}",
    curves=(Curve("the paper", mnist("paper")),),
    levels=(Level("no noise", mnist("no noise")),),
    x_title="epsilon stated",
    y=ACCURACY,
    scale="marked",
)
OVER_CLIENTS = Lines(
    "clients",
    key="mnist-clients",
    title="MNIST: accuracy over the number of clients",
    caption="Each client has as many images, and all are in every round: the more there are, the more of "
    f"their noise cancels in the mean, and the less the download needs. {BARS}",
    curves=(
        Curve("epsilon {epsilon:g} stated".format_map, mnist("paper")),
        Curve("no noise", mnist("no noise"), dash="dash"),
    ),
    y=ACCURACY,
    scale="linear",
)
OVER_ROUNDS = Lines(
    "rounds",
    key="mnist-rounds",
    title="MNIST: accuracy over the number of rounds",
    caption="A run of so many rounds in all: more rounds learn more, and ask for more noise on every "
    f"download. {BARS}",
    curves=(Curve("epsilon {epsilon:g} stated".format_map, mnist("paper")),),
    y=ACCURACY,
    scale="linear",
)
charts = specified(OVER_RATIO, STATED_AND_PROVED, OVER_EPSILON, OVER_CLIENTS, OVER_ROUNDS, TABLE_CURVES)

# -- tables ------------------------------------------------------------------------------------------------


def document_table(sweep: Sweep) -> Table:
    """The document's figures and ours, cell by cell."""
    headings = (
        *("epsilon stated", "c", "delta", "c / epsilon", "document"),
        *(f"{name}, here" for name in WAYS.values()),
        "epsilon proved of the paper's",
    )
    rows = (_document_row(sweep, *cell) for cell in CELLS)
    return Table("FederatedScope's table, cell by cell", headings, tuple(row for row in rows if any(row[5:])))


def _document_row(sweep: Sweep, epsilon: float, constant: float) -> tuple[str, ...]:
    cell: Factors = {"epsilon": epsilon, "constant": constant}
    arms = {way: sweep.first({**writers(way), **cell}) for way in WAYS}
    papers = arms["paper"]
    return (
        f"{epsilon:g}",
        f"{constant:g}",
        f"{delta_of(constant):.3g}",
        f"{constant / epsilon:.2g}",
        f"{DOCUMENT[epsilon, constant]:.2f} %",
        *(accuracy_text(sweep, arm) if arm else "" for arm in arms.values()),
        amount(sweep.fact(papers, "epsilon")) if papers else "",
    )


NOISE = ArmTable(
    "Noise on each coordinate",
    {
        "c / epsilon": number("constant / epsilon"),
        "upload noise std": number("upload noise std", "largest upload noise std"),
        DOWNLOAD: number(DOWNLOAD),
        "accuracy": share(),
    },
    only=lambda sweep, arm: sweep.fact(arm, DOWNLOAD) is not None,
)
tables = tabled(
    document_table,
    NOISE,
    arms_rows(),
    protection_rows(
        {
            "nbafl-federatedscope": {**writers("federatedscope"), **_LARGEST_NOISE},
            "nbafl": {**writers("paper"), **_LARGEST_NOISE},
            "fedavg": writers("no noise"),
            "own": OWN,
        }
    ),
)
