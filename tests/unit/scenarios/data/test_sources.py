import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from node.data.dataset import load_dataset
from node.system.errors import ConfigError
from node.task.load import load_task
from scenarios.data import images
from scenarios.data.dataset import Damaged, split
from scenarios.data.images import FEMNIST_FILE, MNIST_FILES, read_idx, read_images, read_labels
from scenarios.data.sources import SOURCES, data_folder, load

REAL = os.environ.get("MURMURATION_DATA")
TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = MNIST_FILES


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def idx(values: np.ndarray) -> bytes:
    """Returns the idx bytes of an array of bytes, not yet gzipped."""
    header = bytes((0, 0, 8, values.ndim)) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    return header + values.astype(np.uint8).tobytes()


def gzipped(content: bytes) -> bytes:
    """Returns the same bytes each time: some are in the names of tests."""
    return gzip.compress(content, mtime=0)


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_idx(path: Path, values: np.ndarray) -> Path:
    return write(path, gzipped(idx(values)))


@pytest.fixture
def tiny_mnist(tmp_path: Path) -> Path:
    for pixels, labels, rows in ((TRAIN_IMAGES, TRAIN_LABELS, 12), (TEST_IMAGES, TEST_LABELS, 5)):
        write_idx(tmp_path / pixels, rng(rows).integers(0, 256, (rows, 28, 28)))
        write_idx(tmp_path / labels, np.arange(rows) % 10)
    return tmp_path


def femnist_arrays(rows: int = 400, clients: int = 4) -> dict[str, np.ndarray]:
    """Makes white images with one dark pixel, whose place gives the row's label."""
    labels = np.arange(rows) % 10
    images = np.full((rows, 28, 28), 255, np.uint8)
    images[np.arange(rows), labels, 0] = 55
    return {
        "images": images,
        "labels": labels.astype(np.uint8),
        "client": (np.arange(rows) * clients // rows).astype(np.uint8),
    }


def write_femnist(folder: Path, **arrays: np.ndarray) -> Path:
    (folder / FEMNIST_FILE).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / FEMNIST_FILE, **arrays)
    return folder


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ("d", {"MURMURATION_DATA": "/m", "XDG_CACHE_HOME": "/x"}, "d"),
        (None, {"MURMURATION_DATA": "/m", "XDG_CACHE_HOME": "/x"}, "/m"),
        (None, {"MURMURATION_DATA": "", "XDG_CACHE_HOME": "/x"}, "/x/murmuration"),
        (None, {}, "/home/someone/.cache/murmuration"),
        (None, {"XDG_CACHE_HOME": "relative"}, "/home/someone/.cache/murmuration"),
    ],
)
def test_data_lies_where_it_was_said_last(given, environment, expected, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert data_folder(given and Path(given), environment) == Path(expected)


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_class: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(nobody))
    with pytest.raises(ConfigError, match="give --data-dir, or set MURMURATION_DATA"):
        data_folder(None, {})


def test_mnist_and_fashion_mnist_are_images_from_0_to_1_with_labels(tiny_mnist):
    loaded = load("mnist", tiny_mnist, rng())
    assert (loaded.train_x.shape, loaded.train_x.dtype) == ((12, 1, 28, 28), np.float32)
    assert (loaded.test_x.shape, loaded.test_y.dtype) == ((5, 1, 28, 28), np.int64)
    expected = rng(12).integers(0, 256, (12, 28, 28)) / 255
    np.testing.assert_allclose(loaded.train_x[:, 0], expected, atol=1e-7)
    assert list(loaded.train_y) == [*range(10), 0, 1]
    assert (loaded.clients, loaded.classes) == (None, 10)
    assert "12 training and 5 test images" in loaded.description
    (tiny_mnist / "mnist").rename(tiny_mnist / "fashion_mnist")
    found = load("fashion-mnist", tiny_mnist, rng())
    assert (found.train_x.shape, found.test_x.shape, found.classes) == ((12, 1, 28, 28), (5, 1, 28, 28), 10)
    assert found.description.startswith("fashion-mnist: 12 training and 5 test images")


def test_femnist_is_inverted_and_its_clients_keep_their_rows_and_hold_out_alike(tmp_path: Path) -> None:
    arrays = femnist_arrays()
    arrays["images"][:, 20, 5] = 255 - 50 * arrays["client"]  # a mark of the client in each image
    loaded = load("femnist-digits", write_femnist(tmp_path, **arrays), rng())
    assert loaded.train_x.shape == (320, 1, 28, 28)
    assert "inverted so that ink is bright" in loaded.description
    np.testing.assert_allclose(loaded.train_x[:, 0, 20, 5] * 255, 50 * loaded.clients, atol=1e-4)
    loaded.train_x[:, 0, 20, 5] = 0
    ink = np.argwhere(loaded.train_x[:, 0])
    np.testing.assert_array_equal(ink[:, 1], loaded.train_y)
    np.testing.assert_allclose(loaded.train_x[tuple(np.insert(ink, 1, 0, axis=1).T)], 200 / 255, rtol=1e-6)
    assert list(np.bincount(loaded.clients)) == [80] * 4
    np.testing.assert_array_equal(np.bincount(loaded.test_y), [8] * 10)
    for client in range(4):
        np.testing.assert_array_equal(np.bincount(loaded.train_y[loaded.clients == client]), [8] * 10)


