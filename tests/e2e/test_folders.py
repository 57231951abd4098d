"""A node's folder over kills, losses and versions: the node starts again, or refuses in one line.

`tests/fixtures` has folders of three nodes of versions 1 and 2; make_folder.py describes them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from mechanisms.accounting.ledger import Ledger, event_from_text, spent
from node.storage.key_file import new_seed
from protocol.crypto.node_key import NodeKey
from tests.e2e.processes import ROOT, Nursery, Process, free_endpoint
from tests.e2e.swarm import settings, wait_status, write_key
from tests.fixtures.make_folder import SETTINGS
from tests.run_folders import fact, history, rows

V1 = ROOT / "tests" / "fixtures" / "folder_v1"
V2 = ROOT / "tests" / "fixtures" / "folder_v2"
DELTA = 1e-5
CLOSE = 1e-9


def copy_of(folder: Path, target: Path) -> Path:
    """Copies a folder with the file modes of its own disk, which git does not keep."""
    shutil.copytree(folder, target)
    for secret in target.glob("node.key*"):
        secret.chmod(0o600)
    return target


def the_key(out: Path) -> bytes:
    return NodeKey(bytes.fromhex((out / "node.key").read_text())).public


def epsilon(out: Path) -> float:
    """Returns the total epsilon in a folder's ledger."""
    events = [
        event_from_text(line)
        for (text,) in rows(out, "select events from ledger")
        for line in text.split("\n")
    ]
    return spent(Ledger.of(events), DELTA).epsilon


def contents(out: Path) -> dict[str, bytes]:
    left_out = {"lock", "state.db-shm"}
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in left_out)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def start(nursery: Nursery, out: Path, *more: str, here: str | None = None) -> Process:
    """Starts node 0 of the fixture alone, with its task and budget."""
    here = here or free_endpoint()
    where = ("--peers", here, "--listen", here, "--shard", "0/3", "--out", str(out))
    return nursery.fork(*where, "--rounds", "3", "--json", *settings(*SETTINGS), *more)


def stopped(node: Process) -> None:
    """Waits until a node has begun; stops it."""
    node.event("training")
    node.send(signal.SIGINT)
    assert node.status() == 130, node.told()


# -- a kill at every step of a start -------------------------------------------------------------------


def trials(nursery: Nursery, home: Path, source: Path | None, *more: str) -> list[tuple[Path, str]]:
    """Returns each trial's folder, and where its first start was killed; a second start followed."""
    home.mkdir()
    where = ("--peers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--shard", "0/3", "--out", "{}/out")
    what = settings(*SETTINGS, "train.threads=1")
    process = nursery.module("tests.e2e.dying_start", str(home), str(source or ""), *where, *what, *more)
    assert process.status(120) == 0, process.told()
    process.out.join()
    told = [json.loads(line) for line in process.out.all()]
    for trial in told:
        assert trial["second"] == 77, trial
    assert [trial["first"] for trial in told] == [-signal.SIGKILL] * (len(told) - 1) + [77]
    assert len(told) > 20
    return [(Path(trial["trial"]) / "out", trial["at"]) for trial in told]


def is_tidy(out: Path) -> None:
    """Checks that nothing half-written is left."""
    assert [path.name for path in out.rglob(".*")] == []


@pytest.mark.slow  # some 50 kills, each with two starts
@pytest.mark.parametrize("elsewhere", [False, True], ids=["key-inside", "key-elsewhere"])
def test_a_first_start_killed_before_any_of_its_steps_starts_again(nursery, tmp_path, elsewhere):
    more = ("--key", "{}/key") if elsewhere else ()
    told = trials(nursery, tmp_path / "trials", None, *more)
    steps = " ".join(step for _, step in told)
    for what in ("mkdir", "fsync", "os.link", "os.rename", "create table fact", "sqlite commit", "vectors"):
        assert what in steps
    for out, step in told:
        key = out.parent / "key" if elsewhere else out / "node.key"
        public = NodeKey(bytes.fromhex(key.read_text())).public
        assert fact(out, "key") == public, step
        assert fact(out, "base_file") is not None
        is_tidy(out)


def test_a_start_with_a_key_that_was_made_before_is_killed_and_starts_again_with_it(nursery, tmp_path):
    """As in the tutorial, `python -m node.key OUT/node.key` comes first."""
    seed = tmp_path / "seed"
    write_key(seed / "out" / "node.key", new_seed())
    for out, step in trials(nursery, tmp_path / "trials", seed):
        assert fact(out, "key") == the_key(seed / "out"), step
        is_tidy(out)


