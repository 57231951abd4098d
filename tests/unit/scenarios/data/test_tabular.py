"""Adult and the loans: small files as the publishers write them, and what is wrong with others."""

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest

from scenarios.data.dataset import Damaged
from scenarios.data.tabular import ADULT_FILES, LOAN, LOAN_FILE, adult, loan

ROWS = [
    "39, State-gov, 77516, Bachelors, 13, Single, Adm-clerical, Husband, White, Male, 9, 0, 40, Cuba, <=50K",
    "50, Private, 83311, HS-grad, 9, Divorced, Sales, Wife, Black, Female, 0, 0, 13, India, >50K",
    "28, Private, 338409, HS-grad, 9, Divorced, ?, Wife, Black, Female, 0, 0, 40, Cuba, <=50K",
]
TEST = [
    "|1x3 Cross validator",
    "61, Private, 226802, 11th, 7, Divorced, Sales, Wife, White, Male, 0, 0, 40, Cuba, >50K.",
]
LOANS = [
    "5000,36 months,10+ years,RENT,24000,Verified,860xx,AZ,0,1,3,0,13648,83.70%,9,Fully Paid",
    "2500,60 months,< 1 year,RENT,30000,Source Verified,309xx,GA,0,5,3,0,1687,9.40%,4,Charged Off",
    "7500,36 months,3 years,OWN,0,Verified,309xx,GA,2,0,7,0,0,,6,Fully Paid",
    "2400,36 months,1 year,OWN,12252,Not Verified,606xx,IL,0,2,2,0,2956,98.50%,10,Charged Off",
]


def packed(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n\n").encode()))


def adult_of(folder: Path, rows: list[str], test: list[str]):
    packed(folder / ADULT_FILES[0], rows)
    packed(folder / ADULT_FILES[1], test)
    return adult(folder, np.random.default_rng(0))


def loan_of(folder: Path, rows: list[str], header: str = ",".join(LOAN.header)):
    packed(folder / LOAN_FILE, [header, *rows])
    return loan(folder, np.random.default_rng(0))


def test_adult_as_published_and_what_is_missing_is_a_category(tmp_path):
    found = adult_of(tmp_path, ROWS, TEST)
    assert found.train_y.tolist() == [0, 1, 0]
    assert found.test_y.tolist() == [1]
    assert found.train_x.dtype == np.float32
    ages = np.array([39, 50, 28])
    np.testing.assert_allclose(found.train_x[:, 0], (ages - ages.mean()) / ages.std(), rtol=1e-6)
    np.testing.assert_allclose(found.test_x[:, 0], (61 - ages.mean()) / ages.std(), rtol=1e-6)
    assert (found.train_x[:, 3] == 0).all()  # capital-loss: all alike, and so of no deviation
    assert found.train_x[0, 5:7].tolist() == [0, 1]  # workclass: Private, State-gov
    assert found.train_x[:, 5:].sum(axis=1).tolist() == [8, 8, 8]
    assert found.test_x[0, 5:].sum() == 7  # its education is no column
    assert "1 cells of test rows hold categories never seen" in found.description
    assert found.clients is None
    occupations = found.train_x[:, 5 + 2 + 2 + 2 :][:, :3]  # ?, Adm-clerical, Sales
    assert occupations.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_loans_as_published(tmp_path: Path) -> None:
    found = loan_of(tmp_path, LOANS * 5)
    assert len(found.train_y) == 16
    assert len(found.test_y) == 4
    assert found.classes == 2
    assert sorted(np.concatenate([found.train_y, found.test_y]).tolist()) == [0] * 10 + [1] * 10
    assert set(found.clients.tolist()) == {0, 1, 2}
    assert "3 states" in found.description
    assert np.isfinite(found.train_x).all()


def test_a_loans_numbers(tmp_path: Path) -> None:
    found = loan_of(tmp_path, LOANS * 25)
    names = list(LOAN.numbers)
    own = {name: found.train_x[:, names.index(name)] for name in names}
    income = {24000: 0, 30000: 0, 0: 0, 12252: 0}
    assert len(np.unique(own["annual_inc"])) == len(income)
    spread = np.ptp([math.log1p(value) for value in income])
    ratio = np.ptp(own["annual_inc"]) / spread
    middle = sorted(np.unique(own["annual_inc"]))[1] - own["annual_inc"].min()
    assert middle == pytest.approx(ratio * math.log1p(12252), rel=1e-5)
    years = np.unique(own["emp_length"])
    np.testing.assert_allclose((years - years[0]) / np.ptp(years), [0, 0.1, 0.3, 1], rtol=1e-5)
    assert 0.0 in own["revol_util"]  # missing: the mean


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [rows[0].replace("39,", "old,")], "age = 'old' cannot be read as a number"),
        (lambda rows: [rows[0].replace("<=50K", "poor")], "income = 'poor'; allowed: <=50K, >50K"),
        (lambda rows: [rows[0] + ", more"], "line 1: 16 columns; allowed: 15"),
        (lambda rows: [], "has no rows"),
    ],
)
def test_what_is_wrong_with_an_adult_file(tmp_path: Path, change, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        adult_of(tmp_path, change(ROWS), TEST)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a," + ",".join(LOAN.header[1:]), "it lacks loan_amnt; allowed: loan_amnt, term"),
        (",".join(LOAN.header) + ",x", "it has 'x'"),
        (",".join(reversed(LOAN.header)), "it has another order"),
    ],
)
def test_a_table_with_other_columns(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(Damaged, match=message):
        loan_of(tmp_path, LOANS, header)


def test_files_and_lengths_that_can_not_be_read(tmp_path):
    with pytest.raises(Damaged, match="cannot be read"):
        adult(tmp_path, np.random.default_rng(0))
    adult_of(tmp_path, ROWS, TEST)
    whole = (tmp_path / ADULT_FILES[0]).read_bytes()
    (tmp_path / ADULT_FILES[0]).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged, match=r"adult.data.gz cannot be read"):
        adult(tmp_path, np.random.default_rng(0))
    with pytest.raises(Damaged, match="emp_length = 'ages' cannot be read"):
        loan_of(tmp_path, [LOANS[0].replace("10+ years", "ages"), *LOANS])


@pytest.mark.skipif("MURMURATION_DATA" not in os.environ, reason="needs MURMURATION_DATA")
def test_the_real_tables() -> None:
    folder, rng = Path(os.environ["MURMURATION_DATA"]), np.random.default_rng(0)
    census, loans = adult(folder, rng), loan(folder, rng)
    assert census.train_x.shape == (32561, 107)
    assert census.test_x.shape == (16281, 107)
    assert census.train_y.mean() == pytest.approx(0.2408, abs=1e-4)
    assert len(loans.train_y) + len(loans.test_y) == 39786
    assert loans.train_y.sum() + loans.test_y.sum() == 5670
    assert len(np.unique(loans.clients)) == 50
