"""`murmuration members`: the list as its owner sees it, and whom the owner removes for its own node."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from benchmarks.page.server import node_view
from node.invitation.kept import Own
from node.invitation.key import key_file
from node.invitation.swarm_file import Swarm, read_swarm, write_swarm
from node.members.__main__ import main
from node.observe.kept_view import VERSION
from node.observe.views import Peer, Presence, as_json, document
from node.storage.folder_lock import VIEW
from node.storage.key_file import write_key
from protocol.invitation.words import key_words
from protocol.wire.endpoints import of_key
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
    first, second, third, _ = shown(capsys, folder)
    assert first.endswith("invited all")
    assert second.startswith(f"Ward B   {key_words(JOINER.public)}")
    assert second.endswith("this machine")
    assert third.split("   ", 1)[1].strip() == key_words(OTHER.public)


@pytest.mark.parametrize(
    ("age_s", "contact", "why", "presence", "text"),
    [
        (0.0, "reachable", "", Presence("relay.example", None, ""), "here, by the relay relay.example"),
        (0.0, "unreachable", "", Presence("", -250.0, "it broke"), "away for 4 min: it broke"),
        (0.0, "silent", "", Presence("", -7.0, "it broke"), "away for 7 s: it broke"),
        (0.0, "not met", "", Presence("", None, ""), "not seen since this node started"),
        (0.0, "left", "", Presence("relay.example", None, ""), "has left"),
        (0.0, "refuses", "other list", Presence("relay.example", None, ""), "refuses this node: other list"),
        (60.0, "reachable", "", Presence("relay.example", None, ""), ""),  # it writes nothing any more
    ],
)
def test_who_is_here_is_shown_while_the_node_runs(
    folder, tmp_path, capsys, age_s, contact, why, presence, text
):
    now_s = time.time()
    since = presence.since
    presence = replace(presence, since=None if since is None else now_s + since)
    peer = Peer(
        of_key(OTHER.public), OTHER.public.hex()[:16], contact, 3, False, False, False, why, "", presence
    )
    view = replace(node_view(0), peers=(peer,), ended=False)
    kept = {"version": VERSION, "at": now_s - age_s, **document(replace(view, history=()))}
    (tmp_path / VIEW).write_text(as_json(kept))
    lines = shown(capsys, folder)
    assert lines[2] == f"Ward C   {key_words(OTHER.public)}   {text}".rstrip()
    assert ("this node does not learn now, so it does not know who is here" in lines) is (not text)


def test_a_member_is_removed_and_taken_back(folder, tmp_path, capsys):
    lines = shown(capsys, folder, "--remove", "Ward C")
    assert lines[2].endswith("removed by you: not learned with")
    assert lines[-1] == "this holds from the next start of this node"
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
