"""Reads a folder of images by class, FOLDER/CLASS/anything.png, as arrays of one shape.

The reader rotates every image upright, converts it to grey or RGB, and scales it to the schema's height and
width with bilinear filtering; pixels are 0 to 1 before the schema's mean and std.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from node.data.encoding import check_size, class_counts, standardise
from node.data.persons import refuse_persons
from node.data.remedies import other_class
from node.data.report import Entry
from node.data.rows import Rows, RowsToPredict, encoded_rows
from node.data.sides import NOT_DRAWN, Draws, RowDraws
from node.system.errors import ConfigError, counted, reason, shown
from node.task.data_schema import ArraySchema, ClassTarget

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp"})
MOST_PIXELS = 40_000_000
"""The most pixels of one image; a small file can decompress to any size."""
MOST_IMAGES = 5_000_000
GREY = frozenset({"1", "L", "LA"})
"""The modes of images without colours."""
_ORIENTATION, _ON_ITS_SIDE = 0x0112, range(5, 9)  # of Exif
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
_EIGHT_BIT = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV"})
UNREADABLE = (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError)
"""What reading a file raises that is no image, or one that is refused."""


@dataclass(frozen=True)
class Folder:
    """The content of a folder of images: the sorted files of each class, and the number of other files."""

    path: Path
    classes: dict[str, list[Path]]
    others: int

    @property
    def count(self) -> int:
        """The total number of images."""
        return sum(map(len, self.classes.values()))


def list_folder(path: Path) -> Folder:
    """Lists the images in `path`, one folder per class; raises ConfigError."""
    with _readable(path):
        folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and entry.name[0] != ".")
        found = {folder.name: _files(folder) for folder in folders}
    classes = {name: _images(files) for name, files in found.items()}
    classes = {name: files for name, files in classes.items() if files}
    if len(classes) < 1 or sum(map(len, classes.values())) < 2:
        raise ConfigError(
            f"data folder {shown(str(path))} has no images by class; allowed: a folder for each class, with "
            f"two images or more in all ({', '.join(sorted(SUFFIXES))})"
        )
    return Folder(path, classes, sum(map(len, found.values())) - sum(map(len, classes.values())))


def read_images(schema: ArraySchema, path: Path, drawing: RowDraws | None = None) -> Rows:
    """Reads the images under `path`; leaves out and counts unreadable files; `drawing` draws the others.

    Raises ConfigError for a class that the schema does not have, and for too many images.
    """
    if drawing is not None:
        refuse_persons(drawing, "images, which have no columns")
    folder, target = list_folder(path), _classes(schema)
    _check_classes(folder, target)
    found = _read(schema, folder)
    if len(found.files) < 2:
        why = found.faults[0]
        raise ConfigError(f"data folder {shown(str(path))}: {len(found.files)} images can be read; {why}")
    labels = found.labels(target)
    entry = Entry(
        "image", f"{' x '.join(map(str, schema.shape))} numbers", "pixels 0 to 1, then mean and std"
    )
    entries = (Entry("class", "folder", class_counts(target, labels)), entry)
    draws = NOT_DRAWN if drawing is None else _drawn(found.files, drawing)
    remarks = [*_remarks(folder, found.faults)]
    return encoded_rows(schema, path.name, found.x, labels, entries, remarks, draws, None)


def read_images_to_predict(schema: ArraySchema, path: Path) -> RowsToPredict:
    """Reads the images in `path`, which have no class, or those in its folders by class, with their names.

    Raises ConfigError for a class that the schema does not have, too many images, and none.
    """
    folder, target = _list_bare(path), _classes(schema)
    is_bare = folder.count > 0
    if not is_bare:
        folder = list_folder(path)
        _check_classes(folder, target)
    found = _read(schema, folder)
    if not found.files:
        raise ConfigError(f"data folder {shown(str(path))}: no image can be read; {found.faults[0]}")
    return RowsToPredict(
        found.x,
        None if is_bare else found.labels(target),
        [file.relative_to(path).as_posix() for file in found.files],
        [*_remarks(folder, found.faults)],
    )


def _list_bare(path: Path) -> Folder:
    """Returns the images that lie in `path` itself, as those of one class without a name."""
    with _readable(path):
        files = _files(path)
    images = _images(files)
    return Folder(path, {"": images}, len(files) - len(images))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"data folder {shown(str(path))} cannot be read: {reason(error)}") from None


def _files(folder: Path) -> list[Path]:
    """Returns the files that lie in a folder, by name; not the hidden ones. Raises OSError."""
    return sorted(entry for entry in folder.iterdir() if entry.is_file() and entry.name[0] != ".")


def _images(files: Iterable[Path]) -> list[Path]:
    return [file for file in files if file.suffix.lower() in SUFFIXES]


def _classes(schema: ArraySchema) -> ClassTarget:
    if not isinstance(schema.target, ClassTarget):
        raise ConfigError("data.schema.target.kind = 'number' is refused for images; allowed: 'classes'")
    return schema.target


def _drawn(files: Sequence[Path], drawing: RowDraws) -> Draws:
    try:
        return drawing.of_files(files)
    except OSError as error:
        raise ConfigError(f"an image cannot be read any more: {reason(error)}") from None


def _check_classes(folder: Folder, target: ClassTarget) -> None:
    for name in folder.classes:
        if target.place(name) == len(target.values):
            raise ConfigError(
                f"data folder {shown(str(folder.path))}: the folder {shown(name)} "
                f"{other_class(target.values)}"
            )


@dataclass(frozen=True)
class _Read:
    """The images that can be read, `x` (n, c, h, w) by the schema, their files, and the others' errors."""

    x: NDArray[np.float32]
    files: Sequence[Path]
    faults: Sequence[str]

    def labels(self, target: ClassTarget) -> NDArray[np.int64]:
        """Returns the class (n,) of each, which is its folder."""
        return np.array([target.place(file.parent.name) for file in self.files], np.int64)


