"""A learned U-Net as a file, and the masks that it finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors import safe_open
from safetensors.torch import save_file

from node.masks.folder import Size, by_name, read_all
from node.masks.network import UNet

MODEL = "unet.safetensors"


def save_network(network: UNet, size: Size, file: Path) -> None:
    """Writes a network, and the size of the images that it learned with."""
    tensors = {name: part.detach().cpu().clone() for name, part in network.state_dict().items()}
    save_file(tensors, file, {"height": str(size[0]), "width": str(size[1])})


def load_network(file: Path) -> tuple[UNet, int, Size]:
    """Returns the network of `save_network`, the channels of its images, and their size."""
    with safe_open(file, "pt") as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - it is no dict
        told = stored.metadata()
    width, channels = tensors["down.0.0.weight"].shape[:2]
    network = UNet(channels, width).eval()
    network.load_state_dict(tensors)
    return network, channels, (int(told["height"]), int(told["width"]))


def write_masks(model: Path, images: Path, out: Path) -> int:
    """Writes OUT/NAME.png for each image of a folder, in its own size, white where the model finds something.

    `model`: the `unet.safetensors` of a run. Returns how many there are. Raises ConfigError for an image that
    cannot be read.
    """
    network, channels, size = load_network(model)
    files = by_name(images)
    out.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        with torch.no_grad():
            found = network(read_all([file], (channels, *size)))[0, 0] > 0
        with Image.open(file) as image:
            own_size = ImageOps.exif_transpose(image).size
        Image.fromarray(found.numpy().astype(np.uint8) * 255).resize(own_size).save(out / f"{name}.png")
    return len(files)