def test_digits_hold_out_the_same_rows_as_a_node(tmp_path: Path) -> None:
    task = load_task("digits", ["task.seed=3"])
    node = load_dataset(task, None, (0, 1))
    loaded = load("digits", tmp_path, np.random.default_rng([3, 1]))
    np.testing.assert_array_equal(loaded.test_x, node.test_x.numpy())
    np.testing.assert_array_equal(loaded.test_y, node.test_y.numpy())
    np.testing.assert_array_equal(loaded.train_x, node.train_x.numpy())


def test_breast_cancer_is_standardised_over_the_training_rows(tmp_path: Path) -> None:
    loaded = load("breast-cancer", tmp_path, rng())
    assert (loaded.train_x.shape, loaded.test_x.shape, loaded.classes) == ((455, 30), (114, 30), 2)
    np.testing.assert_allclose(loaded.train_x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(loaded.train_x.std(axis=0), 1, atol=1e-5)
    assert np.abs(loaded.test_x.mean(axis=0)).max() > 0.01
    assert loaded.train_y.mean() == pytest.approx(357 / 569, abs=0.005)
    assert "62.7% benign" in loaded.description


@pytest.mark.parametrize("name", ["digits", "breast-cancer"])
def test_the_generator_alone_decides_what_is_held_out(name: str, tmp_path: Path) -> None:
    once, again, other = (load(name, tmp_path, rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once.test_x, again.test_x)
    assert not np.array_equal(once.test_x, other.test_x)


def refusal(name: str, folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(name, folder, rng())
    assert caught.value.status == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_known_or_not_there_is_one_line_that_says_what_to_do(tmp_path):
    said = refusal("mnits", tmp_path)
    allowed = "digits, breast-cancer, mnist, fashion-mnist, cifar-10, femnist-digits, adult, loan"
    assert said == f"data set 'mnits' is unknown; allowed: {allowed}"
    said = refusal("mnist", tmp_path / "no such")
    assert "train-images-idx3-ubyte.gz cannot be read (No such file or directory)" in said
    assert f"`python -m scenarios data mnist --data-dir '{tmp_path}/no such'`" in said
    assert "--data-dir" in refusal("femnist-digits", tmp_path)
    (tmp_path / TRAIN_IMAGES).mkdir(parents=True)
    (tmp_path / FEMNIST_FILE).mkdir(parents=True)
    assert "Is a directory" in refusal("mnist", tmp_path)
    assert "Is a directory" in refusal("femnist-digits", tmp_path)
    for name, entry in SOURCES.items():
        assert entry.name == name
        assert entry.advice(tmp_path)
        assert "{" not in entry.advice(tmp_path)


def test_labels_beyond_9_or_more_than_images_are_refused(tiny_mnist, tmp_path):
    write_idx(tiny_mnist / TEST_LABELS, np.arange(4))
    said = refusal("mnist", tiny_mnist)
    assert "has 5 images, mnist/t10k-labels-idx1-ubyte.gz has 4 labels; get it with" in said
    with pytest.raises(Damaged, match="label 10 is not allowed; 0 to 9"):
        read_labels(write_idx(tmp_path / "labels.gz", np.array([1, 10])))


IMAGES = idx(np.zeros((3, 28, 28)))
GZIPPED = gzipped(IMAGES)
CORRUPT = bytearray(GZIPPED)
CORRUPT[-6] ^= 1  # in the checksum


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "ends within its header"),
        (IMAGES, "Not a gzipped file"),
        (GZIPPED[:-10], "cannot be read (Compressed file ended"),
        (bytes(CORRUPT), "CRC check failed"),
        (GZIPPED[:10] + b"\xff" * 20, "cannot be read"),
        (gzipped(idx(np.zeros(3))), "begins with 00000801, not 00000803"),
        (gzipped(b"\0\0\x0d\x03" + IMAGES[4:]), "begins with 00000d03"),
        (gzipped(b"\0\0"), "ends within its header"),
        (gzipped(IMAGES[:9]), "ends within its header"),
        (gzipped(IMAGES[:-1]), "announces 2352 bytes in shape (3, 28, 28) and has 2351"),
        (gzipped(IMAGES + b"\0"), "announces 2352 bytes in shape (3, 28, 28) and has more"),
        (gzipped(idx(np.zeros((0, 28, 28)))), "announces 0 bytes"),
        (gzipped(IMAGES[:4] + b"\xff" * 12), f"allowed: 1 to {images.MOST_BYTES}"),
        (gzipped(idx(np.zeros((3, 28, 27)))), "images of shape (28, 27), not (28, 28)"),
    ],
)
def test_damaged_images_are_told_by_what_is_wrong(content: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(Damaged) as caught:
        read_images(write(tmp_path / "images.gz", content))
    assert said in str(caught.value)
    assert str(tmp_path / "images.gz") in str(caught.value)


def test_no_more_is_unpacked_than_is_announced(tmp_path: Path) -> None:
    """A gzip bomb: 64 MB of zeros behind a header of 3 images, whose end is corrupt and never reached."""
    bomb = gzipped(IMAGES + bytes(1 << 26))[:-8]
    with pytest.raises(Damaged, match="has more"):
        read_idx(write(tmp_path / "images.gz", bomb), 3)


def without(name: str) -> dict[str, np.ndarray]:
    return {key: value for key, value in femnist_arrays().items() if key != name}


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (without("client"), "client is not a file in the archive"),
        ({**femnist_arrays(), "images": femnist_arrays()["images"] / 255}, "images are float64"),
        ({**femnist_arrays(), "images": femnist_arrays()["images"][:, :, 1:]}, "not uint8 (n, 28, 28)"),
        ({**femnist_arrays(), "images": 255 - femnist_arrays()["images"]}, "ink is bright (mean pixel 0)"),
        ({**femnist_arrays(), "labels": np.arange(7)}, "labels (7,)"),
        ({**femnist_arrays(), "labels": np.arange(400)}, "label 399 is not allowed; 0 to 9"),
        ({**femnist_arrays(), "labels": np.zeros(400)}, "labels are float64; allowed: whole numbers"),
        ({**femnist_arrays(), "client": np.arange(-1, 399)}, "client -1 is not allowed"),
        ({**femnist_arrays(), "client": np.full(400, 2**62)}, f"client {2**62} is not allowed"),
        ({**femnist_arrays(), "client": np.zeros((400, 1), int)}, "client (400, 1)"),
        (femnist_arrays(rows=1, clients=1), "n at least 2"),
    ],
)
def test_wrong_femnist_arrays_are_told_by_what_is_wrong(arrays, said, tmp_path):
    assert said in refusal("femnist-digits", write_femnist(tmp_path, **arrays))


