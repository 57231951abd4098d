import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from node.system.errors import ConfigError
from scenarios.data import cifar
from scenarios.data.cifar import CIFAR_FILE, RECORD_BYTES
from scenarios.data.dataset import FederatedDataset
from scenarios.data.sources import load

TEST = "cifar-10-batches-bin/test_batch.bin"
TRAIN = [f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)]


def records(seed: int, rows: int) -> np.ndarray:
    drawn = np.random.default_rng(seed)
    labels = drawn.integers(0, 10, (rows, 1))
    return np.hstack([labels, drawn.integers(0, 256, (rows, RECORD_BYTES - 1))]).astype(np.uint8)


def batches(rows: int = 4) -> dict[str, bytes]:
    return {name: records(seed, rows).tobytes() for seed, name in enumerate([*TRAIN, TEST])}


def packed(members: dict[str, bytes]) -> bytes:
    """Returns an archive with the members, and with those that the published one has besides."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        folder = tarfile.TarInfo("cifar-10-batches-bin")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in {**members, "cifar-10-batches-bin/batches.meta.txt": b"airplane\n"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def load_from(folder: Path, content: bytes) -> FederatedDataset:
    (folder / CIFAR_FILE).parent.mkdir(exist_ok=True)
    (folder / CIFAR_FILE).write_bytes(content)
    return load("cifar-10", folder, np.random.default_rng(0))


def refusal(folder: Path, content: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        load_from(folder, content)
    assert "\n" not in str(caught.value)
    assert "get it with `python -m scenarios data cifar-10" in str(caught.value)
    return str(caught.value)


def test_images_have_three_colours_and_the_batches_keep_their_order(tmp_path: Path) -> None:
    found = load_from(tmp_path, packed(dict(reversed(batches().items()))))
    assert (found.train_x.shape, found.test_x.shape) == ((20, 3, 32, 32), (4, 3, 32, 32))
    assert (found.train_x.dtype, found.train_y.dtype, found.classes) == (np.float32, np.int64, 10)
    rows = np.concatenate([records(seed, 4) for seed in range(5)])
    np.testing.assert_array_equal(found.train_y, rows[:, 0])
    green = rows[:, 1 + 1024 : 1 + 2048].reshape(-1, 32, 32)
    np.testing.assert_allclose(found.train_x[:, 1] * 255, green, atol=1e-4)
    np.testing.assert_array_equal(found.test_y, records(5, 4)[:, 0])
    assert found.description.startswith("cifar-10: 20 training and 4 test images")
    assert found.clients is None


def test_a_batch_that_is_missing_or_too_large_or_of_another_size_or_a_link_is_named(tmp_path, monkeypatch):
    members = batches()
    del members[TRAIN[2]]
    assert f"lacks {TRAIN[2]}" in refusal(tmp_path, packed(members))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        link = tarfile.TarInfo(TEST)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert f"lacks {TRAIN[0]}" in refusal(tmp_path, out.getvalue())
    for size in (0, RECORD_BYTES - 1, RECORD_BYTES + 1):
        said = refusal(tmp_path, packed({**batches(), TEST: bytes(size)}))
        assert f"{TEST} has {size} bytes; allowed: a multiple of 3073" in said
    said = refusal(tmp_path, packed({**batches(), TEST: b"\x0a" + bytes(RECORD_BYTES - 1)}))
    assert f"{TEST} has label 10; allowed: 0 to 9" in said
    said = refusal(tmp_path, packed({f"{number}": b"" for number in range(200)}))
    assert "has more than 100 members" in said
    monkeypatch.setattr(cifar, "MOST_BYTES", RECORD_BYTES)
    assert f"at most {RECORD_BYTES}" in refusal(tmp_path, packed(batches()))


def test_what_is_cut_or_changed_is_refused(tmp_path: Path) -> None:
    whole = packed(batches())
    corrupt = bytearray(whole)
    corrupt[-6] ^= 1  # in the checksum
    assert "CRC check failed" in refusal(tmp_path, bytes(corrupt))
    assert "cannot be read" in refusal(tmp_path, whole[: len(whole) // 2])
    assert "cannot be read" in refusal(tmp_path, b"no archive")
    assert "cannot be read" in refusal(tmp_path, gzip.compress(b"no archive" * 100))
