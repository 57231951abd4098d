"""A learned U-Net as a file, and the masks that it finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from node.data.images import read_image, upright_size
from node.masks.folder import Size, by_name, pairs, read_mask, read_one
from node.masks.network import UNet
from node.storage.regular_files import check_regular
from node.storage.whole_files import whole_folder
from node.system.errors import ConfigError, counted, reason, shown

MODEL = "unet.safetensors"


def save_network(network: UNet, size: Size, file: Path) -> None:
    """Writes a network, and the size of the images that it learned with."""
    tensors = {name: part.detach().cpu().clone() for name, part in network.state_dict().items()}
    save_file(tensors, file, {"height": str(size[0]), "width": str(size[1])})


def load_network(file: Path) -> tuple[UNet, int, Size]:
    """Returns the network of `save_network`, the channels of its images, and their size; or ConfigError."""
    try:
        check_regular(file)
        with safe_open(file, "pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - it is no dict
            told = stored.metadata() or {}
        width, channels = tensors["down.0.0.weight"].shape[:2]
        network = UNet(channels, width).eval()
        network.load_state_dict(tensors)
        return network, channels, (int(told["height"]), int(told["width"]))
    except (OSError, SafetensorError, KeyError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"{shown(str(file))} is no U-Net as a run writes it: {reason(error)}; take the file of a run"
        ) from error


def write_masks(model: Path, images: Path, out: Path) -> int:
    """Writes OUT/NAME.png for each image of a folder, in its own size, white where the model finds something.

    `model`: the `unet.safetensors` of a run; `out`: a new folder, or an empty one. Returns how many there
    are. Raises ConfigError, also for an image that cannot be read; then there is no folder.
    """
    network, channels, size = load_network(model)
    files = by_name(images)
    if not files:
        raise ConfigError(f"data folder {shown(str(images))} has no images")
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"--out {shown(str(out))} exists and is no empty folder; give another")
        out.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(out) as empty:
            for name, file in files.items():
                _write_mask(network, file, (channels, *size), empty / f"{name}.png")
    except OSError as error:
        raise ConfigError(f"--out {shown(str(out))} cannot be written: {reason(error)}") from error
    return len(files)


def _write_mask(network: UNet, file: Path, shape: tuple[int, int, int], out: Path) -> None:
    pixels = read_one(file, lambda file: read_image(file, shape))
    with torch.no_grad():
        found = network(torch.from_numpy(pixels)[None])[0, 0] > 0
    mask = Image.fromarray(found.numpy().astype(np.uint8) * 255)
    mask.resize(read_one(file, upright_size)).save(out)


def predict(model: Path, data: Path, out: Path) -> str:
    """Writes masks for the images in a folder, or in its folder `images`; returns what it did, in words.

    `model`: the folder of the learner's files. Where there is a folder `masks` beside `images`, it also says
    Dice. Raises ConfigError.
    """
    with_masks = pairs(data) if (data / "masks").is_dir() else []
    count = write_masks(model / MODEL, data / "images" if (data / "images").is_dir() else data, out)
    told = f"{counted(count, 'mask')} in {out}"
    if not with_masks:
        return told
    hit = both = 0
    for _, mask in with_masks:
        there = np.asarray(read_one(mask, read_mask)) > 127
        with Image.open(out / f"{mask.stem}.png") as image:
            found = np.asarray(image) > 127
        if found.shape != there.shape:
            raise ConfigError(f"{shown(mask.name)} has another size than its image; scale the mask")
        hit, both = hit + int((found & there).sum()), both + int(found.sum() + there.sum())
    return f"{told}; Dice {2 * hit / both if both else 1.0:.4f} of all their pixels"
