"""Arms of scenario `nbafl`, run on images of bars."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from node.task.sections import ModelSection
from scenarios.clients.choices import RowChoice
from scenarios.clients.work import ClientWork, Crew
from scenarios.data.criteo import Criteo
from scenarios.data.dataset import FederatedDataset
from scenarios.engines.room import LocalRoom
from scenarios.federated.cell import FederatedCell
from scenarios.systems.nbafl.arms import ARMS, CELLS, WAYS
from tests.unit.scenarios.rooms import room
from tests.unit.scenarios.systems.test_nbafl import NO_NOISE, TEST, mnist_arm, table_arm

BY_NAME = {arm.arm: arm.cell for arm in ARMS}
FEDERATEDSCOPE, PAPER = WAYS
MOST = CELLS[-1]


@dataclass(frozen=True)
class SmallRoom:
    """A room with a data set of its own."""

    data: FederatedDataset
    _local: LocalRoom = field(default_factory=room)

    @property
    def data_dir(self) -> Path:
        return Path()

    def dataset(self, name: str, seed: int) -> FederatedDataset:
        return self.data

    def vertical(self, name: str) -> Criteo:
        return self._local.vertical(name)

    @contextmanager
    def crew(self, work: ClientWork) -> Iterator[Crew]:
        with self._local.crew(work) as crew:
            yield crew

    def say(self, round: int, figure: float) -> None:
        """Nobody listens."""


def bars(rows: int = 1200) -> FederatedDataset:
    """Images of a bright bar, whose place tells the label, by 12 writers."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, rows)
    x = 0.2 * rng.random((rows, 1, 28, 28), np.float32)
    for image, label in zip(x, labels, strict=True):
        image[0, 2 * label + 2 : 2 * label + 5, 4:24] += 0.4
    half = rows // 2
    return FederatedDataset(
        x[:half], labels[:half], x[half:], labels[half:], np.arange(half) % 12, 10, "bars"
    )


@pytest.fixture(scope="module")
def small() -> SmallRoom:
    return SmallRoom(bars())


def shortened(arm: str) -> FederatedCell:
    """Few rounds, at a rate at which bars are learned in them."""
    cell = BY_NAME[arm].changed({"train": {"rounds": 6, "learning_rate": 0.05}})
    return replace(cell, clients=replace(cell.clients, count=min(24, cell.clients.count)))


def test_arms_of_the_writers_run_and_much_noise_costs(small):
    arms = (NO_NOISE, TEST, table_arm(FEDERATEDSCOPE, *MOST), table_arm(PAPER, *MOST))
    quiet, tested, theirs, papers = (shortened(arm).replay(small) for arm in arms)
    assert quiet.final > 0.9
    assert papers.final < theirs.final < quiet.final
    assert tested.facts["largest upload noise std"] < theirs.facts["largest upload noise std"]
    assert theirs.facts["epsilon"] is None


def test_mnist_arms_run_on_rows_of_images(small):
    cell = replace(
        BY_NAME[mnist_arm(100.0, 50)],
        rows=RowChoice("mnist", 500),
        model=ModelSection("node.models:MLP", {"sizes": [784, 16, 10]}),
    ).lasting(3)
    outcome = cell.replay(small)
    assert len(outcome.figures) == 3
    assert outcome.facts["epsilon"] > outcome.facts["stated"] == 100.0


def test_the_same_seed_gives_the_same_and_another_does_not(small):
    cell = shortened(table_arm(PAPER, *MOST)).lasting(2)
    once, again, other = (cell.seeded(seed).replay(small) for seed in (1, 1, 2))
    assert (once.figures, once.facts) == (again.figures, again.facts)
    assert once.facts["model sha256"] != other.facts["model sha256"]
