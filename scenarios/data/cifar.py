"""CIFAR-10 from its publisher's binary version, read inside the archive: nothing is unpacked to disk.

An archive `cifar-10-binary.tar.gz` has five training batches and one test batch. A batch is a sequence of
records of 3,073 bytes: a label from 0 to 9, then 32 x 32 red, green and blue values, row by row (Krizhevsky,
https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version"). The publisher's other versions are pickles or
Matlab files; this project unpickles nothing.
"""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.system.errors import reason
from scenarios.data.dataset import UNREADABLE, Damaged, FederatedDataset, Integers

CIFAR_FILE = "cifar10/cifar-10-binary.tar.gz"
CLASSES = 10
SHAPE = (3, 32, 32)
RECORD_BYTES = 1 + 3 * 32 * 32
MOST_BYTES = 1 << 26
"""The most bytes of a batch; a published one has 30,730,000."""
MOST_MEMBERS = 100

_PADDING_BYTES = 1 << 20
_FOLDER = "cifar-10-batches-bin"
_TRAIN = tuple(f"{_FOLDER}/data_batch_{number}.bin" for number in range(1, 6))
_TEST = f"{_FOLDER}/test_batch.bin"

Records = NDArray[np.uint8]


def cifar_10(folder: Path, _rng: np.random.Generator) -> FederatedDataset:
    """CIFAR-10 as published: images (n, 3, 32, 32) from 0 to 1, red, green, blue; Krizhevsky 2009.

    Raises Damaged.
    """
    batches = read_batches(folder / CIFAR_FILE)
    train = np.concatenate([batches[name] for name in _TRAIN])
    test = batches[_TEST]
    description = (
        f"cifar-10: {len(train)} training and {len(test)} test images of 32 x 32 pixels in colour, "
        f"{CLASSES} classes"
    )
    return FederatedDataset(
        _images(train), _labels(train), _images(test), _labels(test), None, CLASSES, description
    )


def read_batches(path: Path) -> dict[str, Records]:
    """The records (n, 3073) of the six batches, by their names in the archive. Raises Damaged.

    Members of other names are skipped; no link is followed and no path of the archive is used on disk.
    """
    found: dict[str, Records] = {}
    try:
        with gzip.open(path, "rb") as file:
            with tarfile.open(fileobj=file, mode="r|") as archive:
                for number, member in enumerate(archive):
                    if number >= MOST_MEMBERS:
                        raise Damaged(f"{path} has more than {MOST_MEMBERS} members")
                    if member.isfile() and member.name in (*_TRAIN, _TEST):
                        found[member.name] = _records(path, archive, member)
            file.read(_PADDING_BYTES)  # gzip verifies its checksum at the end of the stream
    except (*UNREADABLE, tarfile.TarError) as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    missing = [name for name in (*_TRAIN, _TEST) if name not in found]
    if missing:
        raise Damaged(f"{path} lacks {missing[0]}")
    return found


def _records(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> Records:
    """The records (n, 3073) of one batch. Raises Damaged."""
    if not 0 < member.size <= MOST_BYTES or member.size % RECORD_BYTES:
        raise Damaged(
            f"{path}: {member.name} has {member.size} bytes; allowed: a multiple of {RECORD_BYTES}, "
            f"at most {MOST_BYTES}"
        )
    file = archive.extractfile(member)
    content = b"" if file is None else file.read(member.size)
    if len(content) != member.size:
        raise Damaged(f"{path}: {member.name} ends after {len(content)} of {member.size} bytes")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD_BYTES)
    if records[:, 0].max() >= CLASSES:
        raise Damaged(f"{path}: {member.name} has label {records[:, 0].max()}; allowed: 0 to {CLASSES - 1}")
    return records


def _images(records: Records) -> NDArray[np.float32]:
    """Images (n, 3, 32, 32) from 0 to 1."""
    x = records[:, 1:].astype(np.float32).reshape(-1, *SHAPE)
    x /= 255  # in place: the training rows have 614 MB
    return x


def _labels(records: Records) -> Integers:
    return records[:, 0].astype(np.int64)
