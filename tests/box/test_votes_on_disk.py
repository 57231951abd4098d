"""A vote, and the base that decides it, are stored whole or not at all: kills, no power, a full disk."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from node.system.disk import Disk
from node.system.errors import UserError
from tests.box.disk import BoxDisk, Files, Killed
from tests.votes import a_vote, charged, decides, is_sound, opened, vector, votes, votes_and_charges

POWER = pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])


class DyingDisk(BoxDisk):
    """The disk of a process that is killed before or after a wait for the disk."""

    def __init__(self, folder: Path, power: bool) -> None:
        super().__init__(folder, self._count)
        self._power = power
        self.moments_left = 0
        """The process is killed at the last of so many moments; never if there are none."""
        self.left: Files | None = None

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self._count("synced", self.folder)

    def commit(self, path: Path, connection: sqlite3.Connection, *, durable: bool) -> None:
        super().commit(path, connection, durable=durable)
        self._count("committed", path)

    def _count(self, _: str, path: Path) -> None:
        self.moments_left -= 1
        if self.moments_left == 0:
            self.left = self.on_disk(random.Random(str(path))) if self._power else self.written()
            self.is_frozen = True
            raise Killed


Does = Callable[[Path, Disk], object]


def stopped(folder: Path, power: bool, first: Does, then: Does) -> Iterator[Path]:
    """Does `first`, then `then` up to its first moment, its second, and so on; returns what each leaves."""
    for number in count(1):
        disk = DyingDisk(folder / str(number), power)
        disk.folder.mkdir()
        first(disk.folder, disk)
        disk.moments_left = number
        try:
            then(disk.folder, disk)
        except Killed:
            assert disk.left is not None
        disk.restore(disk.written() if disk.left is None else disk.left)
        disk.release()
        yield disk.folder
        if disk.left is None:
            return


@POWER
def test_no_release_without_its_vote_and_no_vote_without_its_charge(tmp_path: Path, power: bool) -> None:
    """The next step's charge is stored with the vote; the spend file's line is not waited for."""
    cases = stopped(tmp_path, power, lambda *where: charged(*where).close(), votes_and_charges)
    seen = {is_sound(folder) for folder in cases}
    assert seen - {(False, True, False)} == {
        (False, False, False),
        (True, True, False),
        (True, True, True),
    }


@POWER
def test_a_base_and_the_end_of_the_vote_that_it_decides_are_one_step(tmp_path: Path, power: bool) -> None:
    seen = set()
    for folder in stopped(tmp_path, power, votes, decides):
        with closing(opened(folder)) as state:
            assert (state.base.generation, bool(state.votes)) in ((0, True), (1, False))
            assert np.array_equal(state.base_vector, vector(state.base.generation))
            seen.add(state.base.generation)
    assert seen == {0, 1}


def test_on_a_full_disk_nothing_is_voted_and_it_is_said_in_one_line(tmp_path: Path) -> None:
    """The release follows the stored vote, so it is never sent."""
    disk = BoxDisk(tmp_path, lambda *_: None)
    with closing(opened(tmp_path, disk)) as state:
        disk.is_full = True
        with pytest.raises(UserError, match="full"):
            state.bind(a_vote(state))
        assert state.votes == {}
    disk.release()
    with closing(opened(tmp_path)) as state:
        assert state.votes == {}
