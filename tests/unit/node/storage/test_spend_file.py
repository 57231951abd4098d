"""What a key has spent: line by line, whose line it is, and what a kill or a disk does to the file."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mechanisms.accounting.ledger import Gaussian, Pure, SampledGaussian
from node.storage.spend_file import Charge, SpendFile, spend_path
from node.system.errors import ConfigError, UserError

KEY, OTHER = b"k" * 32, b"o" * 32
EVENTS = (SampledGaussian(1.1, 0.25, 8), Gaussian(2.5), Pure(0.5))


def charge(number: int) -> Charge:
    return Charge(bytes([number]) * 32, number, 1000 + number, EVENTS[: 1 + number % 3])


def spend_file(folder, key=KEY, task="ward") -> SpendFile:
    return SpendFile(folder / "node.key", key, task)


def test_what_was_added_is_read_and_only_its_owner_reads_it(tmp_path):
    file = spend_file(tmp_path)
    file.add(())
    assert (list(tmp_path.iterdir()), file.charges()) == ([], {})
    file.add((charge(1), charge(2)))
    spend_file(tmp_path).add((charge(3),))
    assert list(spend_file(tmp_path).charges().values()) == [charge(1), charge(2), charge(3)]
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.path == tmp_path / "node.key.spent"


def test_each_key_and_task_has_lines_of_its_own_beside_the_key_itself(tmp_path):
    for number, (key, task) in enumerate([(KEY, "ward"), (OTHER, "ward"), (KEY, "agreement on ward")]):
        spend_file(tmp_path, key, task).add((charge(number),))
    assert list(spend_file(tmp_path).charges().values()) == [charge(0)]
    assert list(spend_file(tmp_path, OTHER).charges().values()) == [charge(1)]
    assert list(spend_file(tmp_path, task="agreement on ward").charges().values()) == [charge(2)]
    assert spend_file(tmp_path, task="another").charges() == {}
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe" / "key").touch()
    (tmp_path / "node.key").symlink_to(tmp_path / "safe" / "key")
    assert spend_path(tmp_path / "node.key") == tmp_path / "safe" / "key.spent"


def test_a_last_line_that_was_cut_off_at_any_byte_is_none_and_makes_room_for_the_next(tmp_path):
    file = spend_file(tmp_path)
    file.add((charge(1),))
    whole = file.path.read_bytes()
    file.add((charge(2),))
    torn = file.path.read_bytes()
    for end in range(len(whole), len(torn)):
        file.path.write_bytes(torn[:end])
        assert list(file.charges()) == [charge(1).sid], end
    file.add((charge(3),))
    assert list(file.charges().values()) == [charge(1), charge(3)]
    file.path.write_bytes(torn[:7])
    file.add((charge(3),))
    assert list(file.charges().values()) == [charge(3)]


def test_a_changed_byte_anywhere_is_refused_in_a_line_whoever_it_is_of(tmp_path):
    spend_file(tmp_path, OTHER).add((charge(1),))
    file = spend_file(tmp_path)
    file.add((charge(2),))
    whole = file.path.read_bytes()
    for place in range(0, len(whole) - 1, 7):
        if whole[place] == ord("\n"):
            continue
        file.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        line = 1 if place < whole.index(b"\n") else 2
        with pytest.raises(ConfigError) as caught:
            file.charges()
        assert str(caught.value) == (
            f"{file.path}, what this key has spent, is damaged in line {line}: put back a copy of it "
            "that is whole and no older"
        ), place


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(tmp_path, make):
    file = spend_file(tmp_path)
    make(file.path)
    with pytest.raises(ConfigError, match=r"node\.key\.spent, what this key has spent, cannot be read: "):
        file.charges()


def test_what_can_not_be_written_is_refused_before_there_is_something_to_write(tmp_path):
    spend_file(tmp_path).check_writable()
    file = spend_file(tmp_path / "gone")
    with pytest.raises(ConfigError) as caught:
        file.check_writable()
    assert str(caught.value) == (
        f"{tmp_path / 'gone'} cannot be written: node.key.spent is kept there, what this key has spent; "
        "give this user the right to it, or name another --key"
    )
    with pytest.raises(UserError, match="cannot be written: No such file or directory; nothing was offered"):
        file.add((charge(1),))


def test_two_that_write_at_once_lose_no_line(tmp_path):
    def write(numbers: range) -> None:
        for number in numbers:
            spend_file(tmp_path).add((charge(number),))

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write, numbers) for numbers in (range(40), range(40, 80))]:
            done.result()
    assert {charge.round for charge in spend_file(tmp_path).charges().values()} == set(range(80))
