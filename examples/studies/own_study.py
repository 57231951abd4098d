"""A study of your own: two mechanisms at three epsilons, three seeds each, on your own rows.

python -m scenarios run own_study:STUDY
"""

from scenarios.own.grid import grid
from scenarios.study.makers import apart, rises
from scenarios.study.plots import Lines, Rounds, specified
from scenarios.study.sweep import Study

BASE = {
    "peers": 4,
    "data": {"source": "patients.csv", "target": "ill"},
    "model": {"class": "node.models:MLP", "args": {"sizes": [6, 2]}},
    "train": {"rounds": 4, "epochs": 1, "batch_size": 32},
}
PRIVATE: dict[str, list[str] | list[int]] = {
    "privacy.mechanism": ["ldp", "dp-sgd"],
    "privacy.epsilon": [1, 10, 100],
}

STUDY = Study(
    name="own-study",
    summary="Two mechanisms at three epsilons.",
    arms=(*grid(BASE, PRIVATE), *grid(BASE, name="no-noise")),
    seeds=3,
    claims=(
        rises("epsilon", {"mechanism": "ldp"}),
        apart({"mechanism": "dp-sgd", "epsilon": 1}, {"mechanism": "ldp", "epsilon": 1}),
    ),
    charts=specified(Lines("epsilon"), Rounds({"epsilon": 10})),
)
