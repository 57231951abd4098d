"""The data sets of the scenarios: what there is, where it lies, and what to do where it does not.

A folder of data is laid out as `mnist/` with the publisher's four gzipped idx files,
`femnist_digits/femnist_digits.npz`, `adult/` with adult.data.gz and adult.test.gz, and
`loan/LoanStats3a_clean.csv.gz`. `digits` and `breast-cancer` come with scikit-learn.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from node.errors import ConfigError, shown
from scenarios.dataset import Damaged, Dataset
from scenarios.images import FEMNIST_FILE, MNIST_FILES, digits, femnist_digits, mnist
from scenarios.tabular import ADULT_FILES, LOAN_FILE, adult, breast_cancer, loan

VARIABLE = "MURMURATION_DATA"


@dataclass(frozen=True)
class Source:
    """A data set that can be loaded. `files` lie under the folder of data; none: scikit-learn has it."""

    name: str
    summary: str
    files: tuple[str, ...]
    remedy: str
    """What to do where its files are missing or damaged; `{folder}` stands for the folder of data."""
    read: Callable[[Path, np.random.Generator], Dataset]

    def advice(self, folder: Path) -> str:
        """What to do where its files are missing or damaged."""
        return self.remedy.format(folder=shlex.quote(str(folder)))


def data_folder(given: Path | None, environment: Mapping[str, str]) -> Path:
    """Where data lies: --data-dir, else MURMURATION_DATA, else the user's cache folder.

    The cache folder is XDG_CACHE_HOME/murmuration, where that is an absolute path (XDG Base Directory
    Specification 0.8), else ~/.cache/murmuration. Raises ConfigError for a user without a home.
    """
    if given is not None:
        return given
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE])
    cache = Path(environment.get("XDG_CACHE_HOME", ""))
    if cache.is_absolute():
        return cache / "murmuration"
    try:
        return Path.home() / ".cache" / "murmuration"
    except RuntimeError:
        raise ConfigError(
            f"no home folder is known to keep data in; give --data-dir, or set {VARIABLE}"
        ) from None


def source(name: str) -> Source:
    """The data set of that name. Raises ConfigError."""
    if name not in SOURCES:
        raise ConfigError(f"data set {shown(name)} is unknown; allowed: {', '.join(SOURCES)}")
    return SOURCES[name]


def load(name: str, folder: Path, rng: np.random.Generator) -> Dataset:
    """The data set of that name from `folder`; `rng` holds out test rows where the publisher names none.

    With `default_rng([seed, 1])` the test rows of `digits` are those of nodes with that task.seed.
    Raises ConfigError: an unknown name, files that are missing or damaged.
    """
    found = source(name)
    try:
        return found.read(folder, rng)
    except Damaged as error:
        raise ConfigError(f"data set {name}: {error}; {found.advice(folder)}") from None


EMBEDDED = "it comes with scikit-learn, there is nothing to get"

SOURCES = {
    entry.name: entry
    for entry in (
        Source("digits", "1,797 handwritten digits of 8 x 8 pixels", (), EMBEDDED, digits),
        Source("breast-cancer", "569 tumours, 30 features, 2 classes", (), EMBEDDED, breast_cancer),
        Source(
            "mnist",
            "60,000 + 10,000 handwritten digits of 28 x 28 pixels",
            MNIST_FILES,
            "get it with `python -m scenarios data mnist --data-dir {folder}`, or name a folder that has "
            "mnist/ with --data-dir",
            mnist,
        ),
        Source(
            "femnist-digits",
            "5,997 handwritten digits of 28 x 28 pixels by 12 clients",
            (FEMNIST_FILE,),
            "no publisher offers this file, so it can not be downloaded: copy one to "
            "{folder}/femnist_digits/femnist_digits.npz with the arrays images (n, 28, 28) uint8, dark ink "
            "on white, labels (n,), client (n,), or name a folder that has femnist_digits/ with --data-dir",
            femnist_digits,
        ),
        Source(
            "adult",
            "32,561 + 16,281 people of a census, 14 columns, 2 classes",
            ADULT_FILES,
            "it is not downloaded: gzip the publisher's adult.data and adult.test into {folder}/adult/, or "
            "name a folder that has adult/ with --data-dir",
            adult,
        ),
        Source(
            "loan",
            "39,786 loans, 16 columns, 2 classes, 50 states",
            (LOAN_FILE,),
            "it is not downloaded: copy LoanStats3a_clean.csv.gz to {folder}/loan/, or name a folder that "
            "has loan/ with --data-dir",
            loan,
        ),
    )
}
