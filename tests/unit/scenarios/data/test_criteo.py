"""Criteo's rows: ids and weights, the fields of each party, and what is refused."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from scenarios.data.criteo import CATEGORIES, FILES, FOLLOWER, LEADER, NUMBERS, criteo
from scenarios.data.dataset import Damaged


def line(label: int, numbers: dict[int, int], category: str) -> str:
    own = [str(numbers.get(field, "")) for field in range(NUMBERS)]
    return "\t".join([str(label), *own, *[category] * CATEGORIES])


TRAIN = [
    line(0, {0: 4, 7: 10, 8: -3}, "aaaaaaaa"),
    line(1, {0: 8, 7: 5}, "aaaaaaaa"),
    line(0, {}, "bbbbbbbb"),
    line(0, {0: 2}, ""),
]


def written(folder: Path, *halves: list[str]) -> Path:
    for name, lines in zip(FILES, halves, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(gzip.compress(("\n".join(lines) + "\n").encode() if lines else b""))
    return folder


def test_numbers_are_weights_and_categories_ids_of_the_party_that_holds_them(tmp_path):
    assert sorted((*LEADER, *FOLLOWER)) == list(range(NUMBERS + CATEGORIES))
    assert (len(LEADER), len(FOLLOWER)) == (20, 19)
    other = [line(1, {0: 16}, "cccccccc"), line(0, {0: 8}, "aaaaaaaa")]
    found = criteo(written(tmp_path, TRAIN, other, other), 1)
    assert found.train.labels.tolist() == [0, 1, 0, 0]
    leader, follower = found.train.leader, found.train.follower
    assert leader.weights[:, 0].tolist() == [0.5, 1.0, 0.0, 0.25]
    assert follower.weights[:, 0].tolist() == [1.0, 0.5, 0.0, 0.0]
    assert follower.weights[0, 1] == -3.0  # no value above 1: divided by 1
    assert found.dev.leader.weights[0, 0] == 2.0  # by the training rows' largest
    assert (leader.weights[:, 7:] == 1).all()
    # Of a category column two ids: 0 for what is rare, unknown or missing, 1 for aaaaaaaa.
    assert leader.vocabulary == 7 + 13 * 2
    assert follower.vocabulary == 6 + 13 * 2
    assert leader.ids[0].tolist() == [*range(7), *range(8, 8 + 26, 2)]
    assert leader.ids[2].tolist() == [*range(7), *range(7, 7 + 26, 2)]
    assert found.test.follower.ids[0].tolist() == [*range(6), *range(6, 6 + 26, 2)]
    assert "26 categories seen more than 1 times" in found.description


def test_the_threshold_is_to_be_exceeded(tmp_path: Path) -> None:
    folder = written(tmp_path, TRAIN, TRAIN, TRAIN)
    assert criteo(folder, 2).train.leader.vocabulary == 7 + 13
    assert criteo(folder, 0).train.leader.vocabulary == 7 + 13 * 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("1\t2", "line 1: 2 columns; allowed: 40"),
        (line(2, {}, ""), "label '2'; allowed: 0 or 1"),
        (line(0, {}, "AAAAAAAA"), "'AAAAAAAA' is not 8 hex digits"),
        (line(0, {}, "").replace("\t", "\t1.5", 1), "'1.5' is not a whole number"),
        ("0" * 5000, "longer than 4096 bytes"),
    ],
)
def test_what_is_wrong_with_a_row(tmp_path: Path, wrong: str, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        criteo(written(tmp_path, [wrong], TRAIN, TRAIN), 1)


def test_files_that_are_empty_or_broken(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="cannot be read"):
        criteo(tmp_path, 1)
    with pytest.raises(Damaged, match=r"dev.tsv.gz has no rows"):
        criteo(written(tmp_path, TRAIN, [], TRAIN), 1)
    whole = (tmp_path / FILES[0]).read_bytes()
    (tmp_path / FILES[0]).write_bytes(whole[:-9])
    with pytest.raises(Damaged, match=r"train.tsv.gz cannot be read"):
        criteo(tmp_path, 1)


@pytest.mark.skipif("MURMURATION_DATA" not in os.environ, reason="needs MURMURATION_DATA")
def test_the_real_rows() -> None:
    found = criteo(Path(os.environ["MURMURATION_DATA"]), 10)
    assert [len(part.labels) for part in (found.train, found.dev, found.test)] == [7200, 409, 391]
    assert found.train.labels.mean() == pytest.approx(0.2151, abs=1e-4)
    for part in (found.train, found.dev, found.test):
        for party in (part.leader, part.follower):
            assert party.ids.min() >= 0
            assert party.ids.max() < party.vocabulary
            assert np.isfinite(party.weights).all()
