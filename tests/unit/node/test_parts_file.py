"""The file of a session's parts: what is whole is there, also after a kill at any byte of it."""

from pathlib import Path

import pytest

from node.parts_file import PartsFile
from protocol.masked_messages import TotalPiece
from protocol.messages import Sum
from protocol.names import NOBODY

SID, OWNER = b"s" * 32, b"o" * 32


def total(index: int, payload: bytes) -> TotalPiece:
    return TotalPiece(SID, index, payload)


def partial(index: int, payload: bytes) -> Sum:
    return Sum(SID, OWNER, bytes(32), (), bytes(64), index, payload)


def test_parts_of_several_owners_and_the_last_of_each(tmp_path: Path):
    file = PartsFile(tmp_path / "parts")
    assert file.get(NOBODY, 0) is None
    file.add((total(0, b"first"), partial(0, b"another's"), total(1, b"")))
    file.add((total(0, b"the last one"),))
    for opened in (file, PartsFile(tmp_path / "parts")):
        assert opened.get(NOBODY, 0) == b"the last one"
        assert opened.get(OWNER, 0) == b"another's"
        assert (opened.get(NOBODY, 1), opened.get(OWNER, 1)) == (None, None)


@pytest.mark.parametrize("in_this_process", [False, True], ids=["killed", "a full disk"])
def test_cut_off_at_any_byte_what_was_whole_is_there_and_more_can_be_added(tmp_path: Path, in_this_process):
    path = tmp_path / "parts"
    PartsFile(path).add((total(0, b"whole"),))
    whole = len(path.read_bytes())
    PartsFile(path).add((total(1, b"torn"),))
    both = path.read_bytes()
    for size in range(whole, len(both)):
        path.write_bytes(both[:whole])
        file = PartsFile(path)
        if in_this_process:
            with pytest.raises(OSError, match="no space"):
                file.add(_fails_after(path, both[whole:size]))
        else:
            path.write_bytes(both[:size])
        assert (file.get(NOBODY, 0), file.get(NOBODY, 1)) == (b"whole", None)
        file.add((total(2, b"more"),))
        assert [PartsFile(path).get(NOBODY, index) for index in range(3)] == [b"whole", None, b"more"]


def _fails_after(path: Path, torn: bytes):
    """No part: the file grows by this much, and then the disk is full."""
    with path.open("ab") as file:
        file.write(torn)
    raise OSError("no space")
    yield
