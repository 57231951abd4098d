"""The arms of scenario `distributed-dp`: each setting under five mechanisms, at three epsilons.

A `Setting` is a data set with a model and its peers. What steps with shared noise need and is not set here
comes from the table of defaults (node.task.step_defaults), by rows and epsilon.

Factors: the setting's name, the mechanism, epsilon, the peers, and how many of them, oneself included, are
honest as far as shared noise is sized for. An arm of a trusted server has no peers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from node.task.shared_noise_keys import DISTRIBUTED
from scenarios.study.arms import Arm, Factors, Where
from scenarios.study.cells import Cell
from scenarios.swarms.dealt import ACCURACY, AS_THEY_ARE, AUC, PeersCell, Scale, Sections, ServerCell, task_of

EPSILONS = (1, 3, 8)
DELTA = 1e-5
ROUNDS = 20

POOLED: Factors = {"mechanism": "none"}
"""All rows, without privacy."""
CENTRAL: Factors = {"mechanism": "central"}
"""A trusted server."""
SHARED: Factors = {"mechanism": DISTRIBUTED}
ALONE: Factors = {"mechanism": "dp-sgd"}
"""Each node for itself."""
DATA_SETS: Factors = {"mechanism": "ldp"}
"""Each node for itself, and for its whole data set."""
MEMBERS = "honest_members"


@dataclass(frozen=True)
class DataSet:
    """A data set by its name, with its number of training rows and what a model of it is judged by.

    `scale`: public constants by which the source standardises its images.
    """

    name: str
    rows: int
    measure: str = ACCURACY
    scale: Scale = AS_THEY_ARE


@dataclass(frozen=True)
class DpSgd:
    """How a node trains that noises for itself: the clip, and by epsilon its batch and its rate.

    One epoch a round; the best of a few on the test rows, which favours it.
    """

    clip: float
    steps: Mapping[int, tuple[int, float]]


@dataclass(frozen=True)
class Setting:
    """A data set, a model, and `peers` peers.

    `honest`: the numbers of honest members, oneself included, that shared noise is sized for. `plain`: what
    `[train]` is without privacy.
    """

    name: str
    title: str
    data: DataSet
    model: Mapping[str, Any]
    peers: int
    honest: tuple[int, ...]
    alone: DpSgd
    plain: Mapping[str, Any]

    @property
    def where(self) -> Factors:
        """Its arms."""
        return {"setting": self.name}

    @property
    def kinds(self) -> Mapping[str, Factors]:
        """The kinds of its private arms in words, from the most trust to the least."""
        return {
            "a trusted server": CENTRAL,
            **{
                f"noise shared, {honest} of {self.peers} honest": {**SHARED, MEMBERS: honest}
                for honest in self.honest
            },
            "dp-sgd: each node for itself": ALONE,
            "ldp: whole data sets": DATA_SETS,
        }


_IMAGES = {"class": "node.models:MLP", "args": {"sizes": [784, 64, 10]}}
_SCATTERING = {
    "class": "node.models:Scattering",
    "args": {"shape": [1, 28, 28], "outputs": 10},
    "body": "body",
}
_ALONE = DpSgd(1.0, {1: (1000, 1.0), 3: (256, 0.3), 8: (256, 1.0)})
_ALONE_ON_FEATURES = DpSgd(0.1, {1: (1000, 5.0), 3: (1000, 10.0), 8: (1000, 10.0)})
_PLAIN = {"rounds": ROUNDS, "epochs": 2, "batch_size": 64, "learning_rate": 0.05}


_SCALES: Mapping[str, Scale] = {"mnist": (0.1307, 0.3081), "fashion-mnist": (0.286, 0.353)}
"""Mean and standard deviation of all training pixels, which every tutorial on the data set states."""


def _of_images(name: str, title: str, source: str, scattering: bool) -> Setting:
    return Setting(
        name=name,
        title=title,
        data=DataSet(source, 60_000, scale=AS_THEY_ARE if scattering else _SCALES[source]),
        model=_SCATTERING if scattering else _IMAGES,
        peers=10,
        honest=(7, 5),
        alone=_ALONE_ON_FEATURES if scattering else _ALONE,
        plain={**_PLAIN, "learning_rate": 0.01 if scattering else 0.05},
    )


DIGITS = Setting(
    name="digits",
    title="digits, perceptron",
    data=DataSet("digits", 1438),
    model={"class": "node.models:MLP", "args": {"sizes": [64, 64, 10]}},
    peers=5,
    honest=(3,),
    alone=DpSgd(1.0, {1: (288, 2.0), 3: (64, 0.3), 8: (64, 1.0)}),
    plain={**_PLAIN, "batch_size": 16, "learning_rate": 0.1},
)
MNIST = _of_images("mnist-mlp", "MNIST, perceptron", "mnist", scattering=False)
MNIST_FEATURES = _of_images("mnist-scattering", "MNIST, scattering", "mnist", scattering=True)
FASHION = _of_images("fashion-mlp", "Fashion-MNIST, perceptron", "fashion-mnist", scattering=False)
FASHION_FEATURES = _of_images(
    "fashion-scattering", "Fashion-MNIST, scattering", "fashion-mnist", scattering=True
)
ADULT = Setting(
    name="adult",
    title="Adult, logistic regression",
    data=DataSet("adult", 32_561, AUC),
    model={"class": "node.models:Linear", "args": {"inputs": 107, "outputs": 2}},
    peers=3,
    honest=(2,),
    alone=DpSgd(1.0, {1: (1000, 1.0), 3: (250, 0.3), 8: (1000, 3.0)}),
    plain={**_PLAIN, "learning_rate": 0.01},
)
_USUAL = (DIGITS, MNIST, MNIST_FEATURES, ADULT)
SETTINGS = (*_USUAL, FASHION, FASHION_FEATURES)


USUAL: Where = {**SHARED, MEMBERS: tuple(of.honest[0] for of in SETTINGS)}
"""Shared noise for the number of honest members that is usual among so many."""
FEWER: Where = {**SHARED, MEMBERS: tuple(fewer for of in SETTINGS for fewer in of.honest[1:])}
"""Shared noise for fewer honest members."""
USUALLY_RUN = tuple(f"{of.name}-*" for of in _USUAL)
"""The arms of the others run only if the command line names them."""

# -- cells -------------------------------------------------------------------------------------------------


def _table(of: Setting, train: Mapping[str, Any], privacy: Mapping[str, Any]) -> Sections:
    return {"task": {"name": of.name}, "model": of.model, "train": train, "privacy": privacy}


def _private(mechanism: str, epsilon: int, **more: object) -> dict[str, object]:
    return {"mechanism": mechanism, "epsilon": epsilon, "delta": DELTA, **more}


def _shared_table(of: Setting, epsilon: int, honest: int) -> Sections:
    """A task with shared noise: all or none, so a group has all peers."""
    privacy = _private(DISTRIBUTED, epsilon, honest=honest - 1)
    least = {"aggregation": {"min_participants": of.peers}}
    return {**_table(of, {"expected_rows": of.data.rows}, privacy), **least}


def _server(of: Setting, kind: str, table: Sections, factors: Factors) -> Arm:
    data = of.data
    cell = ServerCell(f"{of.name}-{kind}", table, data.name, data.measure, scale=data.scale)
    return Arm(cell, {**of.where, **factors})


def _peers(of: Setting, kind: str, epsilon: int, table: Sections, factors: Factors) -> Arm:
    name, data = f"{of.name}-{kind}-eps{epsilon}", of.data
    cell = PeersCell(name, table, data.name, data.measure, scale=data.scale, peers=of.peers)
    return Arm(cell, {**of.where, **factors, "peers": of.peers, "epsilon": epsilon})


def _arms(of: Setting) -> Iterator[Arm]:
    yield _server(of, "pooled", _table(of, of.plain, {"mechanism": "none"}), POOLED)
    for epsilon in EPSILONS:
        table = _shared_table(of, epsilon, of.honest[0])
        yield _server(of, f"central-eps{epsilon}", table, {**CENTRAL, "epsilon": epsilon})
    for honest in of.honest:
        for epsilon in EPSILONS:
            table = _shared_table(of, epsilon, honest)
            yield _peers(of, f"{honest}-of-{of.peers}", epsilon, table, {**SHARED, MEMBERS: honest})
    for epsilon, (batch, rate) in of.alone.steps.items():
        train = {"rounds": ROUNDS, "epochs": 1, "batch_size": batch, "learning_rate": rate}
        table = _table(of, train, _private("dp-sgd", epsilon, clipping_radius=of.alone.clip))
        yield _peers(of, "dp-sgd", epsilon, table, ALONE)
    for epsilon in EPSILONS:
        table = _table(of, {**of.plain, "epochs": 1}, _private("ldp", epsilon))
        yield _peers(of, "ldp", epsilon, table, DATA_SETS)


ARMS: tuple[Arm, ...] = tuple(arm for of in SETTINGS for arm in _arms(of))


def own(path: str, parameters: Mapping[str, Any]) -> Cell:
    """An arm with a node's mechanism of the user's own, on the digits; `parameters` are keys of [privacy]."""
    table = _table(DIGITS, DIGITS.plain, {**parameters, "mechanism": path})
    task_of(table, 0)
    return PeersCell("own", table, DIGITS.data.name, DIGITS.data.measure, peers=DIGITS.peers)
