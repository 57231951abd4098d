"""`murmuration invite`: its arguments are checked before anything is loaded or sent."""

from __future__ import annotations

import pytest

from node.invite.__main__ import main
from node.invite.options import RelayWord, relay_with_word
from node.system.errors import ConfigError

USUAL = ["--data", "a.csv", "--me", "Ward A", "--relay", "relay.example#v8k2-qm4t", "--yes"]


def test_a_relay_is_read_with_its_word():
    assert relay_with_word("relay.example#V8K2QM4T", "--relay") == RelayWord("relay.example:443", "v8k2-qm4t")
    assert relay_with_word("[::1]:9000#v8k2-qm4t", "--relay") == RelayWord("[::1]:9000", "v8k2-qm4t")


def test_an_invitation_to_a_task_needs_more_than_one_to_a_swarm_that_learns(one_line, tmp_path):
    why = "--data PATH, --me NAME, --relay HOST#WORD is missing: an invitation to a task needs it"
    assert one_line(main, ["ward.toml", "--yes", "Ward B"]) == f"error: {why}"
    assert "--data is refused: the swarm in" in one_line(main, [str(tmp_path), *USUAL, "Ward B"])
    assert "swarm.toml is not there" in one_line(main, [str(tmp_path), "--yes", "Ward B"])


@pytest.mark.parametrize(
    "written", ["relay.example", "#v8k2-qm4t", "relay.example#word", "a b#v8k2-qm4t", ""]
)
def test_a_relay_without_its_word_is_refused(written):
    with pytest.raises(ConfigError, match="allowed: HOST#WORD as the relay prints it"):
        relay_with_word(written, "--relay")


RELAYS = [f"--relay=relay-{number}.example#v8k2-qm4t" for number in range(3)]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["Ward B", "ward b"], 'two members would be called "ward b": give each a name of its own'),
        (["Ward A"], 'two members would be called "Ward A": give each a name of its own'),
        (["Ward\nB"], "allowed: 1 to 40 printable characters"),
        ([f"Ward {number}" for number in range(64)], "at most 63, besides your own"),
        (["--relay=relay.example:443#v8k2-qm4t", "B"], "names relay.example:443 twice; give each relay once"),
        ([*RELAYS, "Ward B"], "4 relays are given; allowed: at most 3"),
        (["Ward B", "Ward C"], "ward.toml' cannot be read"),
    ],
)
def test_names_relays_and_a_task_that_cannot_be(one_line, tmp_path, monkeypatch, argv, why):
    monkeypatch.chdir(tmp_path)
    assert why in one_line(main, ["ward.toml", *USUAL, *argv])


def test_without_a_terminal_yes_has_to_be_said(one_line):
    assert "there is no terminal to ask at" in one_line(main, ["ward.toml", *USUAL[:-1], "Ward B"])


def test_a_swarm_that_is_too_small_for_a_sum_is_refused(tmp_path, monkeypatch, one_line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward.toml").write_text(
        '[task]\nname = "ward"\n[model]\nclass = "node.models:Linear"\nargs = { inputs = 1, outputs = 2 }\n'
    )
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n")
    line = one_line(main, ["ward.toml", *USUAL, "Ward B"])
    assert line == "error: 2 would learn, and a sum takes 3: invite 1 more"
