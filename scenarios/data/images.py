"""Small grey images: MNIST, Fashion-MNIST, FEMNIST's digits, and the digits of scikit-learn."""

from __future__ import annotations

import gzip
import zipfile
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.data import partition
from node.system.errors import reason
from scenarios.data.dataset import TEST_SHARE, UNREADABLE, Damaged, FederatedDataset, Integers, split

MNIST_FILES = (
    "mnist/train-images-idx3-ubyte.gz",
    "mnist/train-labels-idx1-ubyte.gz",
    "mnist/t10k-images-idx3-ubyte.gz",
    "mnist/t10k-labels-idx1-ubyte.gz",
)
FASHION_FILES = tuple(f"fashion_{name}" for name in MNIST_FILES)
FEMNIST_FILE = "femnist_digits/femnist_digits.npz"

PIXELS = (28, 28)
DIGITS = 10
MOST_BYTES = 1 << 30
"""The most bytes that a file may unpack to."""

Bytes = NDArray[np.uint8]


# ---- MNIST


def mnist(folder: Path, _rng: np.random.Generator) -> FederatedDataset:
    """MNIST as published: images (n, 1, 28, 28) from 0 to 1, ink bright; LeCun et al. 1998."""
    return _four_files(folder, "mnist", MNIST_FILES, "ink bright")


def fashion_mnist(folder: Path, _rng: np.random.Generator) -> FederatedDataset:
    """Fashion-MNIST as published: clothes (n, 1, 28, 28) from 0 to 1; Xiao et al. 2017."""
    return _four_files(folder, "fashion-mnist", FASHION_FILES, "clothes")


def _four_files(folder: Path, name: str, files: tuple[str, ...], content: str) -> FederatedDataset:
    """A data set in MNIST's format: images and labels for training, then for tests."""
    halves = []
    for images, labels in (files[:2], files[2:]):
        pixels, targets = read_images(folder / images), read_labels(folder / labels)
        if len(pixels) != len(targets):
            raise Damaged(f"{folder / images} has {len(pixels)} images, {labels} has {len(targets)} labels")
        halves.append((_bright(pixels), targets))
    train, test = halves
    description = (
        f"{name}: {len(train[1])} training and {len(test[1])} test images of 28 x 28 pixels, {content}, "
        f"{DIGITS} classes"
    )
    return FederatedDataset(*train, *test, None, DIGITS, description)


def read_images(path: Path) -> Bytes:
    """The images (n, 28, 28) of a gzipped idx file. Raises Damaged."""
    images = read_idx(path, 3)
    if images.shape[1:] != PIXELS:
        raise Damaged(f"{path} holds images of shape {images.shape[1:]}, not {PIXELS}")
    return images


def read_labels(path: Path) -> Integers:
    """The labels (n,) of a gzipped idx file. Raises Damaged."""
    return _labels(path, "label", read_idx(path, 1))


def read_idx(path: Path, dimensions: int) -> Bytes:
    """The array of bytes in a gzipped idx file: a magic number, each dimension, then the values.

    Format: http://yann.lecun.com/exdb/mnist, "The IDX file format"; 0x08 stands for unsigned bytes.
    No more is unpacked than the header announces. Raises Damaged.
    """
    try:
        with gzip.open(path, "rb") as file:
            header = file.read(4 * (1 + dimensions))
            magic = bytes((0, 0, 8, dimensions))
            if len(header) >= len(magic) and not header.startswith(magic):
                raise Damaged(f"{path} begins with {header[:4].hex()}, not {magic.hex()}")
            if len(header) != 4 * (1 + dimensions):
                raise Damaged(f"{path} ends within its header")
            shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
            announced = prod(shape)
            said = f"{path} announces {announced} bytes in shape {shape}"
            if not 0 < announced <= MOST_BYTES:
                raise Damaged(f"{said}; allowed: 1 to {MOST_BYTES}")
            values = file.read(announced + 1)  # one byte more: gzip verifies its checksum at the end
    except UNREADABLE as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    if len(values) != announced:
        raise Damaged(f"{said} and has {'more' if len(values) > announced else len(values)}")
    return np.frombuffer(values, np.uint8).reshape(shape)


# ---- FEMNIST


def femnist_digits(folder: Path, rng: np.random.Generator) -> FederatedDataset:
    """FEMNIST's digits by client: images (n, 1, 28, 28) from 0 to 1, inverted, so that ink is bright.

    The file has dark ink on white. A fifth of each client's rows is held out, stratified by label.
    """
    pixels, labels, clients = read_femnist(folder / FEMNIST_FILE)
    kept, held_out = partition.hold_out(clients * DIGITS + labels, TEST_SHARE, rng)
    x = _bright(255 - pixels)
    description = (
        f"femnist-digits: {len(kept)} training and {len(held_out)} test images of 28 x 28 pixels by "
        f"{len(np.unique(clients))} clients, inverted so that ink is bright, {DIGITS} classes"
    )
    return split(x, labels, kept, held_out, clients[kept], DIGITS, description)


def read_femnist(path: Path) -> tuple[Bytes, Integers, Integers]:
    """Images (n, 28, 28) as stored, labels (n,) and clients (n,). Raises Damaged."""
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
    """The arrays called `names` of an npz file, read without unpickling. Raises Damaged."""
    try:
        with path.open("rb") as file:
            with zipfile.ZipFile(file) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
            if unpacked > MOST_BYTES:
                raise Damaged(f"{path} unpacks to {unpacked} bytes; allowed: {MOST_BYTES}")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return [arrays[name] for name in names]
    except KeyError as error:
        raise Damaged(f"{path}: {error.args[0]}") from None
    except UNREADABLE as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None


# ---- digits


def digits(_folder: Path, rng: np.random.Generator) -> FederatedDataset:
    """Scikit-learn's handwritten digits: pixels (n, 64) from 0 to 1, the same as in the nodes' task."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  a slow import, needed here only

    bunch = load_digits()
    labels = bunch.target.astype(np.int64)
    kept, held_out = partition.hold_out(labels, TEST_SHARE, rng)
    description = (
        f"digits: {len(kept)} training and {len(held_out)} test images of 8 x 8 pixels, {DIGITS} classes"
    )
    return split((bunch.data / 16).astype(np.float32), labels, kept, held_out, None, DIGITS, description)


# ---- Shared parts


def _bright(images: Bytes) -> NDArray[np.float32]:
    """Convert bytes (n, 28, 28) to numbers (n, 1, 28, 28) from 0 to 1."""
    x = images[:, None].astype(np.float32)
    x /= 255  # in place: MNIST is 188 MB
    return x


def _labels(path: Path, name: str, values: NDArray, most: int = DIGITS - 1) -> Integers:
    """Return `values` (n,) as int64. Raises Damaged unless n >= 1 and all are integers from 0 to `most`."""
    if values.dtype.kind not in "iu":
        raise Damaged(f"{path}: {name}s are {values.dtype}; allowed: whole numbers")
    for value in (values.min(), values.max()):
        if not 0 <= value <= most:
            raise Damaged(f"{path}: {name} {value} is not allowed; 0 to {most}")
    return values.astype(np.int64)
