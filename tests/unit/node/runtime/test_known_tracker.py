"""The tracker's key: the pinned one, or the one that it showed first."""

import pytest

from node.runtime.known_tracker import KnownTracker
from node.system.errors import ConfigError
from tests.own_data import told

ONE, TWO = bytes([1]) * 32, bytes([2]) * 32
HERE, THERE = "127.0.0.1:9000", "[::1]:9000"


def test_what_was_met_is_kept_by_where_it_was_and_the_pin_comes_first(tmp_path):
    file = tmp_path / "tracker.pub"
    known = KnownTracker(None, file)
    assert known.key_at(HERE) is None
    known.keep(HERE, ONE)
    known.keep(THERE, TWO)
    again = KnownTracker(None, file)
    assert (again.key_at(HERE), again.key_at(THERE), again.key_at("h:1")) == (ONE, TWO, None)
    assert KnownTracker(TWO, file).key_at(HERE) == TWO
    again.keep(HERE, TWO)
    assert file.read_text() == f"{TWO.hex()}@{THERE}\n{TWO.hex()}@{HERE}\n"
    assert list(tmp_path.iterdir()) == [file]


def test_what_to_do_about_another_one(tmp_path):
    file = tmp_path / "tracker.pub"
    for known, advice in (
        (KnownTracker(None, file), f"delete {file}"),
        (KnownTracker(ONE, file), "correct the KEY of --tracker"),
    ):
        assert known.changed(HERE, "it holds the key X, not Y") == (
            f"the tracker at {HERE} is another one than before: it holds the key X, not Y; find out who "
            f"answers there; if it was given a new key on purpose, {advice}"
        )


@pytest.mark.parametrize(
    "written", ["what", HERE, f"{'ab' * 31}@{HERE}", f"{'ab' * 32}@{HERE}/x", "\xff\xfe"]
)
def test_a_file_that_is_none(tmp_path, written):
    file = tmp_path / "tracker.pub"
    file.write_text(written)
    assert f"the file {file}" in told(KnownTracker(None, file).key_at, HERE)


def test_a_file_that_can_not_be_read_or_written(tmp_path):
    (tmp_path / "tracker.pub").mkdir()
    known = KnownTracker(None, tmp_path / "tracker.pub")
    assert "cannot be read: Is a directory" in told(known.key_at, HERE)
    nowhere = KnownTracker(None, tmp_path / "no" / "tracker.pub")
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        nowhere.keep(HERE, ONE)
