"""Images in folders by class, seen through a network from a file that stays as it is; only the head learns.

python examples/frozen_body.py
"""

import tempfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from node import Swarm


class Net(nn.Sequential):
    """A body, here a small one (a ResNet is used likewise), and a head: (n, 3, h, w) -> (n, 2)."""

    def __init__(self) -> None:
        body = nn.Sequential(nn.Conv2d(3, 32, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        super().__init__(OrderedDict(body=body, head=nn.Linear(512, 2)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as named:
        folder, rng = Path(named), np.random.default_rng(0)
        for number in range(120):  # stripes that lie or stand, in sizes of their own
            place = folder / f"site{number // 40}" / ("lying", "standing")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            lines = np.mgrid[: rng.integers(100, 200), : rng.integers(100, 200)][number % 2] // 8 % 2 * 90
            pixels = (rng.normal(70, 15, lines.shape) + lines).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{number}.jpg")
        save_file(Net().state_dict(), weights := folder / "net.safetensors")  # as learned from public images
        schema = {"kind": "images", "shape": [3, 96, 96], "mean": [0.5], "std": [0.25]}
        task = {
            "task": {"name": "stripes"},
            "model": {"class": "__main__:Net", "body": "body", "weights": str(weights)},
            "data": {"schema": schema | {"target": {"kind": "classes", "values": ["lying", "standing"]}}},
            "train": {"parameters": "head.*", "learning_rate": 0.01},
        }
        sites = [folder / f"site{number}" for number in range(3)]
        print(Swarm.local(3, task, sites, rounds=5, alone="no").run())
