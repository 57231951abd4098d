import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from node.data import images
from node.data.dataset import load_dataset
from node.data.images import list_folder, read_image, read_images
from node.data.remedies import other_class
from node.data.report import Entry
from node.models import ConvNet
from node.training.build import build_model
from tests.own_data import IMAGES, picture, schema, task, told

RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        picture(tmp_path / "data" / "red" / f"{number}.png", RED)
        picture(tmp_path / "data" / "blue" / f"{number}.png", BLUE, (16, 20))
    return tmp_path / "data"


def test_images_by_class(folder):
    found = read_images(schema(IMAGES), folder)
    assert (found.x.shape, found.x.dtype) == ((6, 3, 8, 8), np.float32)
    assert found.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.unique(found.x[0]).tolist() == [-2, 2]
    assert (found.x[3, 0] == 2).all()
    assert (found.x[3, 1:] == -2).all()
    assert found.report.entries == (
        Entry("class", "folder", "'blue' 3, 'red' 3"),
        Entry("image", "3 x 8 x 8 numbers", "pixels 0 to 1, then mean and std"),
    )


def test_what_can_not_be_read_is_left_out_and_counted(folder):
    (folder / "red" / "a.png").write_bytes(b"no image")
    (folder / "red" / "notes.txt").write_text("x")
    (folder / "red" / ".hidden.png").write_text("x")
    (folder / ".cache").mkdir()
    found = read_images(schema(IMAGES), folder)
    assert len(found.x) == len(found.y) == 6
    assert found.report.remarks[0] == "1 file left out: not .bmp, .jpeg, .jpg, .png, .webp"
    assert found.report.remarks[1].startswith(
        "1 image left out, cannot be read: 'red/a.png': cannot identify"
    )


def test_a_node_learns_from_a_folder(folder):
    chosen = task(IMAGES, **{"class": "node.models:ConvNet", "args": {"shape": [3, 8, 8], "outputs": 2}})
    dataset = load_dataset(chosen, folder, None)
    assert (dataset.classes, tuple(dataset.train_x.shape[1:])) == (2, (3, 8, 8))
    assert tuple(build_model(chosen, dataset)(dataset.train_x).shape) == (len(dataset.train_y), 2)
    assert dataset.description == (
        "data: 6 rows, images of 3 x 8 x 8, target: the folder's name (2 classes); 3 to train on, 3 held "
        "back for validation: too few rows to validate"  # equal files are on one side
    )


def test_folders_that_do_not_fit(folder, tmp_path):
    (folder / "red").rename(folder / "green")
    line = told(read_images, schema(IMAGES), folder)
    assert line.endswith(f": the folder 'green' {other_class(('blue', 'red'))}")
    (tmp_path / "none").mkdir()
    assert told(list_folder, tmp_path / "none").endswith(
        " has no images by class; allowed: a folder for each class, with two images or more in all (.bmp, "
        ".jpeg, .jpg, .png, .webp)"
    )
    assert told(list_folder, tmp_path / "no").endswith(" cannot be read: No such file or directory")
    for name in ("a.png", "b.png"):
        picture(tmp_path / "bad" / "red" / name, RED).write_bytes(b"no")
    line = told(read_images, schema(IMAGES), tmp_path / "bad")
    assert ": 0 images can be read; 'red/a.png': cannot identify" in line


@pytest.mark.parametrize(("mode", "channels"), [("L", 3), ("RGB", 1), ("RGB", 3)])
def test_grey_and_colour_become_what_the_schema_says(tmp_path, mode, channels):
    file = picture(tmp_path / "a.png", (255, 255, 255), mode=mode)
    assert read_image(file, (channels, 4, 6)).tolist() == np.ones((channels, 4, 6)).tolist()


def test_an_image_is_turned_upright(tmp_path):
    image = Image.new("L", (2, 1))
    image.putpixel((0, 0), 255)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image.save(tmp_path / "a.png", exif=exif)
    assert read_image(tmp_path / "a.png", (1, 2, 1)).ravel().tolist() == [1, 0]


def png_head(width, height):
    """Makes a PNG that declares a size and contains next to nothing."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


@pytest.mark.parametrize("side", [7_000, 10_000, 30_000])
def test_an_image_bomb_is_refused_by_its_head(tmp_path, side):
    file = tmp_path / "bomb.png"
    file.write_bytes(png_head(side, side))
    with pytest.raises((ValueError, Image.DecompressionBombError), match="pixels"):
        read_image(file, (1, 8, 8))


def test_other_formats_than_those_that_are_named_and_sixteen_bits_are_not_decoded(tmp_path):
    Image.new("I;16", (8, 8), 300).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="pixels of kind I;16; save it with 8 bits a channel"):
        read_image(tmp_path / "a.png", (1, 8, 8))
    Image.new("L", (8, 8)).save(tmp_path / "a.png", "TIFF")
    with pytest.raises(OSError, match="cannot identify"):
        read_image(tmp_path / "a.png", (1, 8, 8))


def test_too_many_images(folder, monkeypatch):
    monkeypatch.setattr(images, "MOST_IMAGES", 5)
    assert told(read_images, schema(IMAGES), folder).endswith(" has more than 5 images")


def test_the_small_network_answers_for_each_image():
    assert tuple(ConvNet([3, 9, 7], 4)(torch.zeros(5, 3, 9, 7)).shape) == (5, 4)
    for shape in ([3, 3, 8], [8, 8], [0, 8, 8]):
        with pytest.raises(ValueError, match="shape must be"):
            ConvNet(shape, 2)
    with pytest.raises(ValueError, match="channels must be two whole numbers above 0"):
        ConvNet([1, 8, 8], 2, [8])
