"""Drawings of transition tables as SVG, without a library or script, in the colours of the page's theme.

Each phase is a column, each step a row: an arrow from the phase that it leaves to the phase that it enters,
with the event above the arrow. Arrows never cross and texts never overlap, however many steps there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from html import escape
from typing import Any

from protocol.transitions import Table

BOX_HEIGHT, ROW, TOP, MARGIN, LOOP = 30, 40, 26, 4, 30
WIDEST, NARROWEST, WIDTH = 160, 108, 672
LETTER = 7.8
"""An upper bound of the average width of a letter of 13 px, in px."""
SVG = 'xmlns="http://www.w3.org/2000/svg"'


@dataclass(frozen=True)
class Grid:
    """The positions of the columns, in px."""

    phases: tuple[Enum, ...]

    @property
    def column(self) -> int:
        """The distance from one phase to the next."""
        return max(NARROWEST, min(WIDEST, WIDTH // len(self.phases)))

    @property
    def width(self) -> int:
        """The width of the whole drawing."""
        return self.column * len(self.phases) + 2 * MARGIN

    def x(self, phase: Enum) -> int:
        """The middle of a phase's column."""
        return MARGIN + self.column * self.phases.index(phase) + self.column // 2


def drawing(table: Table[Any, Any], title: str) -> str:
    """The table as an SVG. If it is wider than the page, it can be scrolled, also by the keyboard."""
    grid = Grid(phases_of(table))
    height = TOP + BOX_HEIGHT + ROW * len(table) + ROW // 2
    rows = [
        _arrow(grid, before, step.to, TOP + BOX_HEIGHT + ROW * (number + 1), str(event.value))
        for number, ((before, event), step) in enumerate(table.items())
    ]
    ends = set(grid.phases) - {before for before, _ in table}
    name = re.sub(r"\W+", "-", title.lower()).strip("-")
    start = grid.x(grid.phases[0])
    size = f'width="{grid.width}" height="{height}" viewBox="0 0 {grid.width} {height}"'
    parts = [
        f'<div class="machine" role="group" aria-label="{escape(title)}: drawing" tabindex="0">',
        f'<svg role="img" aria-labelledby="{name}-title {name}-words" {size} {SVG}>',
        f'<title id="{name}-title">{escape(title)}</title>',
        f'<desc id="{name}-words">{escape(in_words(table))}</desc>',
        f'<circle cx="{start}" cy="6" r="5" fill="currentColor"/>{_line(start, 11, start, TOP - 1)}',
        *(_box(grid, phase, phase in ends, height) for phase in grid.phases),
        *rows,
        "</svg>\n</div>",
    ]
    return "\n".join(parts)


def phases_of(table: Table[Any, Any]) -> tuple[Enum, ...]:
    """All phases in order; a machine begins in the first one."""
    (before, _), *_rest = table
    kind: type[Enum] = type(before)
    return tuple(kind)


def in_words(table: Table[Any, Any]) -> str:
    """The steps as sentences, for readers who cannot see the drawing."""
    first = phases_of(table)[0]
    told = [f"{before.value}, {event.value}: {step.to.value}" for (before, event), step in table.items()]
    return f"Begins in {first.value}. " + "; ".join(told) + "."


def _box(grid: Grid, phase: Enum, is_end: bool, height: int) -> str:
    """A phase and the line of its column; an end phase, which no step leaves, has two borders."""
    x, width = grid.x(phase), grid.column - 16
    borders = [(0, "1.5")] + ([(3, "1")] if is_end else [])
    boxes = "".join(
        f'<rect x="{x - width // 2 + inside}" y="{TOP + inside}" width="{width - 2 * inside}" '
        f'height="{BOX_HEIGHT - 2 * inside}" rx="6" fill="none" stroke="currentColor" stroke-width="{wide}"/>'
        for inside, wide in borders
    )
    lifeline = _line(x, TOP + BOX_HEIGHT, x, height, 'stroke-dasharray="2 4" opacity="0.5"')
    return lifeline + boxes + _text(x, TOP + BOX_HEIGHT // 2 + 5, str(phase.value), "middle", "phase")


def _arrow(grid: Grid, before: Enum, after: Enum, y: int, event: str) -> str:
    start, end = grid.x(before), grid.x(after)
    if start == end:
        return _loop(grid, start, y, event)
    turned = 0 if end > start else 180
    away = 8 if end > start else -8
    return (
        f'<circle cx="{start}" cy="{y}" r="3" fill="currentColor"/>{_line(start, y, end - away, y)}'
        f"{_tip(end, y, turned)}{_text(_within(grid, (start + end) // 2, event), y - 7, event)}"
    )


def _loop(grid: Grid, x: int, y: int, event: str) -> str:
    """A step that leads back to its own phase, with its event on the side that has room."""
    is_right = x + LOOP + 8 + len(event) * LETTER <= grid.width
    side = 1 if is_right else -1
    low = y - 14
    path = f"M {x} {low} h {side * LOOP} V {y} H {x + side * 8}"
    return (
        f'<circle cx="{x}" cy="{low}" r="3" fill="currentColor"/><path d="{path}" fill="none" '
        f'stroke="currentColor" stroke-width="1.5"/>{_tip(x, y, 180 if is_right else 0)}'
        f"{_text(x + side * (LOOP + 8), y - 3, event, 'start' if is_right else 'end')}"
    )


def _within(grid: Grid, x: int, words: str) -> int:
    """The centre of a text, as near to x as the borders of the drawing allow."""
    half = int(len(words) * LETTER / 2) + MARGIN
    return max(half, min(grid.width - half, x))


def _line(x: int, y: int, to_x: int, to_y: int, style: str = 'stroke-width="1.5"') -> str:
    return f'<path d="M {x} {y} L {to_x} {to_y}" fill="none" stroke="currentColor" {style}/>'


def _tip(x: int, y: int, turned: int) -> str:
    return f'<path d="M {x} {y} l -9 -4.5 v 9 z" fill="currentColor" transform="rotate({turned} {x} {y})"/>'


def _text(x: int, y: int, words: str, anchor: str = "middle", kind: str = "event") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'
