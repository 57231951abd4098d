"""The files that publishers offer, and how the files that are read are made from them.

A digest is either stated by the publisher ("published"), or widely stated by programs that fetch the same
file, or stated by one study. None of the addresses was reachable when this list was written: sizes and
digests are those that are stated, and Adult's are also those of a copy. A file without a digest is pinned at
its first download (scenarios.data.downloads).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scenarios.data import nist_digits
from scenarios.data.cifar import read_batches
from scenarios.data.criteo import FILES as CRITEO_FILES
from scenarios.data.images import FEMNIST_FILE, read_images, read_labels
from scenarios.data.made_tables import (
    CRITEO_ARCHIVE,
    LOAN_ARCHIVE,
    check_criteo,
    check_loans,
    make_criteo,
    make_loans,
    pack,
)
from scenarios.data.tabular import ADULT_FILES, LOAN_FILE, read_adult

Check = Callable[[Path], object]
Make = Callable[..., None]


@dataclass(frozen=True)
class Digest:
    """A checksum: the name of its algorithm, its hexadecimal digits, and how it is known, said after "as"."""

    algorithm: str
    digits: str
    known: str


@dataclass(frozen=True)
class PublishedFile:
    """A published file. `size_bytes` and `digest` are None where nobody states them.

    `check` raises Damaged for a file whose structure is wrong.
    """

    name: str
    size_bytes: int | None
    digest: Digest | None
    check: Check


@dataclass(frozen=True)
class Recipe:
    """How files are made: `make(raw, *targets)` reads the folder `raw`, writes `targets`, or raises Damaged.

    `files` are the targets, relative to the data folder; `words` say what is done, after "made by".
    """

    files: tuple[str, ...]
    make: Make
    words: str


@dataclass(frozen=True)
class Published:
    """The published files of a data set, for `folder`; each of `mirrors` (they end in a slash) has all.

    `recipes`: what is made from them; none if they are read as they are.
    """

    folder: str
    mirrors: tuple[str, ...]
    files: tuple[PublishedFile, ...]
    recipes: tuple[Recipe, ...]


def _as_published(digits: str) -> Digest:
    return Digest("md5" if len(digits) == 32 else "sha256", digits, "published")


def _widely(digits: str) -> Digest:
    return Digest("sha256", digits, "widely stated")


def _by_one_study(digits: str) -> Digest:
    return Digest("sha256", digits, "one study states")


def _pack_adult(name: str) -> Make:
    return lambda raw, target: pack(raw / name, target)


PUBLISHED: dict[str, Published] = {
    # LeCun's own server no longer offers the files; these two have the same bytes.
    "mnist": Published(
        "mnist",
        (
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        (
            PublishedFile(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                _widely("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                read_images,
            ),
            PublishedFile(
                "train-labels-idx1-ubyte.gz",
                28_881,
                _widely("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
                read_labels,
            ),
            PublishedFile(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                _widely("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                read_images,
            ),
            PublishedFile(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                _widely("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
                read_labels,
            ),
        ),
        (),
    ),
    # The table "Get the Data" of the publisher's page states these MD5s.
    "fashion-mnist": Published(
        "fashion_mnist",
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        (
            PublishedFile(
                "train-images-idx3-ubyte.gz",
                26_421_880,
                _as_published("8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                read_images,
            ),
            PublishedFile(
                "train-labels-idx1-ubyte.gz",
                29_515,
                _as_published("25c81989df183df01b3e8a0aad5dffbe"),
                read_labels,
            ),
            PublishedFile(
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                _as_published("bef4ecab320f06d8554ea6380940ec79"),
                read_images,
            ),
            PublishedFile(
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                _as_published("bb300cfdad3c16e7a12a480ee83cd310"),
                read_labels,
            ),
        ),
        (),
    ),
    # The publisher's page states this MD5.
    "cifar-10": Published(
        "cifar10",
        ("https://www.cs.toronto.edu/~kriz/",),
        (
            PublishedFile(
                "cifar-10-binary.tar.gz",
                170_052_171,
                _as_published("c32a1d4ab5d03f1284b67883e8d87530"),
                read_batches,
            ),
        ),
        (),
    ),
    # NIST states an MD5 of the archive in a file of its own, which this list does not know.
    "femnist-digits": Published(
        "nist_sd19",
        ("https://s3.amazonaws.com/nist-srd/SD19/",),
        (
            PublishedFile(
                nist_digits.CLASSES,
                None,
                _by_one_study("b2a76dfb555a1fc3764672bb8514455727d28fbdd18df4ce5abbd85a879f430c"),
                nist_digits.read_classes,
            ),
            PublishedFile(
                nist_digits.ARCHIVE,
                568_113_446,
                _by_one_study("39958e28827eb0d7d54f7e4c31c6cc36689b38aa218a4fc1e810c5413e7a35b8"),
                nist_digits.check_archive,
            ),
        ),
        (
            Recipe(
                (FEMNIST_FILE,),
                nist_digits.make_femnist,
                f"drawing writers until they have {nist_digits.ROWS:,} digits, each a client, and scaling "
                "the images to 28 x 28 pixels",
            ),
        ),
    ),
    "adult": Published(
        "adult",
        ("https://archive.ics.uci.edu/ml/machine-learning-databases/adult/",),
        (
            PublishedFile(
                "adult.data",
                3_974_305,
                _widely("5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
                read_adult,
            ),
            PublishedFile(
                "adult.test",
                2_003_153,
                _widely("a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
                read_adult,
            ),
        ),
        (
            Recipe(ADULT_FILES[:1], _pack_adult("adult.data"), "compressing the file"),
            Recipe(ADULT_FILES[1:], _pack_adult("adult.test"), "compressing the file"),
        ),
    ),
    "loan": Published(
        "loan",
        ("https://resources.lendingclub.com/",),
        (PublishedFile(LOAN_ARCHIVE, None, None, check_loans),),
        (Recipe((LOAN_FILE,), make_loans, "keeping 16 columns of the loans that were paid or charged off"),),
    ),
    # Criteo's own server comes first; the second keeps the same file for a library of recommenders.
    "criteo": Published(
        "criteo",
        (
            "https://labs.criteo.com/wp-content/uploads/2015/04/",
            "https://huggingface.co/datasets/Recommenders/Criteo/resolve/main/",
        ),
        (PublishedFile(CRITEO_ARCHIVE, None, None, check_criteo),),
        (
            Recipe(
                CRITEO_FILES,
                make_criteo,
                "drawing 7,200, 409 and 391 rows for training, development and tests from the first 8,000",
            ),
        ),
    ),
}
