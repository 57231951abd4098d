"""Drawings of state tables, as SVG: no library, no script, colours that follow the page's theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from html import escape
from typing import TypeVar

BOX_WIDTH, BOX_HEIGHT, GAP, LINE = 120, 40, 250, 17

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


def drawing(steps: Mapping[tuple[State, Event], State], title: str) -> str:
    """The table's states in a row, in their order, and an arrow for each pair of states with its events."""
    states = list(type(next(iter(steps.values()))))
    places = {state: number * (BOX_WIDTH + GAP) + 1 for number, state in enumerate(states)}
    joined: dict[tuple[State, State], list[str]] = {}
    for (before, event), after in steps.items():
        joined.setdefault((before, after), []).append(str(event.value))
    rows = 1 + max(states.index(after) - states.index(before) for before, after in joined)
    top, width = 2 * LINE, len(states) * (BOX_WIDTH + GAP) - GAP + 2
    height = top + BOX_HEIGHT + rows * 2 * LINE
    arrows = [_arrow(places[a], places[b], _hops(states, a, b), top, told) for (a, b), told in joined.items()]
    boxes = [_box(state.name, places[state], top) for state in states]
    head = (
        f'<svg class="machine" role="img" aria-label="{escape(title)}" viewBox="0 0 {width} {height}" '
        f'xmlns="http://www.w3.org/2000/svg">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *arrows, *boxes, "</svg>"])


def _hops(states: Sequence[State], before: State, after: State) -> int:
    return states.index(after) - states.index(before)


def _box(name: str, x: int, y: int) -> str:
    label = _text(x + BOX_WIDTH // 2, y + BOX_HEIGHT // 2 + 5, name)
    return (
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="none" '
        f'stroke="currentColor"/>{label}'
    )


def _arrow(start: int, end: int, hops: int, top: int, events: Sequence[str]) -> str:
    """Straight to the next state, its events above and below; under the boxes to one farther on."""
    if hops == 1:
        y, left, right = top + BOX_HEIGHT // 2, start + BOX_WIDTH, end
        heights = [y - 8 - LINE * n if n % 2 == 0 else y + LINE * n for n in range(len(events))]
        path, middle = f"M {left} {y} H {right - 8}", (left + right) // 2
        tip = _tip(right, y, 0)
    else:
        low = top + BOX_HEIGHT + hops * LINE
        left, right = start + BOX_WIDTH // 2, end + BOX_WIDTH // 2
        path = f"M {left} {top + BOX_HEIGHT} V {low} H {right} V {top + BOX_HEIGHT + 8}"
        middle, heights = (left + right) // 2, [low + LINE * (n + 1) for n in range(len(events))]
        tip = _tip(right, top + BOX_HEIGHT, -90)
    words = "".join(_text(middle, at, event) for at, event in zip(heights, events, strict=True))
    return f'<path d="{path}" fill="none" stroke="currentColor"/>{tip}{words}'


def _tip(x: int, y: int, turned: int) -> str:
    return f'<path d="M {x} {y} l -8 -4 v 8 z" fill="currentColor" transform="rotate({turned} {x} {y})"/>'


def _text(x: int, y: int, words: str) -> str:
    style = 'text-anchor="middle" font-size="13" fill="currentColor"'
    return f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>'
