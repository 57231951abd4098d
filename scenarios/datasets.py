"""The data sets of the scenarios: where they lie, and each as one value of arrays.

A folder of data is laid out as `mnist/` with the publisher's four gzipped idx files, and
`femnist_digits/femnist_digits.npz`. `digits` and `breast-cancer` come with scikit-learn.
"""

from __future__ import annotations

import gzip
import shlex
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from node import partition
from node.errors import ConfigError, reason, shown

VARIABLE = "MURMURATION_DATA"
TEST_SHARE = 0.2
"""The share of the rows that is held out where the publisher names no test rows."""

PIXELS = (28, 28)
DIGITS = 10
MOST_BYTES = 1 << 30
"""What a file may hold when unpacked."""

UNREADABLE = (
    *(OSError, EOFError, ValueError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, RuntimeError),  # RuntimeError: encrypted, or packed in an unknown way
)
"""What reading a damaged file may raise."""

Bytes = NDArray[np.uint8]
Rows = NDArray[np.int64]


class Damaged(Exception):
    """A file is not what it should be; `str(error)` says which and why."""


@dataclass(frozen=True)
class Dataset:
    """All rows of a data set.

    `train_x` and `test_x` are float32 (n, ...), `train_y` and `test_y` int64 (n,) in 0..classes-1.
    `clients`, int64 (training rows,), names whose each training row is; None where nobody's.
    """

    train_x: NDArray[np.float32]
    train_y: Rows
    test_x: NDArray[np.float32]
    test_y: Rows
    clients: Rows | None
    classes: int
    description: str


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


# ---- MNIST


def mnist(folder: Path, _rng: np.random.Generator) -> Dataset:
    """MNIST as published: images (n, 1, 28, 28) from 0 to 1, ink bright; LeCun et al. 1998."""
    train, test = (_mnist_half(folder, *files) for files in (MNIST_FILES[:2], MNIST_FILES[2:]))
    description = (
        f"mnist: {len(train[1])} training and {len(test[1])} test images of 28 x 28 pixels, ink bright, "
        f"{DIGITS} classes"
    )
    return Dataset(*train, *test, None, DIGITS, description)


def _mnist_half(folder: Path, images: str, labels: str) -> tuple[NDArray[np.float32], Rows]:
    pixels, targets = read_images(folder / images), read_labels(folder / labels)
    if len(pixels) != len(targets):
        raise Damaged(f"{folder / images} has {len(pixels)} images, {labels} has {len(targets)} labels")
    return _bright(pixels), targets


def read_images(path: Path) -> Bytes:
    """The images (n, 28, 28) of a gzipped idx file. Raises Damaged."""
    images = read_idx(path, 3)
    if images.shape[1:] != PIXELS:
        raise Damaged(f"{path} holds images of shape {images.shape[1:]}, not {PIXELS}")
    return images


def read_labels(path: Path) -> Rows:
    """The labels (n,) of a gzipped idx file. Raises Damaged."""
    return _labels(path, "label", read_idx(path, 1))


def read_idx(path: Path, dimensions: int) -> Bytes:
    """The array of bytes in a gzipped idx file: a magic number, each dimension, then the values.

    Format: http://yann.lecun.com/exdb/mnist, "The IDX file format"; 0x08 stands for unsigned bytes.
    No more is unpacked than the header announces. Raises Damaged.
    """
    try:
        with gzip.open(path, "rb") as file:
            return _idx_values(path, file, _idx_shape(path, file, dimensions))
    except UNREADABLE as error:
        raise Damaged(f"{path} can not be read ({reason(error)})") from None


def _idx_shape(path: Path, file: gzip.GzipFile, dimensions: int) -> tuple[int, ...]:
    header = file.read(4 * (1 + dimensions))
    magic = bytes((0, 0, 8, dimensions))
    if len(header) >= len(magic) and not header.startswith(magic):
        raise Damaged(f"{path} begins with {header[:4].hex()}, not {magic.hex()}")
    if len(header) != 4 * (1 + dimensions):
        raise Damaged(f"{path} ends within its header")
    return tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))


def _idx_values(path: Path, file: gzip.GzipFile, shape: tuple[int, ...]) -> Bytes:
    announced = prod(shape)
    if not 0 < announced <= MOST_BYTES:
        raise Damaged(f"{path} announces {announced} bytes in shape {shape}; allowed: 1 to {MOST_BYTES}")
    values = file.read(announced + 1)  # one more: the checksum is looked at when the end is reached
    if len(values) != announced:
        has = "more" if len(values) > announced else str(len(values))
        raise Damaged(f"{path} announces {announced} bytes in shape {shape} and has {has}")
    return np.frombuffer(values, np.uint8).reshape(shape)


# ---- FEMNIST


def femnist_digits(folder: Path, rng: np.random.Generator) -> Dataset:
    """FEMNIST's digits by client: images (n, 1, 28, 28) from 0 to 1, inverted, so that ink is bright.

    The file has dark ink on white. A fifth of each client's rows is held out, alike in their labels.
    """
    pixels, labels, clients = read_femnist(folder / FEMNIST_FILE)
    kept, held_out = partition.hold_out(clients * DIGITS + labels, TEST_SHARE, rng)
    x = _bright(255 - pixels)
    description = (
        f"femnist-digits: {len(kept)} training and {len(held_out)} test images of 28 x 28 pixels by "
        f"{len(np.unique(clients))} clients, inverted so that ink is bright, {DIGITS} classes"
    )
    return _split(x, labels, kept, held_out, clients[kept], DIGITS, description)


