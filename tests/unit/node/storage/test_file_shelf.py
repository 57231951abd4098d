"""What a sum of long vectors keeps: in a file without a name, of this user alone."""

import os
from pathlib import Path

import pytest

from node.storage import file_shelf
from node.storage.file_shelf import FileShelves
from node.system.errors import UserError
from protocol.vectors.shelf import in_memory

LONG = 1000


def open_files(folder: Path) -> list[os.stat_result]:
    """Returns what this process has open in `folder`."""
    own = [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    return [fd.stat() for fd in own if str(fd.readlink()).startswith(str(folder))]


def test_payloads_come_back_from_a_file_that_nobody_else_can_open_and_that_ends_with_them(tmp_path: Path):
    shelves = FileShelves(tmp_path, least=LONG)
    shelf = shelves(2 * LONG)
    payloads = [os.urandom(size) for size in (1, 0, 5000)]
    places = [shelf.put(memoryview(payload)) for payload in payloads]
    assert [place() for place in [*places, *places]] == payloads * 2
    (file,) = open_files(tmp_path)
    assert (file.st_mode & 0o777, file.st_nlink, file.st_size) == (0o600, 0, 5001)
    assert shelves.bytes == 5001
    del shelf, places
    assert open_files(tmp_path) == []


def test_what_is_short_stays_in_memory(tmp_path: Path):
    shelves, payload = FileShelves(tmp_path, least=LONG), memoryview(b"short")
    assert shelves(LONG - 1).put(payload)() is payload is in_memory(LONG).put(payload)()
    assert shelves.bytes == 0


def test_a_folder_that_takes_no_file_and_a_full_disk_are_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(UserError, match=r"gone: what a sum of long vectors keeps cannot be written: No such"):
        FileShelves(tmp_path / "gone", least=0)(1)
    with pytest.raises(UserError, match=r"cannot be written: .*; make room there"):
        FileShelves(tmp_path, least=0)(1 << 60)
    assert open_files(tmp_path) == []
    shelf = FileShelves(tmp_path, least=0)(1)
    full = OSError(28, "No space left on device")

    def refuse(*_: object) -> int:
        raise full

    monkeypatch.setattr(file_shelf.os, "pwrite", refuse)
    with pytest.raises(UserError, match="cannot be written: No space left on device; make room there"):
        shelf.put(b"more")
