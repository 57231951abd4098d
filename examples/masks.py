"""Three sites learn to find round spots in images: each has a folder of images and one of masks.

python examples/masks.py
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from node import Swarm
from node.masks import write_masks

TASK = """
[task]
name = "spots"
[model]
learner = "node.masks:unet"
args = { size = [32, 32] }
[train]
learning_rate = 0.01
"""


def make_site(folder: Path, seed: int, count: int = 24) -> Path:
    """Write images of a bright disc in noise, 32 x 32 pixels in colour, and masks of the discs."""
    rng = np.random.default_rng(seed)
    down, right = np.mgrid[:32, :32]
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        y, x, radius = rng.uniform(8, 24), rng.uniform(8, 24), rng.uniform(4, 8)
        disc = (down - y) ** 2 + (right - x) ** 2 < radius**2
        image = rng.normal(90, 30, (32, 32, 3)) + disc[..., None] * rng.uniform(20, 60, 3)
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / f"images/{number}.png")
        Image.fromarray(disc.astype(np.uint8) * 255).save(folder / f"masks/{number}.png")
    return folder


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        sites = [make_site(folder / f"site{number}", number) for number in range(3)]
        (folder / "spots.toml").write_text(TASK)
        results = Swarm.local(3, folder / "spots.toml", sites, rounds=4, out=folder / "run", alone="no").run()

        print(results)
        model = next(folder.rglob("unet.safetensors"))
        print("masks written:", write_masks(model, sites[0] / "images", folder / "found"))
