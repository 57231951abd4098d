"""FEMNIST's digits by writer, made from NIST Special Database 19 as LEAF makes them.

The archive `by_write.zip` has the images in a folder for each writer,
`by_write/hsf_0/f0001_11/d0001_11/d0001_11_00000.png`: part, writer, field (d: digits), image. It has no
classes. The list `by_class_md5.log` has the MD5 of the same images in folders for each class,
`by_class/35/hsf_0/hsf_0_00000.png`, where 35 is the hexadecimal ASCII code of the character. An image's class
is that of the equal image, as in LEAF (Caldas et al. 2018, arXiv:1812.01097), which compares two archives.

LEAF uses all characters of all writers. Here, writers are drawn with a fixed seed until they have at least
ROWS digits, and each writer is a client. An image is scaled from 128 x 128 to 28 x 28 pixels with Lanczos'
filter, dark ink on white, and not centred or blurred as EMNIST's.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections import defaultdict
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from node.system.errors import reason
from scenarios.data.dataset import UNREADABLE, Damaged

ARCHIVE, CLASSES = "by_write.zip", "by_class_md5.log"
ROWS = 6000
"""Writers are drawn until they have this many images; NIST's have 113 digits each on average."""
SEED = 0
LEAST_KNOWN = 0.95
"""The share of the drawn images that must have a class."""
MOST_ENTRIES = 2_000_000
MOST_LINE = 4096
MOST_IMAGE_BYTES = 1 << 18
SIDE, RAW_SIDE = 28, 128

_IMAGE = re.compile(r"by_write/hsf_\d/(f\d{4}_\d{2})/d\d{4}_\d{2}/[\w.]+\.png")
_CLASS = re.compile(rb"(?:^|[/\\\s(])3([0-9])[/\\](?:hsf|train)_")
_MD5 = re.compile(rb"\b[0-9a-f]{32}\b")

Pixels = NDArray[np.uint8]


def make_femnist(raw: Path, target: Path) -> None:
    """Write the digits of drawn writers from the two files in `raw` to the npz file `target`.

    Arrays: images (n, 28, 28) uint8, labels (n,) and client (n,) int64, writer (clients,) text.
    Raises Damaged.
    """
    writers, rows = _drawn_rows(raw)
    client, labels, images = zip(*rows, strict=True)
    with target.open("wb") as file:
        np.savez_compressed(
            file,
            images=np.stack(images),
            labels=np.array(labels, np.int64),
            client=np.array(client, np.int64),
            writer=np.array(writers),
        )


def _drawn_rows(raw: Path) -> tuple[list[str], list[tuple[int, int, Pixels]]]:
    """The drawn writers, and (client, label, pixels) of each image whose class is known. Raises Damaged."""
    digits = read_classes(raw / CLASSES)
    path = raw / ARCHIVE
    try:
        with zipfile.ZipFile(path) as archive:
            drawn = draw_writers(images_by_writer(path, archive))
            rows = [
                (client, *found)
                for client, names in enumerate(drawn.values())
                for found in _labelled(path, archive, names, digits)
            ]
    except (*UNREADABLE, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError) as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    asked = sum(map(len, drawn.values()))
    if len(rows) < LEAST_KNOWN * asked:
        raise Damaged(f"{raw / CLASSES} has a class for {len(rows)} of {asked} images of {path}")
    return list(drawn), rows


def check_archive(path: Path) -> None:
    """Raise Damaged unless `path` ends as a zip archive does: one that was cut does not."""
    if not zipfile.is_zipfile(path):
        raise Damaged(f"{path} is no whole zip archive")


def read_classes(path: Path) -> dict[bytes, int]:
    """The digit of each image by its MD5, from the list of the images by class. Raises Damaged."""
    digits: dict[bytes, int] = {}
    try:
        with path.open("rb") as file:
            while line := file.readline(MOST_LINE + 1):
                if len(line) > MOST_LINE:
                    raise Damaged(f"{path} has a line of more than {MOST_LINE} bytes")
                found, md5 = _CLASS.search(line), _MD5.search(line)
                if found and md5:
                    digits[bytes.fromhex(md5[0].decode())] = int(found[1])
    except UNREADABLE as error:
        raise Damaged(f"{path} cannot be read ({reason(error)})") from None
    if not digits:
        raise Damaged(f"{path} lists no digit; allowed: lines with an MD5 and a path such as 35/hsf_0/…png")
    return digits


def images_by_writer(path: Path, archive: zipfile.ZipFile) -> dict[str, list[str]]:
    """The names of each writer's images of digits, in order. Raises Damaged."""
    names = archive.namelist()
    if len(names) > MOST_ENTRIES:
        raise Damaged(f"{path} has {len(names)} entries; allowed: {MOST_ENTRIES}")
    writers: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        if found := _IMAGE.fullmatch(name):
            writers[found[1]].append(name)
    if not writers:
        raise Damaged(f"{path} has no image such as by_write/hsf_0/f0001_11/d0001_11/d0001_11_00000.png")
    return dict(writers)


def draw_writers(writers: dict[str, list[str]]) -> dict[str, list[str]]:
    """Writers in a random order fixed by SEED, as many as have ROWS images together; or all."""
    names = sorted(writers)
    drawn: dict[str, list[str]] = {}
    for place in np.random.default_rng(SEED).permutation(len(names)):
        if sum(map(len, drawn.values())) >= ROWS:
            break
        drawn[names[place]] = writers[names[place]]
    return drawn


def _labelled(
    path: Path, archive: zipfile.ZipFile, names: list[str], digits: dict[bytes, int]
) -> list[tuple[int, Pixels]]:
    """The label and the pixels (28, 28) of each image whose class is known. Raises Damaged."""
    rows = []
    for name in names:
        size = archive.getinfo(name).file_size
        if size > MOST_IMAGE_BYTES:
            raise Damaged(f"{path}: {name} has {size} bytes; allowed: {MOST_IMAGE_BYTES}")
        content = archive.read(name)
        label = digits.get(hashlib.md5(content, usedforsecurity=False).digest())
        if label is not None:
            rows.append((label, _pixels(path, name, content)))
    return rows


def _pixels(path: Path, name: str, content: bytes) -> Pixels:
    with Image.open(BytesIO(content), formats=("PNG",)) as image:
        if image.size != (RAW_SIDE, RAW_SIDE):
            raise Damaged(f"{path}: {name} has {image.size} pixels; allowed: {RAW_SIDE} x {RAW_SIDE}")
        return np.asarray(image.convert("L").resize((SIDE, SIDE), Image.Resampling.LANCZOS))
