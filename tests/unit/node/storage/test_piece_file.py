"""The file of a session's parts: whole parts survive a kill at any byte."""

from pathlib import Path

import pytest

from node.storage.piece_file import PieceFile
from protocol.wire.ids import NOBODY
from protocol.wire.masked_messages import TotalPiece
from protocol.wire.messages import Sum

SID, OWNER = b"s" * 32, b"o" * 32


def total(index: int, payload: bytes | memoryview) -> TotalPiece:
    return TotalPiece(SID, index, payload)


def partial(index: int, payload: bytes | memoryview) -> Sum:
    return Sum(SID, OWNER, bytes(32), (), bytes(64), index, payload)


def test_parts_of_several_owners_and_the_last_of_each(tmp_path: Path):
    file = PieceFile(tmp_path / "parts")
    assert file.get(NOBODY, 0) is None
    file.add((total(0, b"first"), partial(0, b"another's"), total(1, b"")))
    file.add((total(0, b"the last one"),))
    for opened in (file, PieceFile(tmp_path / "parts")):
        assert opened.get(NOBODY, 0) == b"the last one"
        assert opened.get(OWNER, 0) == b"another's"
        assert (opened.get(NOBODY, 1), opened.get(OWNER, 1)) == (None, None)


def test_what_is_kept_again_takes_no_room(tmp_path: Path):
    """A member that is healed from several sources in turn keeps the same pieces each time."""
    path = tmp_path / "parts"
    for _ in range(2):
        PieceFile(path).add((total(0, b"first"), partial(0, memoryview(b"another's")), total(1, b"")))
        sizes = path.stat().st_size
        PieceFile(path).add((total(0, memoryview(b"first")), partial(0, b"another's")))
        assert path.stat().st_size == sizes


def test_cut_off_by_a_kill_at_any_byte_what_was_whole_is_there_and_more_can_be_added(tmp_path: Path):
    path = tmp_path / "parts"
    PieceFile(path).add((total(0, b"whole"),))
    whole = len(path.read_bytes())
    PieceFile(path).add((total(1, b"torn"),))
    both = path.read_bytes()
    for size in range(whole, len(both)):
        path.write_bytes(both[:size])
        file = PieceFile(path)
        assert (file.get(NOBODY, 0), file.get(NOBODY, 1)) == (b"whole", None)
        file.add((total(2, b"more"),))
        assert [PieceFile(path).get(NOBODY, index) for index in range(3)] == [b"whole", None, b"more"]


def test_a_part_that_can_not_be_written_leaves_the_others_and_room_for_more(tmp_path: Path):
    """As on a full disk: the head of the part is written, and nothing of its content."""
    file = PieceFile(tmp_path / "parts")
    file.add((total(0, b"whole"),))
    with pytest.raises(TypeError):
        file.add((total(1, b"before it"), total(2, "no bytes"), total(3, b"behind it")))  # type: ignore[arg-type]
    assert [file.get(NOBODY, index) for index in range(4)] == [b"whole", b"before it", None, None]
    file.add((total(3, b"more"),))
    for opened in (file, PieceFile(tmp_path / "parts")):
        assert [opened.get(NOBODY, index) for index in range(4)] == [b"whole", b"before it", None, b"more"]
