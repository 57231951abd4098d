"""Reads a folder of images and their masks: black where nothing is, white where something is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from node.data.encoding import check_size
from node.data.images import GREY, MOST_IMAGES, SUFFIXES, UNREADABLE, opened, read_image, upright_size
from node.system.errors import ConfigError, reason, shown

Size = tuple[int, int]
"""Height and width."""
Read = TypeVar("Read")
_BLACK, _WHITE = 32, 224
"""A mask's values up to the one, and from the other on, are no grey."""
_MOST_GREY, _MOST_COLOUR = 0.1, 32
"""The share of grey pixels, by smooth edges, and how far the colours of a mask lie apart, by compression."""


@dataclass(frozen=True)
class Masked:
    """Images (n, channels, h, w), 0 to 1, and their masks (n, 1, h, w), 0 or 1, as float32."""

    images: torch.Tensor
    masks: torch.Tensor

    def at(self, chosen: NDArray[np.bool_]) -> Masked:
        """Returns those that are chosen."""
        places = torch.from_numpy(chosen)
        return Masked(self.images[places], self.masks[places])


def read_masked(files: Sequence[tuple[Path, Path]], channels: int, size: Size) -> Masked:
    """Reads pairs of an image and its mask. Raises ConfigError for one that is none, and for too many."""
    check_size("in images and masks", len(files), (channels + 1, *size))
    images = np.empty((len(files), channels, *size), np.float32)
    masks = np.empty((len(files), 1, *size), np.float32)
    for place, (image, mask) in enumerate(files):
        images[place] = read_one(image, lambda file: read_image(file, (channels, *size)))
        sizes = [read_one(file, upright_size) for file in (image, mask)]
        if sizes[0] != sizes[1]:
            told = [f"{width} x {height}" for width, height in sizes]
            raise ConfigError(
                f"{_named(mask)} has {told[1]} pixels, its image {told[0]}; allowed: as many; scale the mask"
            )
        scaled = read_one(mask, read_mask).resize(size[::-1], Image.Resampling.BILINEAR)
        masks[place, 0] = np.asarray(scaled) > 127
    return Masked(torch.from_numpy(images), torch.from_numpy(masks))


def read_one(file: Path, read: Callable[[Path], Read]) -> Read:
    """Returns what `read` makes of a file. Raises ConfigError for one that cannot be read."""
    try:
        return read(file)
    except UNREADABLE as error:
        raise ConfigError(
            f"{_named(file)} cannot be read: {reason(error)}; take image and mask away"
        ) from None


def _named(file: Path) -> str:
    return shown(f"{file.parent.name}/{file.name}")


def read_mask(file: Path) -> Image.Image:
    """Returns an upright mask in grey. Raises ValueError for colours, and for more values than two."""
    with opened(file) as image:
        mask = ImageOps.exif_transpose(image)
        if image.mode not in GREY:
            colours = np.asarray(mask.convert("RGB"), np.int16)
            if np.ptp(colours, axis=2).max() > _MOST_COLOUR:
                raise ValueError("the mask has colours; allowed: black and white")
        grey = mask.convert("L")
    counts = np.array(grey.histogram())
    most = int(np.flatnonzero(counts)[-1])
    if 0 < most < _WHITE:
        raise ValueError(f"the mask's largest value is {most}; allowed: 0 for black and 255 for white")
    if counts[_BLACK:_WHITE].sum() > _MOST_GREY * counts.sum():
        value = _BLACK + int(counts[_BLACK:_WHITE].argmax())
        raise ValueError(f"the mask has the value {value}; allowed: 0 for black and 255 for white")
    return grey


def pairs(folder: Path) -> list[tuple[Path, Path]]:
    """Returns each image of FOLDER/images and the mask of its name in FOLDER/masks. Raises ConfigError."""
    images, masks = (by_name(folder / name) for name in ("images", "masks"))
    for name in sorted(images.keys() ^ masks.keys()):
        lacking = "masks" if name in images else "images"
        raise ConfigError(
            f"data folder {shown(str(folder))}: {shown(name)} is not in {lacking}; allowed: an image and a "
            "mask of each name"
        )
    if not 2 <= len(images) <= MOST_IMAGES:
        raise ConfigError(
            f"data folder {shown(str(folder))} has {len(images)} images; allowed: 2 to {MOST_IMAGES}"
        )
    return [(images[name], masks[name]) for name in sorted(images)]


def by_name(folder: Path) -> dict[str, Path]:
    """Returns the images in a folder, by their names without suffix. Raises ConfigError."""
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    except OSError as error:
        raise ConfigError(f"data folder {shown(str(folder))} cannot be read: {reason(error)}") from None
    named = {file.stem: file for file in files}
    twice = next((file for file in files if named[file.stem] != file), None)
    if twice is not None:
        raise ConfigError(
            f"data folder {shown(str(folder))} has {shown(twice.name)} and {shown(named[twice.stem].name)}; "
            "allowed: one image of each name; rename one"
        )
    return named
