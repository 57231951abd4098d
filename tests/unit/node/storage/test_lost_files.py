"""A node's folder from which files were lost: the node starts again, or refuses in one line.

`tests/fixtures` has folders of earlier versions; tests/e2e/test_folders.py kills starts in them.
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from node.__main__ import main
from node.app.run import prepare, run_as
from node.key import __main__ as key_command
from node.observe.lines import JsonOutput
from node.options import parse_arguments
from node.storage.key_file import new_seed, write_key
from tests.fixtures.make_folder import SETTINGS
from tests.run_folders import copy_of, epsilon, fact, the_key

V1 = Path(__file__).parents[3] / "fixtures" / "folder_v1"
CLOSE = 1e-9


def contents(out: Path) -> dict[str, bytes]:
    """Returns what the files of a folder hold, but for what any reader of a database leaves beside it."""
    left_out = {"lock", "state.db-shm"}
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in left_out)
    held = {str(path.relative_to(out)): path.read_bytes() for path in files}
    return {name: content for name, content in held.items() if content or name != "state.db-wal"}


def argv(out: Path, *more: str) -> list[str]:
    """Returns the arguments of node 0 of the fixture, alone, with its task and budget."""
    where = ("--peers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--shard", "0/3", "--out", str(out))
    return [*where, *(f"--set={one}" for one in SETTINGS), *more]


def started(out: Path, *more: str) -> dict[str, str]:
    """Starts that node, which ends once it listens; returns what it said at its start."""
    said = io.StringIO()

    async def live(engine, _) -> None:
        """Ends at once."""

    assert run_as(prepare(parse_arguments(argv(out, *more))), None, JsonOutput(said), live) in (0, 130)
    (event,) = (json.loads(line) for line in said.getvalue().splitlines() if '"started"' in line)
    return event


@pytest.fixture(scope="module")
def used(tmp_path_factory) -> Path:
    """Makes a folder as this version leaves it."""
    out = copy_of(V1 / "0", tmp_path_factory.mktemp("used") / "out")
    started(out)
    return out


@pytest.fixture
def out(used, tmp_path) -> Path:
    return copy_of(used, tmp_path / "out")


@pytest.fixture
def refused(one_line):
    """Returns a function that starts a node: it refuses a folder in one line, and leaves it as it is."""

    def call(out: Path, *more: str) -> str:
        before = contents(out)
        line = one_line(main, argv(out, *more))
        assert contents(out) == before
        return line

    return call


def test_another_key_or_none_is_refused(refused, out, used):
    (out / "node.key").unlink()
    assert refused(out) == (
        f"error: --out {out} has a state.db, but the key that it belongs to is missing, {out / 'node.key'}: "
        "put that key back, or give another --out"
    )
    write_key(out / "node.key", new_seed())
    told = f"the key {the_key(used).hex()[:16]}..., not to {the_key(out).hex()[:16]}"
    assert f"--out {out} belongs to {told}" in refused(out)


@pytest.mark.parametrize("lost", ["summary.json", "certificates"])
def test_a_folder_of_version_1_under_another_key_is_refused(one_line, tmp_path, lost):
    """The folder does not name its owner, but its summary and its certificates do."""
    out = copy_of(V1 / "0", tmp_path / "out")
    (shutil.rmtree if lost == "certificates" else Path.unlink)(out / lost)
    (out / "node.key").unlink()
    write_key(out / "node.key", new_seed())
    before = contents(out)
    line = one_line(main, argv(out))
    assert f"--out {out} belongs to " in line
    assert "put that key's file back, or give another --out" in line
    assert contents(out).keys() <= before.keys()


def test_making_a_key_touches_no_spend_file(refused, capsys, out, tmp_path):
    """A node makes no key beside such a file; the lines of another key count for that one alone."""
    key, spent_file = tmp_path / "k" / "node.key", tmp_path / "k" / "node.key.spent"
    key.parent.mkdir()
    shutil.move(out / "node.key.spent", spent_file)
    before = spent_file.read_bytes(), spent_file.stat().st_mtime_ns
    line = refused(tmp_path / "new", "--key", str(key))
    assert line.startswith(f"error: {spent_file} tells what a key has spent, but that key is missing, {key}:")
    assert not (tmp_path / "new").exists()
    assert key_command.main([str(key)]) == 0
    assert (spent_file.read_bytes(), spent_file.stat().st_mtime_ns) == before
    assert "spent before" not in started(tmp_path / "new", "--key", str(key))


def test_a_new_folder_under_a_key_elsewhere_is_charged_what_that_key_has_spent(out, used, tmp_path):
    (tmp_path / "safe").mkdir()
    key = tmp_path / "safe" / "key"
    shutil.move(out / "node.key", key)
    shutil.move(out / "node.key.spent", f"{key}.spent")
    expected = epsilon(used)
    new = tmp_path / "new"
    said = started(new, "--key", str(key))["spent before"]
    assert said.startswith("2 offers that this folder did not know of")
    assert json.loads((new / "summary.json").read_text())["epsilon"] == pytest.approx(expected, abs=1e-5)
    assert "spent before" not in started(new, "--key", str(key)), "each offer counts once, however often read"
    assert epsilon(new) == pytest.approx(expected, abs=CLOSE)
    other = started(tmp_path / "other", "--key", str(key), "--set=task.name=another")
    assert "spent before" not in other, "another task's data"


def test_without_noise_nothing_is_written_beside_the_key_before_the_first_offer(tmp_path):
    key = tmp_path / "key"
    write_key(key, new_seed())
    started(tmp_path / "out", "--key", str(key), "--set=privacy.mechanism=none")
    assert not list(tmp_path.rglob("*.spent"))


def test_a_folder_of_before_is_closed_to_others_but_not_one_that_all_share(out):
    for path in (out, *out.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o600 if "key" in path.name else 0o644)
    (out / "of-somebody-else").touch(mode=0o644)
    started(out)
    open_ = [path.name for path in (out, *out.rglob("*")) if path.stat().st_mode & 0o077]
    assert open_ == ["of-somebody-else"]
    out.chmod(0o1777)
    started(out)
    assert out.stat().st_mode & 0o7777 == 0o1777


def test_a_start_takes_away_what_a_kill_left(out):
    """The engine then writes the torn line again: tests/unit/node/test_ending.py."""
    first, second = (out / "history.jsonl").read_bytes().splitlines(keepends=True)
    (out / "history.jsonl").write_bytes(first + second[:40])
    litter = (
        *(".state.db.77", ".state.db.77-journal", ".summary.json.77", ".model.safetensors.9", ".node.key.9"),
        *("vectors/.abc.f32.77", "vectors/abc.f32", "certificates/abc.parts"),
    )
    for name in litter:
        (out / name).write_bytes(b"x" * 1000)
    (out / ".predictions.csv.77").touch()  # of somebody else, who may still write it
    started(out)
    assert [name for name in litter if (out / name).exists()] == []
    assert (out / ".predictions.csv.77").exists()
    assert (out / "history.jsonl").read_bytes() == first
    assert fact(out, "key") == the_key(out)
