"""Arrays in an npz: no reader trusts their declared sizes, and nothing is unpickled."""

import io
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from node.data.files import npz
from node.data.sources import read_source
from node.init.look import look
from node.predict import rows
from node.task.load import read_task
from node.task.scaling import by_rows
from tests.own_data import told

LIE = (10**10, 4)  # of float64: 320 GB
OF_01 = {"name": "y", "kind": "classes", "values": ["0", "1"]}
ARRAY = {"kind": "array", "target": OF_01, "shape": [4], "mean": [0.0], "std": [1.0]}
MODEL = {"class": "node.models:Linear", "args": {"inputs": 4, "outputs": 2}}
SECTIONS = {"task": {"name": "t"}, "model": MODEL}
PLAIN = read_task(SECTIONS)
WITH = read_task({**SECTIONS, "data": {"schema": ARRAY}})
X, Y = np.arange(40.0).reshape(10, 4), np.arange(10) % 2
MOST_TRACED = 8 << 20
READERS = {
    "trained without a schema": lambda path: read_source(path, PLAIN),
    "predicted without a schema": lambda path: rows.read_rows(path, PLAIN, 2, (4,)),
    "trained with a schema": lambda path: read_source(path, WITH),
    "predicted with a schema": lambda path: rows.read_rows(path, WITH, 2, (4,)),
    "guessed": lambda path: look(path, None, "auto", (), by_rows),
}
PREDICTS = [name for name in READERS if name.startswith("predicted")]


@pytest.fixture(params=READERS)
def read(request):
    return READERS[request.param]


def member(array, shape=None):
    """Makes an array's file in an npz; `shape`: the shape that it declares instead of its own."""
    file = io.BytesIO()
    head = {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape}
    np.lib.format.write_array_header_1_0(file, head)
    return file.getvalue() + array.tobytes()