@pytest.mark.parametrize("older", [V1, V2], ids=["1", "2"])
def test_a_take_over_killed_before_any_of_its_steps_is_taken_over_by_the_next_start(nursery, tmp_path, older):
    copy_of(older / "0", tmp_path / "seed" / "out")
    before = epsilon(copy_of(older / "0", tmp_path / "looked-at"))
    assert before > 4
    told = trials(nursery, tmp_path / "trials", tmp_path / "seed")
    assert "pragma user_version = 4" in " ".join(step for _, step in told)
    for out, step in told:
        assert fact(out, "key") == the_key(older / "0"), step
        assert epsilon(out) == pytest.approx(before, abs=CLOSE), step
        assert len((out / "node.key.spent").read_text().splitlines()) == 2
        is_tidy(out)


# -- versions 1 and 2 ------------------------------------------------------------------------------------


def test_a_folder_of_version_1_under_another_key_is_refused(nursery, tmp_path):
    """The folder does not name its owner, but its summary and its certificates do."""
    for name in ("summary.json", "nothing"):
        out = copy_of(V1 / "0", tmp_path / name)
        (out / name).unlink(missing_ok=True)
        write_key(out / "node.key", new_seed())
        before = contents(out)
        line = start(nursery, out).fails(2)
        assert f"--out {out} belongs to " in line
        assert "put that key's file back, or give another --out" in line
        assert contents(out).keys() <= before.keys()


# -- what was lost -------------------------------------------------------------------------------------


def lost(out: Path, *names: str) -> Path:
    for name in names:
        if (out / name).is_dir():
            shutil.rmtree(out / name)
        else:
            (out / name).unlink(missing_ok=True)
    return out


DATABASE = ("state.db", "state.db-wal", "state.db-shm")
ALL = (
    *("history.jsonl", "model.safetensors", "private.safetensors", "summary.json", "vectors", "certificates"),
    "node.key.spent",
)


@pytest.fixture(scope="module")
def used(tmp_path_factory) -> Path:
    """Makes a folder as this version leaves it."""
    nursery, out = Nursery(), copy_of(V1 / "0", tmp_path_factory.mktemp("used") / "out")
    try:
        stopped(start(nursery, out))
    finally:
        nursery.end_all()
    return out


def refused(nursery: Nursery, out: Path, *more: str) -> str:
    """Starts a node that refuses the folder; returns the line, and checks that the folder is unchanged."""
    before = contents(out)
    line = start(nursery, out, *more).fails(2)
    assert contents(out) == before
    return line


@pytest.mark.parametrize("left", ALL)
def test_what_belongs_to_a_state_is_refused_without_one(nursery, tmp_path, used, left):
    """Without the state, epsilon would begin at zero again, whichever files are left."""
    out = copy_of(used, tmp_path / "out")
    lost(out, *DATABASE, *(name for name in ALL if name != left))
    assert refused(nursery, out) == (
        f"error: --out {out} has {left}, but its state.db is missing, which knows what was spent: put the "
        "newest copy of it back, or give another --out (docs/operating.md, Backup)"
    )


def test_a_key_and_a_token_alone_are_a_new_folder(nursery, tmp_path, used):
    out = lost(copy_of(used, tmp_path / "out"), *DATABASE, *ALL)
    write_key(out / "page.token", os.urandom(32))
    (out / "notes.txt").write_text("of the owner\n")
    stopped(start(nursery, out))
    assert fact(out, "key") == the_key(used)


def test_an_empty_state_is_refused(nursery, tmp_path, used):
    out = copy_of(used, tmp_path / "out")
    lost(out, *DATABASE)
    (out / "state.db").touch()
    assert f"error: {out / 'state.db'} is empty, and it knows what was spent" in refused(nursery, out)