class Trap:
    """A class that creates a file if it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_is_unpickled_nor_unpacked_if_it_is_too_much_or_cut(tmp_path, monkeypatch):
    trap = np.empty(400, object)
    trap[:] = Trap(tmp_path / "sprung")
    folder = write_femnist(tmp_path, **{**femnist_arrays(), "labels": trap})
    assert "allow_pickle=False" in refusal("femnist-digits", folder)
    write(folder / FEMNIST_FILE, pickle.dumps(Trap(tmp_path / "sprung")))
    assert "cannot be read" in refusal("femnist-digits", folder)
    assert not (tmp_path / "sprung").exists()
    folder = write_femnist(tmp_path, **femnist_arrays())
    monkeypatch.setattr(images, "MOST_BYTES", 300_000)
    assert "allowed: 300000" in refusal("femnist-digits", folder)
    whole = (folder / FEMNIST_FILE).read_bytes()
    write(folder / FEMNIST_FILE, whole[: len(whole) // 2])
    assert "cannot be read" in refusal("femnist-digits", folder)


def test_some_training_rows_alone_tell_no_owners() -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6)
    rows = split(x, y, np.arange(4), np.array([4, 5]), np.array([7, 7, 8, 8]), 6, "made").only(
        np.array([3, 0])
    )
    assert (rows.train_x.tolist(), rows.train_y.tolist()) == ([[6, 7], [0, 1]], [3, 0])
    assert (rows.test_y.tolist(), rows.clients, rows.classes) == ([4, 5], None, 6)


@pytest.mark.skipif(REAL is None, reason="MURMURATION_DATA names no folder of real data sets")
@pytest.mark.parametrize(
    ("name", "train", "test", "ink"),
    [("mnist", 60_000, 10_000, 0.1307), ("femnist-digits", 4798, 1199, 0.0368)],
)
def test_real_data_is_read(name: str, train: int, test: int, ink: float) -> None:
    loaded = load(name, Path(str(REAL)), rng())
    assert (len(loaded.train_y), len(loaded.test_y)) == (train, test)
    assert loaded.train_x.mean() == pytest.approx(ink, abs=0.002)
    assert set(np.unique(loaded.train_y)) == set(range(10))
    if name == "femnist-digits":
        assert min(np.bincount(loaded.clients)) >= 300