def _read(schema: ArraySchema, folder: Folder) -> _Read:
    """Reads a folder's images one by one into one array, once it is known that they fit into memory."""
    if folder.count > MOST_IMAGES:
        raise ConfigError(f"data folder {shown(str(folder.path))} has more than {MOST_IMAGES} images")
    check_size(folder.path, folder.count, schema.shape)
    x = np.empty((folder.count, *schema.shape), np.float32)
    read: list[Path] = []
    faults: list[str] = []
    for file in chain.from_iterable(folder.classes.values()):
        try:
            x[len(read)] = read_image(file, schema.shape)
        except UNREADABLE as error:
            faults.append(f"{shown(f'{file.parent.name}/{file.name}')}: {reason(error)}")
        else:
            read.append(file)
    x = x[: len(read)]
    standardise(x, schema)
    return _Read(x, read, faults)


def _remarks(folder: Folder, faults: Sequence[str]) -> Iterator[str]:
    if folder.others:
        yield f"{counted(folder.others, 'file')} left out: not {', '.join(sorted(SUFFIXES))}"
    if faults:
        yield f"{counted(len(faults), 'image')} left out, cannot be read: {faults[0]}"


def read_image(file: Path, shape: Sequence[int]) -> NDArray[np.float32]:
    """Reads one image as (channels, height, width), 0 to 1; checks its size before decoding.

    Raises ValueError or OSError for no image, one that is too large, or more than 8 bits per channel.
    """
    channels, height, width = shape
    with opened(file) as image:
        plain = ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
    scaled = plain.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(scaled, np.float32).reshape(height, width, channels)
    return np.moveaxis(pixels / np.float32(255), 2, 0)


def upright_size(file: Path) -> tuple[int, int]:
    """Returns the width and height of an upright image, by the file's head; raises as `read_image`."""
    with opened(file) as image:
        width, height = image.size
        return (height, width) if image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE else (width, height)


@contextmanager
def opened(file: Path) -> Iterator[Image.Image]:
    """Yields an image, its size checked and nothing decoded; raises as `read_image`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # ours is the lower limit
        with Image.open(file, formats=_FORMATS) as image:
            _check_image(image)
            yield image


def _check_image(image: Image.Image) -> None:
    wide, high = image.size
    if wide * high > MOST_PIXELS:
        raise ValueError(f"{wide} x {high} pixels; allowed: at most {MOST_PIXELS} in all")
    if image.mode not in _EIGHT_BIT:
        raise ValueError(f"pixels of kind {image.mode}; save it with 8 bits a channel")


def size_of(files: Sequence[Path]) -> Counter[tuple[int, int, bool]]:
    """Counts each (width, height, colour) among `files`, by their headers alone."""
    found: Counter[tuple[int, int, bool]] = Counter()
    for file in files:
        try:
            with opened(file) as image:
                found[(*image.size, image.mode not in GREY)] += 1
        except UNREADABLE:
            continue
    return found