def test_a_state_that_was_cut_off_is_refused(nursery, tmp_path, used):
    whole = (used / "state.db").read_bytes()
    assert len(whole) >= 5 * 4096
    for size in (100, 4096, 2 * 4096, len(whole) // 2, len(whole) - 4096, len(whole) - 1):
        out = copy_of(used, tmp_path / str(size))
        (out / "state.db").write_bytes(whole[:size])
        line = start(nursery, out).fails(2)
        assert f"error: {out / 'state.db'} " in line, size
        assert "malformed" in line or "is cut off" in line
        assert "it knows what was spent: put the newest copy back" in line
        assert not (out / "state.db-wal").exists()


def test_another_key_is_refused(nursery, tmp_path, used):
    out = copy_of(used, tmp_path / "out")
    write_key(out / "node.key", new_seed())
    line = refused(nursery, out)
    assert (
        f"--out {out} belongs to the key {the_key(used).hex()[:16]}..., not to {the_key(out).hex()[:16]}"
        in line
    )


def test_a_key_that_is_gone_is_not_made_anew_over_a_state(nursery, tmp_path, used):
    out = copy_of(used, tmp_path / "out")
    (out / "node.key").unlink()
    line = refused(nursery, out)
    assert line == (
        f"error: --out {out} has a state.db, but the key that it belongs to is missing, {out / 'node.key'}: "
        "put that key back, or give another --out"
    )
    assert not (out / "node.key").exists()


def test_making_a_key_touches_no_spend_file(nursery, tmp_path, used):
    """Neither alone nor if the old key is gone; and a node makes no key beside such a file."""
    out = lost(copy_of(used, tmp_path / "out"), "node.key", *DATABASE, *ALL[:-1])
    key, spent_file = tmp_path / "k" / "node.key", tmp_path / "k" / "node.key.spent"
    key.parent.mkdir()
    shutil.move(out / "node.key.spent", spent_file)
    before = spent_file.read_bytes(), spent_file.stat().st_mtime_ns
    line = start(nursery, tmp_path / "new", "--key", str(key)).fails(2)
    assert line.startswith(f"error: {spent_file} tells what a key has spent, but that key is missing, {key}:")
    assert not (tmp_path / "new").exists()
    assert nursery.module("node.key", str(key)).status() == 0
    assert (spent_file.read_bytes(), spent_file.stat().st_mtime_ns) == before
    node = start(nursery, tmp_path / "new", "--key", str(key))
    assert "spent before" not in node.event("started"), "the lines of another key count for that one alone"
    stopped(node)


# -- what a key has spent ------------------------------------------------------------------------------


def test_a_new_folder_under_a_key_elsewhere_is_charged_what_that_key_has_spent(nursery, tmp_path, used):
    key = tmp_path / "safe" / "key"
    key.parent.mkdir()
    shutil.copy2(used / "node.key", key)
    shutil.copy2(used / "node.key.spent", f"{key}.spent")
    expected = epsilon(used)
    for name in ("first", "second"):
        node = start(nursery, tmp_path / name, "--key", str(key))
        assert node.event("started")["spent before"].startswith("2 offers that this folder did not know of")
        stopped(node)
        assert epsilon(tmp_path / name) == pytest.approx(expected, abs=CLOSE)
        written = json.loads((tmp_path / name / "summary.json").read_text())
        assert written["epsilon"] == pytest.approx(expected, abs=1e-5)
    again = start(nursery, tmp_path / "second", "--key", str(key))
    assert "spent before" not in again.event("started"), "each offer counts once, however often it is read"
    stopped(again)
    assert epsilon(tmp_path / "second") == pytest.approx(expected, abs=CLOSE)
    other = start(nursery, tmp_path / "other", "--key", str(key), *settings("task.name=another"))
    assert "spent before" not in other.event("started"), "another task's data"
    stopped(other)


@pytest.mark.parametrize("what", ["damaged", "unreadable"])
def test_a_file_of_what_was_spent_that_can_not_be_read_is_refused(nursery, tmp_path, used, what):
    out = copy_of(used, tmp_path / "out")
    file = out / "node.key.spent"
    if what == "damaged":
        lines = file.read_text().splitlines()
        file.write_text("\n".join([lines[0].replace("1", "2", 1), *lines[1:]]) + "\n")
        expected = f"error: {file}, what this key has spent, is damaged in line 1: put back a copy of it"
    else:
        file.unlink()
        os.mkfifo(file)
        expected = f"error: {file}, what this key has spent, cannot be read: it is a pipe"
    line = start(nursery, out).fails(2)
    assert line.startswith(expected)


def test_without_noise_nothing_is_spent_and_no_file_is_written(nursery, tmp_path):
    key = tmp_path / "key"
    write_key(key, new_seed())
    (tmp_path / "key.spent").write_text("not looked at\n")
    node = start(nursery, tmp_path / "out", "--key", str(key), *settings("privacy.mechanism=none"))
    stopped(node)
    assert (tmp_path / "key.spent").read_text() == "not looked at\n"
    assert not list((tmp_path / "out").glob("*.spent"))


# -- what a kill leaves of files -----------------------------------------------------------------------


def test_a_start_takes_away_what_a_kill_left_and_writes_a_torn_line_again(nursery, tmp_path, used):
    out = copy_of(used, tmp_path / "out")
    whole = (out / "history.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (out / "history.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    litter = (
        *(".state.db.77", ".state.db.77-journal", ".summary.json.77", ".model.safetensors.9", ".node.key.9"),
        *("vectors/.abc.f32.77", "vectors/abc.f32", "certificates/abc.parts"),
    )
    for name in litter:
        (out / name).write_bytes(b"x" * 1000)
    (out / ".predictions.csv.77").touch()  # of somebody else, who may still write it
    here = free_endpoint()
    node = start(nursery, out, here=here)
    wait_status(here, lambda said: said["phase"] == "group")
    told = history(out)
    assert told[0] == json.loads(lines[0])
    for name in ("round", "outcome", "participants", "epsilon", "base_digest", "train_loss"):
        assert told[1][name] == json.loads(lines[1])[name]
    assert len(told) == 2
    assert [name for name in litter if (out / name).exists()] == []
    assert (out / ".predictions.csv.77").exists()
    node.send(signal.SIGKILL)
    node.status()
