"""`murmuration members`: the list as its owner sees it, and whom the owner removes for its own node."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.page.server import node_view
from node.invitation.key import key_file
from node.members.__main__ import main
from node.observe.kept_view import VERSION
from node.observe.views import Peer, Presence, as_json, document
from node.storage.folder_lock import VIEW
from node.storage.key_file import write_key
from node.storage.swarm_file import AGREEMENT, Own, Swarm, read_swarm, write_swarm
from node.storage.vouches import SPENT_UNKNOWN, keep_vouch, newcomers
from protocol.crypto.node_key import NodeKey
from protocol.invitation.roster import Member, vouch_for
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


@pytest.mark.parametrize("where", [".", AGREEMENT])
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
    folder, tmp_path, capsys, age_s, contact, why, presence, text, where
):
    now_s = time.time()
    since = presence.since
    presence = replace(presence, since=None if since is None else now_s + since)
    peer = Peer(
        of_key(OTHER.public), OTHER.public.hex()[:16], contact, 3, False, False, False, why, "", presence
    )
    view = replace(node_view(0), peers=(peer,), ended=False)
    kept = {"version": VERSION, "at": now_s - age_s, **document(replace(view, history=()))}
    (tmp_path / where).mkdir(exist_ok=True)
    (tmp_path / where / VIEW).write_text(as_json(kept))
    lines = shown(capsys, folder)
    assert lines[2] == f"Ward C   {key_words(OTHER.public)}   {text}".rstrip()
    assert ("this node does not learn now, so it does not know who is here" in lines) is (not text)


def test_a_member_is_removed_and_taken_back(folder, tmp_path, capsys):
    lines = shown(capsys, folder, "--remove", "Ward C")
    assert lines[2].endswith("removed by you: not learned with")
    assert lines[-1] == "this holds from now on, also for a node that runs"
    assert OTHER.public not in read_swarm(tmp_path).learned_with
    lines = shown(capsys, folder, "--accept", "Ward C")
    assert not lines[2].endswith("not learned with")
    assert OTHER.public in read_swarm(tmp_path).learned_with


def newcomer(folder: str, name: str, number: int, by=OTHER) -> str:
    """A member's word that the node has heard; returns the words of the newcomer's key."""
    late = NodeKey(bytes([number]) * 32)
    keep_vouch(Path(folder), vouch_for(by, ROSTER, Member(name, late.public)))
    return key_words(late.public)


def test_a_newcomer_is_shown_with_who_vouches_for_it_and_accepted(folder, tmp_path, capsys):
    words = newcomer(folder, "Ward D", 5)
    newcomer(folder, "Ward X", 6, by=NodeKey(bytes([7]) * 32))
    line, _ = shown(capsys, folder)[3:]
    assert line.startswith(f"Ward D   {words}")
    assert line.endswith("   Ward C vouches for it: not accepted yet")
    assert words in shown(capsys, folder, "--accept", "Ward D")[3]
    assert not newcomers(tmp_path, read_swarm(tmp_path))
    assert len(read_swarm(tmp_path).learned_with) == 4
    assert shown(capsys, folder, "--remove", "Ward D")[3].endswith("removed by you: not learned with")
    newcomer(folder, "Ward D", 5)
    assert len(shown(capsys, folder)) == 5


def test_a_new_key_takes_the_place_of_a_members_former_one_and_its_spent_budget_is_unknown(folder, capsys):
    newcomer(folder, "Ward A", 5)
    assert shown(capsys, folder)[1].endswith("Ward C vouches for its new key: not accepted yet")
    lines = shown(capsys, folder, "--accept", "Ward A")
    assert [line.split("  ")[0] for line in lines[:3]] == ["Ward A", "Ward B", "Ward C"]
    assert lines[-1] == f"warning: Ward A has a new key: {SPENT_UNKNOWN}"


def test_of_two_newcomers_with_one_name_one_is_accepted_by_its_words(folder, capsys, one_line):
    words = [newcomer(folder, "Ward D", number) for number in (5, 6)]
    line = one_line(main, [folder, "--accept", "Ward D"])
    assert all(each in line for each in words)
    assert words[1] in shown(capsys, folder, "--accept", words[1])[3]
    newcomer(folder, "Ward B", 8)
    assert "this node has that name" in one_line(main, [folder, "--accept", "Ward B"])


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--remove", "Ward X"], "--remove 'Ward X' is refused; allowed: Ward A, Ward B, Ward C"),
        (["--remove", "Ward B"], "--remove 'Ward B' is this node itself; allowed: another member"),
        (["--remove", "Ward C", "--accept", "Ward C"], "--accept and --remove are both given"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(folder, argv, line, one_line):
    assert line in one_line(main, [folder, *argv])
