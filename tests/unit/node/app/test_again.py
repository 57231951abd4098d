"""--again: what is refused, and what a kill leaves of a run that is set aside."""

import json
import sqlite3
from pathlib import Path

import pytest

from node.app.again import begin_again, begun_again
from node.options import parse_arguments
from node.storage.folder_lock import check_folder
from node.storage.runs_aside import finish_setting_aside, set_aside
from node.system.errors import ConfigError

PEERS = ("--peers", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "--again")


@pytest.fixture
def run(tmp_path):
    """The folder of a run that has ended, which had a model."""
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("create table t (x)")
    for name in ("history.jsonl", "model.safetensors", "node.key.spent"):
        (tmp_path / name).touch()
    (tmp_path / "summary.json").write_text(json.dumps({"gone": ["C"], "generation": 3}))
    return tmp_path


@pytest.mark.parametrize(
    ("out", "summary", "words"),
    [
        ((), None, "without --out or --key a node begins anew"),
        (("--out", "none"), None, "no run is in none"),
        (("--out", "."), {"gone": []}, "lost no member; without --again its node asks"),
        (("--out", "."), [], "has lost no member"),
        (("--out", "."), {}, "has lost no member"),
    ],
)
def test_there_is_nothing_to_begin_anew(run, out, summary, words, monkeypatch):
    monkeypatch.chdir(run)
    (run / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(ConfigError, match=words):
        begin_again(parse_arguments([*PEERS, *out]), lambda _: True)


def test_a_run_is_set_aside_whatever_moment_a_kill_comes(run, monkeypatch):
    names = {path.name for path in run.iterdir()} - {"node.key.spent"}
    options = parse_arguments([*PEERS, "--yes", "--out", str(run)])
    renamed = Path.rename
    with monkeypatch.context() as patch:
        patch.setattr(
            Path, "rename", lambda path, to: renamed(path, to) and path.name != "state.db" and 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            set_aside(run)
    assert begun_again(options) == 1
    check_folder(run, run / "node.key", has_key=True)
    finish_setting_aside(run)
    assert {path.name for path in (run / "unfinished-1").iterdir()} == names
    check_folder(run, run / "node.key", has_key=True)
    begin_again(options, lambda _: False)
    assert begun_again(options) == 1, "the same command line goes on with what it has begun"
    (run / "history.jsonl").touch()
    with pytest.raises(ConfigError, match=r"has history\.jsonl, but its state\.db is missing"):
        check_folder(run, run / "node.key", has_key=True)
