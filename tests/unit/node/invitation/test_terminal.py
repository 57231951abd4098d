"""Questions at a terminal: what counts as yes, and that nobody is asked who could not answer."""

from __future__ import annotations

import io
import os

import pytest

from node.invitation.terminal import Terminal
from node.system.errors import ConfigError


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y\n", True), ("YES\n", True), ("\n", False), ("n\n", False), ("yep\n", False), ("", False)],
)
async def test_only_y_and_yes_are_a_yes(typed, answer, monkeypatch, capsys):
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        os.write(writing, typed.encode())
        os.close(writing)
        assert await Terminal(yes=False).ask("Close the list?") is answer
    assert capsys.readouterr().out == "Close the list? [y/N] "


async def test_yes_answers_each_question(capsys):
    assert await Terminal(yes=True).ask("Close the list?")
    assert capsys.readouterr().out == "Close the list? [y/N] yes\n"


def test_without_a_terminal_nobody_is_asked(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    Terminal(yes=True).check()
    with pytest.raises(ConfigError, match="there is no terminal to ask at; give --yes"):
        Terminal(yes=False).check()
