"""Masks: pairs of files, a network that finds what they show, Dice, and masks of its own as files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from examples.masks import make_site
from node.learners.learner import LearnerSetting
from node.masks import MaskLearner, predict, unet, write_masks
from node.masks.folder import Size, pairs, read_mask, read_masked
from node.masks.network import UNet, mask_loss
from node.system.errors import ConfigError, shown
from node.task.load import read_task
from tests.own_data import told
from tests.unit.node.data.test_images import png_head


def setting(folder: Path | None, **args: object) -> LearnerSetting:
    task = read_task(
        {
            "task": {"name": "spots"},
            "model": {"learner": "node.masks:unet", "args": {"size": [32, 32], "width": 4, **args}},
            "train": {"learning_rate": 0.02, "epochs": 1, "batch_size": 4},
        }
    )
    return LearnerSetting(task, folder, None, 0, lambda: pytest.fail("its rows are no rows of a task"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_site(tmp_path_factory.mktemp("site"), 0, count=30)


def learned(folder: Path) -> tuple[MaskLearner, np.ndarray]:
    torch.manual_seed(0)
    learner = unet(setting(folder))
    vector = learner.vector()
    for one in range(1, 9):
        vector = learner.train(vector, one)
    return learner, vector


def test_it_finds_discs_and_writes_them(site: Path, tmp_path: Path) -> None:
    learner, vector = learned(site)
    first, last = learner.evaluate(learner.vector()), learner.evaluate(vector)
    assert list(last) == ["dice", "loss"]
    assert last["dice"] > max(0.75, first["dice"])
    assert last["loss"] < first["loss"]
    learner.save(vector, tmp_path)
    said = predict(tmp_path, site, tmp_path / "found")
    assert said.startswith(f"30 masks in {tmp_path / 'found'}; Dice 0.")
    hit = both = 0
    for file in (site / "masks").iterdir():
        found, there = (np.asarray(Image.open(one)) > 127 for one in (tmp_path / "found" / file.name, file))
        hit, both = hit + (found & there).sum(), both + found.sum() + there.sum()
    assert said.endswith(f"; Dice {2 * hit / both:.4f} of all their pixels")
    assert 2 * hit / both > 0.75
    model, images = tmp_path / "unet.safetensors", tmp_path / "images"
    assert "exists and is no empty folder" in told(write_masks, model, site / "images", tmp_path / "found")
    images.mkdir()
    assert told(write_masks, model, images, images) == f"data folder {shown(str(images))} has no images"
    (images / "a.png").write_bytes(b"no image")
    assert "images/a.png' cannot be read" in told(predict, tmp_path, images, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert "is no U-Net as a run writes it" in told(write_masks, images / "a.png", images, tmp_path / "new")


def test_the_same_vector_trains_alike_and_a_round_of_its_own(site: Path) -> None:
    learner = unet(setting(site))
    vector = learner.vector()
    once, again, other = (learner.train(vector, number) for number in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_dice_counts_the_pixels_of_all_images(site: Path) -> None:
    learner = unet(setting(site))
    vector = learner.vector() * 0
    counts = {}
    for bias in (-1.0, 1.0):
        vector[-1] = bias  # the last layer's: no pixel, or every pixel
        counts[bias] = learner.counts(vector)
        assert learner.evaluate(vector)["dice"] == learner.metrics(counts[bias])["dice"]
    images, hit, both = counts[1.0].tolist()
    assert counts[-1.0].tolist() == [images, 0, hit]
    assert both == images * 32 * 32 + hit
    assert learner.metrics(counts[1.0] + counts[-1.0])["dice"] == pytest.approx(2 * hit / (both + hit))


def test_the_loss_of_what_is_right_is_none() -> None:
    masks = torch.zeros(2, 1, 4, 4)
    masks[0, 0, :2] = 1
    assert mask_loss((masks - 0.5) * 100, masks).item() == pytest.approx(0, abs=1e-6)
    assert mask_loss((0.5 - masks) * 100, masks).item() > 50


def test_a_network_gives_a_logit_for_each_pixel() -> None:
    assert UNet(3, 8)(torch.zeros(2, 3, 20, 12)).shape == (2, 1, 20, 12)


def test_images_in_large_sizes_are_scaled_and_turned(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6  # by 90 degrees
    for name, colour in (("images", (255, 0, 0)), ("masks", (255, 255, 255))):
        (tmp_path / name).mkdir()
        Image.new("RGB", (640, 480), colour).save(tmp_path / name / "0.jpg")
    Image.new("RGB", (480, 640), (255, 0, 0)).save(tmp_path / "images" / "1.jpg", exif=turned)
    Image.new("L", (640, 480), 255).save(tmp_path / "masks" / "1.jpg")
    rows = read_masked(pairs(tmp_path), 3, (24, 32))
    assert rows.images.shape == (2, 3, 24, 32)
    assert rows.masks.unique().tolist() == [1.0]


@pytest.mark.parametrize(
    ("mode", "size", "colour", "line"),
    [
        ("L", (16, 32), 255, "masks/1.png' has 16 x 32 pixels, its image 32 x 32; allowed: as many"),
        ("L", (32, 32), 2, "the mask's largest value is 2; allowed: 0 for black and 255 for white"),
        ("RGB", (32, 32), (200, 0, 0), "the mask has colours; allowed: black and white"),
        ("bomb", (20_000, 10_000), 0, "masks/1.png' cannot be read: Image size (200000000 pixels) exceeds"),
    ],
)
def test_masks_that_are_refused(tmp_path: Path, mode: str, size: Size, colour: object, line: str) -> None:
    make_site(tmp_path, 0, count=2)
    file = tmp_path / "masks" / "1.png"
    if mode == "bomb":
        file.write_bytes(png_head(*size))
    else:
        Image.new(mode, size, colour).save(file)
    assert line in told(unet, setting(tmp_path))


def test_a_mask_with_grey_areas_is_refused_and_smooth_edges_are_not(tmp_path: Path) -> None:
    grey = np.zeros((32, 32), np.uint8)
    grey[:, 16:] = 255
    grey[:, 15:17] = 128
    Image.fromarray(grey).save(tmp_path / "a.png")
    assert read_mask(tmp_path / "a.png").size == (32, 32)
    grey[:, 14:20] = 128
    Image.fromarray(grey).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="the mask has the value 128; allowed: 0 for black and 255"):
        read_mask(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            {"size": [30, 32]},
            "model.args.size = [30, 32] is refused; allowed: [height, width], multiples of 4",
        ),
        ({"size": 32}, "model.args.size = 32 is refused"),
        ({"channels": 2}, "model.args.channels = 2 is refused; allowed: 1 (grey) or 3"),
        ({"width": 6}, "model.args.width = 6 is refused; allowed: multiples of 4 up to 128"),
        ({"depth": 3}, "model.args.depth is refused; allowed: size, channels, width"),
    ],
)
def test_arguments_that_are_refused(site: Path, args: dict[str, object], line: str) -> None:
    assert told(unet, setting(site, **args)).startswith(line)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    assert told(unet, setting(None)).startswith("masks are learned from --data FOLDER")
    assert "cannot be read" in told(pairs, tmp_path)
    make_site(tmp_path, 0, count=2)
    Image.new("L", (8, 8)).save(tmp_path / "masks" / "1.bmp")
    assert "has '1.bmp' and '1.png'; allowed: one image of each name" in told(pairs, tmp_path)
    (tmp_path / "masks" / "1.bmp").unlink()
    (tmp_path / "masks" / "1.png").write_bytes(b"no image")
    assert "masks/1.png' cannot be read: " in told(unet, setting(tmp_path))
    (tmp_path / "masks" / "1.png").unlink()
    assert "'1' is not in masks; allowed: an image and a mask of each name" in told(pairs, tmp_path)
    (tmp_path / "images" / "1.png").unlink()
    with pytest.raises(ConfigError, match="has 1 images; allowed: 2 to "):
        pairs(tmp_path)
