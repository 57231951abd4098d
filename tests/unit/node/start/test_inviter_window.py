"""What the inviter reads, and when its list may be closed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from node.invitation.inviting import Reception
from node.invitation.kept import Inviting
from node.invitation.terminal import Terminal
from node.start.inviter_window import Window, _may_close, _news_text, _show_codes, _until_closable
from node.storage.swarm_file import Own
from protocol.invitation.inviter import News, Seat
from protocol.invitation.messages import Standing
from protocol.invitation.words import key_words
from tests.invitations import INVITER, JOINER, OTHER, RELAY, RELAYS

TASK = b"""\
[task]
name = "ward"
[model]
class = "node.models:Linear"
args = { inputs = 1, outputs = 2 }
"""
B, C, D = (
    Seat(f"Ward {letter}", f"0000{letter}", "otter-width-salt", 2_000_000_000) for letter in ("B", "C", "D")
)
STATE = Inviting("ward", "Ward A", TASK, RELAYS, (B, C, D), Own("a.csv"))


class Typing(Terminal):
    """An owner who types these lines; then `happens` happens, and nothing more is typed."""

    def __init__(self, *lines: str, happens=lambda: None) -> None:
        super().__init__(yes=False)
        object.__setattr__(self, "lines", [*lines])
        object.__setattr__(self, "happens", happens)

    async def line(self) -> str:
        if not self.lines:
            self.happens()
            await asyncio.get_running_loop().create_future()
        return self.lines.pop(0)


def reception(window: Window, *taken: Seat) -> Reception:
    keys = {"Ward B": JOINER.public, "Ward C": OTHER.public, "Ward D": RELAY.public}
    seats = tuple(replace(seat, key=keys[seat.name]) if seat in taken else seat for seat in STATE.seats)
    return Reception(None, INVITER, replace(STATE, seats=seats), window)


async def closable(here: Reception, window: Window, terminal: Terminal) -> None:
    """Waits until the list may be closed."""
    serving = asyncio.create_task(asyncio.Event().wait())
    try:
        await _until_closable(here, serving, window, terminal, 3)
    finally:
        serving.cancel()


@pytest.mark.parametrize(
    ("seat", "news", "text"),
    [
        (replace(B, tries=2), News.WRONG, "somebody used a wrong code for Ward B (2 tries left)"),
        (replace(B, tries=1), News.WRONG, "somebody used a wrong code for Ward B (1 try left)"),
        (replace(B, tries=0), News.WRONG, "it is burnt: a new one stands here"),
        (B, News.REUSED, "compare the words of Ward B by telephone"),
        (B, News.INVITED, "Ward B reads the invitation"),
        (B, News.MISFIT, "Ward B: its data do not fit yet"),
        (replace(B, key=JOINER.public), News.JOINED, f"Ward B is here       {key_words(JOINER.public)}"),
        (B, News.BACK, "Ward B is here again"),
        (replace(B, standing=Standing.DECLINED), News.ANSWERED, "Ward B declined the list"),
        (replace(B, standing=Standing.CONFIRMED), News.ANSWERED, "Ward B confirmed the list"),
    ],
)
def test_each_news_is_a_line(seat, news, text):
    assert text in _news_text(seat, news)


def test_codes_are_shown_until_they_are_used(capsys):
    _show_codes(replace(STATE, seats=(replace(B, key=JOINER.public), C)), INVITER, Terminal(yes=True))
    out = capsys.readouterr().out
    assert "  Ward C   murmuration join relay.example/0000C-otter-width-salt" in out
    assert "0000B" not in out
    assert "Waiting: Ward C." in out


async def test_who_types_close_goes_on_without_the_others(capsys):
    window = Window(Terminal(yes=True))
    here = reception(window, B, C)
    await closable(here, window, Typing("", "close"))
    assert await _may_close(INVITER, Terminal(yes=True), here.state)
    assert "3 are here, without Ward D:" in capsys.readouterr().out


async def test_too_few_for_a_sum_are_not_closed(capsys):
    window = Window(Terminal(yes=True))
    here = reception(window, B)

    def others_come() -> None:
        here.state = reception(window, B, C, D).state
        window.changed.set()

    await closable(here, window, Typing("close", happens=others_come))
    assert capsys.readouterr().out == "2 are here, and a sum takes 3: wait for the others\n"
    assert await _may_close(INVITER, Terminal(yes=True), here.state)
    assert "All 4 are here:" in capsys.readouterr().out


async def test_an_error_of_the_serving_ends_the_window():
    async def failing() -> None:
        raise ValueError("the relay refuses")

    window = Window(Terminal(yes=True))
    with pytest.raises(ValueError, match="the relay refuses"):
        await _until_closable(
            reception(window), asyncio.create_task(failing()), window, Terminal(yes=True), 3
        )