def archive(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def sized(path: Path, name: str, size: int) -> Path:
    """Returns the archive with another declared size of one member, in its directory and its own header."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        at = file.getinfo(name).header_offset
        directory = file.start_dir
    place = content.index(name.encode(), directory) - 46
    content[at + 22 : at + 26] = content[place + 24 : place + 28] = struct.pack("<I", size)
    path.write_bytes(content)
    return path


def refused(read, path):
    """Returns the one line of a refusal that allocated hardly anything."""
    tracemalloc.start()
    try:
        line = told(read, path)
        assert tracemalloc.get_traced_memory()[1] < MOST_TRACED
    finally:
        tracemalloc.stop()
    assert line.startswith("data file ")
    return line


def test_what_numpy_saves_is_read(tmp_path, read):
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "rows.npz", x=X, y=Y)
        read(tmp_path / "rows.npz")


def test_an_array_that_says_that_it_is_huge(tmp_path, read):
    path = archive(tmp_path / "lie.npz", {"x.npy": member(X, LIE), "y.npy": member(Y)})
    line = "array 'x' says that it has 320000000000 bytes, and the file holds 320 for it"
    assert line in refused(read, path)


@pytest.mark.parametrize("reader", PREDICTS)
def test_one_without_targets(tmp_path, reader):
    path = archive(tmp_path / "lie.npz", {"x.npy": member(X, LIE)})
    assert "array 'x' says that it has 320000000000 bytes" in refused(READERS[reader], path)
    np.savez(tmp_path / "rows.npz", x=X)
    assert READERS[reader](tmp_path / "rows.npz").y is None


@pytest.mark.parametrize("shape", [(9, 4), (11, 4), (10, 5), (2**62, 4, 0), (-10, -4), (-10, 4)])
def test_an_array_says_what_it_holds_to_the_byte(tmp_path, read, shape):
    path = archive(tmp_path / "lie.npz", {"x.npy": member(X, shape), "y.npy": member(Y)})
    line = refused(read, path)
    assert "array 'x' says that it has" in line or "cannot be read: an array of shape (-10, " in line


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_that_says_that_a_member_is_huge(tmp_path, read, packing):
    """Header and directory agree on the lie, within four bytes; the packed data cannot expand that far."""
    rows = 120_000_000
    path = archive(tmp_path / "lie.npz", {"x.npy": member(X, (rows, 4)), "y.npy": member(Y)}, packing)
    head = len(member(X, (rows, 4))) - X.nbytes
    lying = sized(path, "x.npy", head + rows * 32)
    assert "array 'x' says that it has 3840000000 bytes, and the file holds" in refused(read, lying)


def test_a_member_that_unfolds_to_more_than_it_says(tmp_path, read):
    """64 MiB of zeros, of which the directory and the array declare 320 bytes."""
    bomb = member(np.zeros((10, 4)), (10, 4)) + bytes(64 << 20)
    path = archive(tmp_path / "bomb.npz", {"x.npy": bomb, "y.npy": member(Y)}, zipfile.ZIP_DEFLATED)
    assert "array 'x' says that it has 320 bytes, and the file holds 67109184 for it" in refused(read, path)
    lying = sized(path, "x.npy", len(bomb) - (64 << 20))
    assert "cannot be read: Bad CRC-32" in refused(read, lying)


def test_arrays_together_are_no_larger_than_what_is_free(tmp_path, read, monkeypatch):
    np.savez_compressed(tmp_path / "rows.npz", x=X, y=Y)
    monkeypatch.setattr(npz, "free_bytes", lambda: X.nbytes + Y.nbytes)
    read(tmp_path / "rows.npz")
    monkeypatch.setattr(npz, "free_bytes", lambda: X.nbytes + Y.nbytes - 1)
    line = refused(read, tmp_path / "rows.npz")
    assert line.endswith(": array 'y' has 80 bytes; allowed: at most 79, by what is free; take fewer rows")
    monkeypatch.setattr(npz, "free_bytes", lambda: None)
    read(tmp_path / "rows.npz")
    monkeypatch.setattr(npz, "free_bytes", lambda: -1)
    assert "allowed: at most 0" in refused(read, tmp_path / "rows.npz")


def harmful():
    raise AssertionError("it was unpickled")


class Harmful:
    def __reduce__(self):
        return harmful, ()


def test_nothing_is_unpickled(tmp_path, read):
    x = np.empty((10, 4), object)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|O", "fortran_order": False, "shape": x.shape})
    content = head.getvalue() + pickle.dumps(Harmful())
    path = archive(tmp_path / "rows.npz", {"x.npy": content, "y.npy": member(Y)})
    assert "array 'x' holds Python objects, which are not read" in refused(read, path)


@pytest.mark.parametrize(
    ("x", "line"),
    [
        (b"\x93NUMPY\x01\x00\x05\x00{'a'\n", " cannot be read: the header of an array is none"),
        (b"\x93NUMPY\x09\x00", " cannot be read: an array of version (9, 0)"),
        (member(np.zeros((10, 4), "S1")).replace(b"|S1", b"|S0"), ": array 'x' holds |S0; allowed: numbers"),
        (member(np.zeros(10, "V4")), ": array 'x' holds |V4; allowed: numbers"),
    ],
)
def test_what_is_no_array(tmp_path, read, x, line):
    assert line in refused(read, archive(tmp_path / "rows.npz", {"x.npy": x, "y.npy": member(Y)}))


def test_an_array_of_no_name_and_two_of_one_name(tmp_path, read):
    path = archive(tmp_path / "none.npz", {"x": member(X), "y.npy": member(Y)})
    assert " has no array 'x'; it has 'y'" in refused(read, path)
    path = archive(tmp_path / "rows.npz", {"x.npy": member(X), "z.npy": member(X), "y.npy": member(Y)})
    path.write_bytes(path.read_bytes().replace(b"z.npy", b"x.npy"))
    assert " has two arrays 'x'; allowed: one of each name" in refused(read, path)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_in_a_way_that_has_no_bound(tmp_path, read, packing):
    path = archive(tmp_path / "rows.npz", {"x.npy": member(X), "y.npy": member(Y)}, packing)
    assert "array 'x' is encrypted, or not packed as numpy.savez does" in refused(read, path)
