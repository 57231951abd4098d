"""`murmuration join`: codes are checked here, and each code has its folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from node.invitation.joining import Decision
from node.invitation.kept import Joining, keep_joining
from node.invitation.terminal import Terminal
from node.join.__main__ import main
from node.join.options import JoinOptions, code_of
from node.join.run import Newcomer, _kept_for
from node.storage.swarm_file import Own
from node.system.errors import ConfigError
from protocol.invitation.joiner import Place
from protocol.invitation.messages import Standing
from tests.invitations import INVITATION, JOINER

CODE = code_of("relay.example/48213-otter-width-salt", "CODE")
PLACE = Place(CODE.relay, CODE.room, CODE.secret)
OWN = Own("/data/b.csv")


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("relay.example/48213-otter-width-salz", 'error: the code has no word "salz"; did you mean salt?'),
        ("nonsense", 'error: "nonsense" is no code; allowed: HOST/DDDDD-word-word-word, as'),
    ],
)
def test_a_mistyped_code_costs_no_try(code, line, one_line):
    assert one_line(main, [code, "--data", "b.csv", "--yes"]).startswith(line)


def test_each_code_has_a_folder_and_keeps_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _kept_for(CODE, None) == (Path("runs/join-48213"), None)
    state = Joining(PLACE, OWN)
    keep_joining(Path("runs/ward"), state)
    assert _kept_for(CODE, None) == (Path("runs/ward"), state)
    other = code_of("relay.example/48213-otter-width-sandy", "CODE")
    assert _kept_for(other, None) == (Path("runs/join-48213"), None)


def test_a_folder_that_joined_by_another_code_is_not_taken(tmp_path):
    keep_joining(tmp_path, Joining(PLACE, OWN))
    other = code_of("relay.example/48213-otter-width-sandy", "CODE")
    assert _kept_for(other, tmp_path) == (tmp_path, None)
    joined = Place(
        *(CODE.relay, CODE.room, CODE.secret), invitation=(INVITATION,), standing=Standing.ACCEPTED
    )
    keep_joining(tmp_path, Joining(joined, OWN))
    with pytest.raises(ConfigError, match="has joined by another code: give another --out"):
        _kept_for(other, tmp_path)


def decided(folder: Path, task: str, **more) -> Decision:
    """What an owner who says yes decides about a task."""
    options = JoinOptions(code=CODE, data=folder / "b.csv", out=folder, yes=True, **more)
    own = Own(str(options.data))
    newcomer = Newcomer(options, own, Terminal(yes=True), JOINER.public)
    newcomer.folder = folder
    fields = {**vars(INVITATION), "task": task.encode()}
    return asyncio.run(newcomer.decide(type(INVITATION)(**fields)))


def task(model: str = "node.models:Linear") -> str:
    return f"""\
[task]
name = "ward"
[model]
class = "{model}"
args = {{ inputs = 1, outputs = 2 }}
[data]
target = "y"
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    rows = "".join(f"{number % 7},{number % 2}\n" for number in range(60))
    (tmp_path / "b.csv").write_text(f"x,y\n{rows}")
    return tmp_path


def test_data_that_fit_join(folder, capsys):
    assert decided(folder, task()) is Decision.JOIN
    out = capsys.readouterr().out
    assert "Ward A invites you, Ward B, with: Ward C" in out
    assert "Task ward: learns from tables of numbers" in out
    assert "Join with b.csv? [y/N]" in out


def test_data_that_do_not_fit_do_not_join(folder, capsys):
    (folder / "b.csv").write_text("x,z\n1,0\n")
    assert decided(folder, task()) is Decision.UNFIT
    assert "problem" in capsys.readouterr().out


def test_a_task_that_is_none_does_not_join(folder, capsys):
    assert decided(folder, "no toml") is Decision.UNFIT
    assert "problem  task:" in capsys.readouterr().out


def test_a_task_runs_no_code_that_its_owner_did_not_allow(folder, capsys):
    assert decided(folder, task("subprocess:Popen")) is Decision.UNFIT
    out = capsys.readouterr().out
    assert "it would run subprocess:Popen on this machine, which Ward A chose" in out
    decided(folder, task("torch.nn:Linear"), allow_code=True)
    assert "it would run" not in capsys.readouterr().out


def test_the_whole_task_is_shown_if_asked_for(folder, capsys):
    decided(folder, task(), show_task=True)
    assert '[model]\nclass = "node.models:Linear"' in capsys.readouterr().out
