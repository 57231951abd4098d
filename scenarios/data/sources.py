"""The data sets of the scenarios: their names, their files, and advice for missing files.

A data folder contains `mnist/` and `fashion_mnist/`, each with its publisher's four gzipped idx files,
`cifar10/cifar-10-binary.tar.gz`, `femnist_digits/femnist_digits.npz`, `adult/` with adult.data.gz and
adult.test.gz, `loan/LoanStats3a_clean.csv.gz`, and `criteo/` with train.tsv.gz, dev.tsv.gz and test.tsv.gz.
`python -m scenarios data NAME` downloads each of them, or makes it from what its publisher offers
(scenarios.data.published). `digits` and `breast-cancer` come with scikit-learn.

Most are a FederatedDataset, rows with a class each. `criteo` is divided between two parties, so it has a
loader of its own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from node.system.errors import ConfigError, shown
from scenarios.data import origins
from scenarios.data.cifar import CIFAR_FILE, cifar_10
from scenarios.data.criteo import FILES as CRITEO_FILES
from scenarios.data.criteo import Criteo, criteo
from scenarios.data.dataset import Damaged, FederatedDataset
from scenarios.data.images import (
    FASHION_FILES,
    FEMNIST_FILE,
    MNIST_FILES,
    digits,
    fashion_mnist,
    femnist_digits,
    mnist,
)
from scenarios.data.origins import Origin
from scenarios.data.tabular import ADULT_FILES, LOAN_FILE, adult, breast_cancer, loan

Data = TypeVar("Data")

VARIABLE = "MURMURATION_DATA"
CRITEO_THRESHOLD = 10
"""A category has an id of its own if more training rows than this have it."""


@dataclass(frozen=True)
class Source(Generic[Data]):
    """A data set that can be loaded. `files` are relative to the data folder; none: scikit-learn has it."""

    name: str
    summary: str
    files: tuple[str, ...]
    origin: Origin
    remedy: str
    """Advice for missing or damaged files; `{folder}` stands for the data folder."""
    read: Callable[[Path, np.random.Generator], Data]

    def advice(self, folder: Path) -> str:
        """Advice for missing or damaged files in `folder`."""
        return self.remedy.format(folder=shlex.quote(str(folder)))


def data_folder(given: Path | None, environment: Mapping[str, str]) -> Path:
    """The data folder: --data-dir, else MURMURATION_DATA, else the user's cache folder.

    The cache folder is XDG_CACHE_HOME/murmuration if that is an absolute path (XDG Base Directory
    Specification 0.8), else ~/.cache/murmuration. Raises ConfigError for a user without a home directory.
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


def source(name: str) -> Source[Any]:
    """The data set of that name, of either kind. Raises ConfigError for an unknown name."""
    return _among(ALL, name)


def _among(sources: Mapping[str, Source[Data]], name: str) -> Source[Data]:
    if name not in sources:
        raise ConfigError(f"data set {shown(name)} is unknown; allowed: {', '.join(sources)}")
    return sources[name]


def load(name: str, folder: Path, rng: np.random.Generator) -> FederatedDataset:
    """Load a data set from `folder`; `rng` draws the test rows if the publisher names none.

    With `default_rng([seed, 1])`, `digits` has the same test rows as nodes with that task.seed.
    Raises ConfigError for an unknown name, or for missing or damaged files.
    """
    return _read(_among(SOURCES, name), folder, rng)


def load_vertical(name: str, folder: Path) -> Criteo:
    """Load the rows of two parties from `folder`.

    Raises ConfigError for an unknown name, or for missing or damaged files.
    """
    return _read(_among(VERTICAL, name), folder, np.random.default_rng(0))


def _read(found: Source[Data], folder: Path, rng: np.random.Generator) -> Data:
    try:
        return found.read(folder, rng)
    except Damaged as error:
        raise ConfigError(f"data set {found.name}: {error}; {found.advice(folder)}") from None


EMBEDDED = "it comes with scikit-learn, there is nothing to get"


def _fetched(
    name: str,
    summary: str,
    files: tuple[str, ...],
    origin: Origin,
    read: Callable[[Path, np.random.Generator], Data],
) -> Source[Data]:
    """A data set that `scenarios data` downloads, or makes from what it downloads."""
    remedy = (
        f"get it with `python -m scenarios data {name} --data-dir {{folder}}`, or name a folder that has "
        f"{Path(files[0]).parent}/ with --data-dir"
    )
    return Source(name, summary, files, origin, remedy, read)


SOURCES: dict[str, Source[FederatedDataset]] = {
    entry.name: entry
    for entry in (
        Source(
            "digits",
            "1,797 handwritten digits of 8 x 8 pixels",
            (),
            origins.DIGITS,
            EMBEDDED,
            digits,
        ),
        Source(
            "breast-cancer",
            "569 tumours, 30 features, 2 classes",
            (),
            origins.BREAST_CANCER,
            EMBEDDED,
            breast_cancer,
        ),
        _fetched(
            "mnist",
            "60,000 + 10,000 handwritten digits of 28 x 28 pixels",
            MNIST_FILES,
            origins.MNIST,
            mnist,
        ),
        _fetched(
            "fashion-mnist",
            "60,000 + 10,000 pictures of clothes of 28 x 28 pixels",
            FASHION_FILES,
            origins.FASHION_MNIST,
            fashion_mnist,
        ),
        _fetched(
            "cifar-10",
            "50,000 + 10,000 colour photographs of 32 x 32 pixels, 10 classes",
            (CIFAR_FILE,),
            origins.CIFAR_10,
            cifar_10,
        ),
        _fetched(
            "femnist-digits",
            "about 6,000 handwritten digits of 28 x 28 pixels by client",
            (FEMNIST_FILE,),
            origins.NIST,
            femnist_digits,
        ),
        _fetched(
            "adult",
            "32,561 + 16,281 people of a census, 14 columns, 2 classes",
            ADULT_FILES,
            origins.ADULT,
            adult,
        ),
        _fetched(
            "loan",
            "39,786 loans, 16 columns, 2 classes, 50 states",
            (LOAN_FILE,),
            origins.LOAN,
            loan,
        ),
    )
}
"""Data sets of rows with a class each."""

VERTICAL: dict[str, Source[Criteo]] = {
    entry.name: entry
    for entry in (
        _fetched(
            "criteo",
            "7,200 + 409 + 391 shown advertisements, 39 columns of two parties, clicked or not",
            CRITEO_FILES,
            origins.CRITEO,
            lambda folder, rng: criteo(folder, CRITEO_THRESHOLD),
        ),
    )
}
"""Data sets whose columns are divided between two parties."""

ALL: dict[str, Source[Any]] = {**SOURCES, **VERTICAL}
