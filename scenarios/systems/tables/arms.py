"""The arms of scenario `tables`: each model of each table, by a swarm, by a site, and pooled.

Factors: `data`, `model`, `parties`, and `epsilon` with privacy; of statistics their name alone. The tables
for privacy have all of their rows, the others as many as the benchmark of defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from scenarios.study.arms import Arm, Factors, Where
from scenarios.tables.cell import Learner, Parties, TableCell
from scenarios.tables.models import ModelName, PrivateName
from scenarios.tables.statistics import Statistic, StatisticsCell

EPSILONS = (1, 3, 8)
MIDDLE = 3
"""The epsilon of one site, and of a server with all rows."""
DATA: dict[str, str] = {
    "adult": "Adult",
    "loan": "Loan",
    "affairs": "Affairs",
    "tumours": "Tumours, six columns",
    "interaction": "Product of two columns",
    "progression": "Diabetes, five columns",
}
"""The tables in words. A third of the last one, and of the tumours, has too few rows for all columns."""
WHOLE: dict[str, str] = {"adult-whole": "Adult, all rows", "loan-whole": "Loan, all rows"}
LARGE: Where = {"data": ("adult", "loan")}
MODELS: Sequence[ModelName] = get_args(ModelName)
PARTIES: Sequence[Parties] = get_args(Parties)
PRIVATE: Sequence[PrivateName] = get_args(PrivateName)

SWARM: Factors = {"parties": "swarm"}
ALONE: Factors = {"parties": "alone"}
POOLED: Factors = {"parties": "pooled"}
LINEAR: Factors = {"model": "linear"}
NETWORK: Factors = {"model": "network"}
ADDITIVE: Factors = {"model": "additive"}
TREES: Factors = {"model": "trees"}
BOTH: Factors = {"model": "additive-trees"}
BOOSTING: Factors = {"model": "boosting"}
EXACT: Where = {"statistics": get_args(Statistic)}


def _arm(data: str, model: Learner, parties: Parties, epsilon: int | None = None) -> Arm:
    name, factors = f"{data}-{model}-{parties}", {"data": data, "model": model, "parties": parties}
    if epsilon is None:
        return Arm(TableCell(name, data, model, parties), factors)
    return Arm(
        TableCell(f"{name}-eps{epsilon}", data, model, parties, epsilon), {**factors, "epsilon": epsilon}
    )


def _arms() -> Iterator[Arm]:
    for data in DATA:
        yield from (_arm(data, model, parties) for model in MODELS for parties in PARTIES)
        yield from (_arm(data, "boosting", parties) for parties in PARTIES if parties != "swarm")
    for data in WHOLE:
        for model in PRIVATE:
            yield _arm(data, model, "swarm")
            yield from (_arm(data, model, "swarm", epsilon) for epsilon in EPSILONS)
            yield from (_arm(data, model, parties, MIDDLE) for parties in PARTIES if parties != "swarm")
    for statistic in get_args(Statistic):
        yield Arm(StatisticsCell(f"statistics-{statistic}", statistic), {"statistics": statistic})


ARMS: tuple[Arm, ...] = tuple(_arms())
