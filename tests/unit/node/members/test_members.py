"""`murmuration members`: the list as its owner sees it, and whom the owner removes for its own node."""

from __future__ import annotations

import pytest

from node.invitation.key import key_file
from node.members.__main__ import main
from node.storage.key_file import write_key
from node.storage.swarm_file import Own, Swarm, read_swarm, write_swarm
from protocol.invitation.words import key_words
from tests.invitations import JOINER, OTHER, ROSTER


@pytest.fixture
def folder(tmp_path) -> str:
    key_file(tmp_path).parent.mkdir()
    write_key(key_file(tmp_path), bytes([2]) * 32)
    write_swarm(tmp_path, Swarm(ROSTER, Own("b.csv")))
    return str(tmp_path)


def shown(capsys, *argv: str) -> list[str]:
    assert main(argv) == 0
    return [line.strip() for line in capsys.readouterr().out.splitlines()[1:]]


def test_each_member_is_shown_with_the_words_of_its_key(folder, capsys):
    first, second, third = shown(capsys, folder)
    assert first.endswith("invited all")
    assert second.startswith(f"Ward B   {key_words(JOINER.public)}")
    assert second.endswith("this machine")
    assert third.split("   ", 1)[1].strip() == key_words(OTHER.public)


def test_a_member_is_removed_and_taken_back(folder, tmp_path, capsys):
    lines = shown(capsys, folder, "--remove", "Ward C")
    assert lines[2].endswith("removed by you: not learned with")
    assert lines[3] == "this holds from the next start of this node"
    assert OTHER.public not in read_swarm(tmp_path).learned_with
    lines = shown(capsys, folder, "--accept", "Ward C")
    assert not lines[2].endswith("not learned with")
    assert OTHER.public in read_swarm(tmp_path).learned_with


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--remove", "Ward X"], "--remove 'Ward X' is refused; allowed: Ward A, Ward B, Ward C"),
        (["--remove", "Ward B"], "--remove 'Ward B' is this node itself; allowed: another member"),
        (["--remove", "Ward C", "--accept", "Ward C"], "--accept and --remove are both given"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(folder, argv, line, capsys):
    assert main([folder, *argv]) == 2
    assert line in capsys.readouterr().err