def read_femnist(path: Path) -> tuple[Bytes, Rows, Rows]:
    """Images (n, 28, 28) as they lie in the file, labels (n,) and clients (n,). Raises Damaged."""
    images, labels, clients = _arrays(path, "images", "labels", "client")
    if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != PIXELS:
        raise Damaged(f"{path}: images are {images.dtype} {images.shape}, not uint8 (n, 28, 28)")
    if len(images) < 2 or {labels.shape, clients.shape} != {images.shape[:1]}:
        raise Damaged(
            f"{path}: images are {images.shape}, labels {labels.shape}, client {clients.shape}; "
            "allowed: (n, 28, 28), (n,), (n,), n at least 2"
        )
    if images.mean() < 127.5:
        raise Damaged(f"{path}: ink is bright (mean pixel {images.mean():.0f}), not dark on white")
    return images, _labels(path, "label", labels), _labels(path, "client", clients, np.iinfo(np.int32).max)


def _arrays(path: Path, *names: str) -> list[NDArray]:
    """The arrays called `names` of an npz file; nothing in it is ever unpickled. Raises Damaged."""
    try:
        with path.open("rb") as file:
            _refuse_large(path, file)
            with np.load(file, allow_pickle=False) as arrays:
                return [arrays[name] for name in names]
    except KeyError as error:
        raise Damaged(f"{path}: {error.args[0]}") from None
    except UNREADABLE as error:
        raise Damaged(f"{path} can not be read ({reason(error)})") from None


def _refuse_large(path: Path, file: BinaryIO) -> None:
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > MOST_BYTES:
        raise Damaged(f"{path} unpacks to {unpacked} bytes; allowed: {MOST_BYTES}")
    file.seek(0)


# ---- What comes with scikit-learn


def digits(_folder: Path, rng: np.random.Generator) -> Dataset:
    """Scikit-learn's handwritten digits: pixels (n, 64) from 0 to 1, as the nodes' task has them."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  seconds to import, needed here only

    bunch = load_digits()
    labels = bunch.target.astype(np.int64)
    kept, held_out = partition.hold_out(labels, TEST_SHARE, rng)
    description = (
        f"digits: {len(kept)} training and {len(held_out)} test images of 8 x 8 pixels, {DIGITS} classes"
    )
    return _split((bunch.data / 16).astype(np.float32), labels, kept, held_out, None, DIGITS, description)


def breast_cancer(_folder: Path, rng: np.random.Generator) -> Dataset:
    """Wisconsin diagnostic breast cancer (Street et al. 1993): x (n, 30), y 0 malignant, 1 benign.

    Each feature is standardised by the mean and standard deviation of all training rows. No mechanism's
    guarantee covers what these tell.
    """
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415  seconds to import, needed here only

    bunch = load_breast_cancer()
    labels = bunch.target.astype(np.int64)
    kept, held_out = partition.hold_out(labels, TEST_SHARE, rng)
    mean, std = bunch.data[kept].mean(axis=0), bunch.data[kept].std(axis=0)
    description = (
        f"breast-cancer: {len(kept)} training and {len(held_out)} test rows of {len(mean)} features, "
        f"standardised over the training rows, 2 classes, {np.mean(labels == 1):.1%} benign"
    )
    return _split(
        ((bunch.data - mean) / std).astype(np.float32), labels, kept, held_out, None, 2, description
    )


# ---- Parts in common


def _bright(images: Bytes) -> NDArray[np.float32]:
    """Bytes (n, 28, 28) as numbers (n, 1, 28, 28) from 0 to 1."""
    x = images[:, None].astype(np.float32)
    x /= 255  # in place: MNIST is 188 MB
    return x


def _labels(path: Path, name: str, values: NDArray, most: int = DIGITS - 1) -> Rows:
    """`values` (n,), n >= 1, as int64, if they are whole numbers from 0 to `most`. Raises Damaged."""
    if values.dtype.kind not in "iu":
        raise Damaged(f"{path}: {name}s are {values.dtype}; allowed: whole numbers")
    for value in (values.min(), values.max()):
        if not 0 <= value <= most:
            raise Damaged(f"{path}: {name} {value} is not allowed; 0 to {most}")
    return values.astype(np.int64)


def _split(
    x: NDArray[np.float32],
    y: Rows,
    kept: Rows,
    held_out: Rows,
    clients: Rows | None,
    classes: int,
    description: str,
) -> Dataset:
    return Dataset(x[kept], y[kept], x[held_out], y[held_out], clients, classes, description)


MNIST_FILES = (
    "mnist/train-images-idx3-ubyte.gz",
    "mnist/train-labels-idx1-ubyte.gz",
    "mnist/t10k-images-idx3-ubyte.gz",
    "mnist/t10k-labels-idx1-ubyte.gz",
)
FEMNIST_FILE = "femnist_digits/femnist_digits.npz"
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
    )
}
