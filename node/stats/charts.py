"""Histograms, forest plots and survival curves as SVG, drawn as a paper prints them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from node.stats.estimates import Estimate, SurvivalCurve
from node.stats.summaries import NumberSummary

_TICKS = 5


@dataclass(frozen=True)
class Axis:
    """A scale from values to pixels; `is_log`: by the logarithm."""

    low: float
    high: float
    start: float
    stop: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Returns the pixel of a value."""
        low, high, here = (
            map(math.log, (self.low, self.high, value))
            if self.is_log
            else (
                self.low,
                self.high,
                value,
            )
        )
        return round(self.start + (here - low) / (high - low) * (self.stop - self.start), 2)

    def ticks(self) -> list[float]:
        """Returns round values on the axis: a digit times a power of ten."""
        if self.is_log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found: list[float] = []
            for digits in ((1, 2, 5), (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9)):
                if len(found) < _TICKS - 2:
                    values = [digit * 10.0**power for power in powers for digit in digits]
                    found = [value for value in values if self.low <= value <= self.high]
            return found
        rough = (self.high - self.low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [place * step for place in range(first, math.floor(self.high / step + 1e-9) + 1)]


def histogram(summary: NumberSummary) -> str:
    """Returns a column's histogram: areas are rows, and no bar has few."""
    heights = [rows / (high - low) for low, high, rows in summary.bars]
    x = Axis(summary.bars[0][0], summary.bars[-1][1], 8, 232)
    y = Axis(0, max(heights), 96, 8)
    bars = [
        f'<rect class="bar" x="{x.at(low)}" y="{y.at(height)}" width="{x.at(high) - x.at(low):.2f}" '
        f'height="{96 - y.at(height):.2f}"/>'
        for (low, high, _), height in zip(summary.bars, heights, strict=True)
    ]
    return _svg(240, 120, f"Histogram of {summary.name}", [*bars, *_x_axis(x, 96)])


def forest(estimates: Sequence[Estimate], *, is_ratio: bool) -> str:
    """Returns the coefficients with their 95 % intervals, as ratios on a logarithmic axis if `is_ratio`."""
    null, of = (1.0, math.exp) if is_ratio else (0.0, float)
    values = [
        [of(min(max(one, -30.0), 30.0)) if is_ratio else one for one in (e.low, e.value, e.high)]
        for e in estimates
    ]
    low, high = min(null, *(each[0] for each in values)), max(null, *(each[2] for each in values))
    room = 0.0 if is_ratio else 0.05 * (high - low)
    low, high = (low / 1.1, high * 1.1) if is_ratio else (low - room, high + room)
    height = 24 * len(estimates) + 16
    x = Axis(low, high, 220, 620, is_ratio)
    marks = [f'<line class="null" x1="{x.at(null)}" x2="{x.at(null)}" y1="8" y2="{height - 8}"/>']
    for row, (estimate, (left, middle, right)) in enumerate(zip(estimates, values, strict=True)):
        y = 24 * row + 20
        marks += [
            f'<text class="label" x="210" y="{y + 4}">{escape(_short(estimate.label))}</text>',
            f'<line class="interval" x1="{x.at(left)}" x2="{x.at(right)}" y1="{y}" y2="{y}"/>',
            f'<rect class="point" x="{x.at(middle) - 4}" y="{y - 4}" width="8" height="8"/>',
        ]
    return _svg(640, height + 32, "Forest plot", [*marks, *_x_axis(x, height)])


def survival(curves: Sequence[tuple[str, SurvivalCurve]], time: str) -> str:
    """Returns Kaplan-Meier curves with 95 % bands, and below the numbers at risk."""
    last = max(curve.times[-1] for _, curve in curves)
    x, y = Axis(0, max(float(last), 1e-9), 90, 620), Axis(0, 1, 250, 12)
    drawn = [
        f'<text class="tick" x="82" y="{y.at(share) + 4}" text-anchor="end">{share:.0%}</text>'
        f'<line class="grid" x1="90" x2="620" y1="{y.at(share)}" y2="{y.at(share)}"/>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    ticks = x.ticks()
    rows = [f'<text class="tick" x="4" y="312">At risk, by {escape(time)}</text>']
    for place, (label, curve) in enumerate(curves):
        series = f"series-{place % 8 + 1}"
        band = [*_steps(curve, curve.high), *reversed(_steps(curve, curve.low))]
        drawn += [
            f'<polygon class="band {series}" points="{_points(x, y, band)}"/>',
            f'<polyline class="curve {series}" points="{_points(x, y, _steps(curve, curve.survival))}"/>',
        ]
        line = 332 + 18 * place
        rows.append(f'<text class="label-left {series}" x="4" y="{line}">{escape(_short(label, 10))}</text>')
        for tick in ticks:
            at = int(np.searchsorted(curve.times, tick))
            risk = str(curve.at_risk[at]) if at < len(curve.times) else "-"
            rows.append(f'<text class="tick" x="{x.at(tick)}" y="{line}" text-anchor="middle">{risk}</text>')
    return _svg(640, 340 + 18 * len(curves), f"Survival by {time}", [*drawn, *_x_axis(x, 250), *rows])


def _steps(curve: SurvivalCurve, values: Iterable[float]) -> list[tuple[float, float]]:
    """Returns the corners of a curve that falls at its times."""
    corners, before = [(0.0, 1.0)], 1.0
    for time, value in zip(curve.times.tolist(), values, strict=True):
        if value != before:
            corners += [(time, before), (time, float(value))]
            before = float(value)
    return [*corners, (float(curve.times[-1]), before)]


def _points(x: Axis, y: Axis, corners: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x.at(a)},{y.at(b)}" for a, b in corners)


def _x_axis(x: Axis, bottom: float) -> list[str]:
    marks = [f'<line class="axis" x1="{x.start}" x2="{x.stop}" y1="{bottom}" y2="{bottom}"/>']
    marks += [
        f'<text class="tick" x="{x.at(tick)}" y="{bottom + 16}" text-anchor="middle">{tick:g}</text>'
        for tick in x.ticks()
    ]
    return marks


def _svg(width: int, height: float, title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _short(label: str, most: int = 32) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"
