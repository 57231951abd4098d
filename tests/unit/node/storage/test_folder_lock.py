"""A run's folder: what a failed start removes, what a kill leaves, and files that are whole."""

import io
import os
from pathlib import Path

import numpy as np
import pytest

from node.app.run import prepare, run_as
from node.observe.lines import JsonOutput
from node.options import parse_arguments
from node.storage.folder_lock import Lock, check_folder, tidy_folder
from node.storage.key_file import new_seed, read_key, write_key
from node.storage.records import NOTHING
from node.storage.whole_files import new_file, replace_file
from node.system.disk import SystemDisk
from node.system.errors import ConfigError


def names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def begun(out) -> Lock:
    """Starts a node that has made all its files."""
    lock = Lock(out)
    for name in ("node.key", "state.db", "page.token"):
        (out / name).touch()
    (out / "vectors").mkdir()
    return lock


def test_a_start_that_fails_leaves_the_key_alone_and_a_folder_that_was_there_before_as_it_is(tmp_path):
    begun(tmp_path / "out").undo()
    assert names(tmp_path / "out") == {"node.key"}
    (tmp_path / "there").mkdir()
    begun(tmp_path / "there").undo()
    assert names(tmp_path / "there") == {"lock", "node.key", "state.db", "page.token", "vectors"}


@pytest.mark.parametrize("why", ["offered", "a round ended"])
def test_nothing_is_undone_once_something_was_offered_or_a_round_has_ended(tmp_path, why):
    lock = begun(tmp_path / "out")
    if why == "offered":
        lock.keep()
    else:
        (tmp_path / "out" / "history.jsonl").touch()
    lock.undo()
    assert names(tmp_path / "out") >= {"node.key", "state.db", "vectors"}


@pytest.mark.parametrize("offered", [True, False])
def test_a_node_that_is_refused_after_an_offer_keeps_what_it_has_spent(tmp_path, offered):
    """A peer refuses its task before its first round has a line."""
    small = ("--set=train.batch_size=64", "--set=model.args.sizes=[64,2,10]")
    out = tmp_path / "out"
    options = parse_arguments(["--peers", "127.0.0.1:1", "--shard", "0/20", "--out", str(out), *small])

    async def live(engine, _):
        if offered:
            engine._state.trained(np.ones(engine._state.dimension, np.float32), ())
            engine._state.spend(b"s" * 32, 1, 0, 1000, NOTHING)
        raise ConfigError("another task")

    with pytest.raises(ConfigError, match="another task"):
        run_as(prepare(options), None, JsonOutput(io.StringIO()), live)
    assert ({"state.db", "vectors", "node.key"} <= names(out)) == offered
    assert (out / "node.key").exists()


def test_a_folder_with_files_of_others_is_new(tmp_path):
    for name in ("notes.txt", "a.csv", "node.key", "page.token", "lock", "predictions.csv"):
        (tmp_path / name).touch()
    for has_key in (True, False):
        check_folder(tmp_path, tmp_path / "node.key", has_key=has_key)


@pytest.mark.parametrize(
    "left",
    [
        *("history.jsonl", "model.safetensors", "private.safetensors", "summary.json"),
        *("vectors", "certificates", "node.key.spent", "state.db-wal"),
    ],
)
def test_what_belongs_to_a_state_is_refused_without_one(tmp_path, left):
    """Without the state, epsilon would begin at zero again, whichever file is left."""
    (tmp_path / left).touch()
    with pytest.raises(ConfigError) as caught:
        check_folder(tmp_path, tmp_path / "node.key", has_key=True)
    assert str(caught.value) == (
        f"--out {tmp_path} has {left}, but its state.db is missing, which knows what was spent: put the "
        "newest copy of it back, or give another --out (docs/operating.md, Backup)"
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [(b"", b""), (b"a\nb\n", b"a\nb\n"), (b"a\nb", b"a\n"), (b"a", b""), (b"a\n" + bytes(9), b"a\n")],
)
def test_a_torn_last_line_of_history_is_cut_off(tmp_path, text, left):
    (tmp_path / "history.jsonl").write_bytes(text)
    tidy_folder(tmp_path, tmp_path / "node.key")
    assert (tmp_path / "history.jsonl").read_bytes() == left


def test_a_name_that_a_killed_node_gave_is_on_disk_before_anything_is_read(tmp_path):
    synced = []

    class Noting(SystemDisk):
        def sync(self, descriptor):
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
            super().sync(descriptor)

    tidy_folder(tmp_path, tmp_path / "node.key", Noting())
    assert synced == [tmp_path]


def test_half_a_key_beside_its_place_is_taken_away(tmp_path):
    (tmp_path / "safe").mkdir()
    for name in (".key.12", ".other.12"):
        (tmp_path / "safe" / name).touch()
    tidy_folder(tmp_path, tmp_path / "safe" / "key")
    assert names(tmp_path / "safe") == {".other.12"}
    tidy_folder(tmp_path, tmp_path / "nowhere" / "key")


def test_a_write_that_fails_leaves_the_file_before_and_a_new_file_replaces_none(tmp_path):
    """As on a full disk: half of the new file is removed at once, not at the next start."""
    path = tmp_path / "summary.json"
    path.write_text("before")

    def parts():
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace_file(path, parts(), durable=True)
    assert (names(tmp_path), path.read_text()) == ({"summary.json"}, "before")
    path = tmp_path / "node.key"
    new_file(path, b"one")
    with pytest.raises(FileExistsError):
        new_file(path, b"two")
    assert (names(tmp_path), path.read_bytes()) == ({"summary.json", "node.key"}, b"one")


def test_a_file_system_without_second_names_will_do(tmp_path, monkeypatch):
    def link(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    seed = new_seed()
    write_key(tmp_path / "node.key", seed)
    with pytest.raises(ConfigError, match="cannot be written: File exists"):
        write_key(tmp_path / "node.key", new_seed())
    assert names(tmp_path) == {"node.key"}
    assert (tmp_path / "node.key").stat().st_mode & 0o777 == 0o600
    assert read_key(tmp_path / "node.key") is not None
