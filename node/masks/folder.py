"""Reads a folder of images and their masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from node.data.encoding import check_size
from node.data.images import MOST_IMAGES, SUFFIXES, read_image
from node.system.errors import ConfigError, reason, shown

Size = tuple[int, int]
"""Height and width."""


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
    return Masked(
        read_all([image for image, _ in files], (channels, *size)),
        (read_all([mask for _, mask in files], (1, *size)) >= 0.5).float(),
    )


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
    return {file.stem: file for file in files}


def read_all(files: Sequence[Path], shape: tuple[int, int, int]) -> torch.Tensor:
    """Returns images as (n, *shape), 0 to 1; ConfigError for one that cannot be read."""
    pixels: NDArray[np.float32] = np.empty((len(files), *shape), np.float32)
    for place, file in enumerate(files):
        try:
            pixels[place] = read_image(file, shape)
        except (OSError, ValueError, SyntaxError, MemoryError) as error:
            name = shown(f"{file.parent.name}/{file.name}")
            raise ConfigError(f"{name} cannot be read: {reason(error)}; take image and mask away") from None
    return torch.from_numpy(pixels)
