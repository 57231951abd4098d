"""The page on the same jobs here and under other systems, from the file of `python -m benchmarks beside`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from website.tables import table

_TEXT = Path(__file__).with_suffix(".md")
_JOBS = ("digits", "lora", "survival")
_SEES: Mapping[str, str] = {
    "murmuration": "nobody, unless all but a few collude",
    "flower": "the server",
    "flower, SecAgg+": "nobody, unless the server and 4 of 5 clients collude",
    "nvflare, swarm": "the client that is drawn for the round: another in each",
}


def page(file: Path) -> str:
    """The page on the figures of `file`."""
    figures = json.loads(file.read_text("utf-8"))
    ran = figures[0]
    versions = dict.fromkeys(one["note"] for one in figures if one["note"])
    told = {job: _figures(job, figures) for job in _JOBS}
    told["ran"] = ", ".join([ran["machine"], *versions, f"torch {ran['versions']['torch']}"])
    return _TEXT.read_text("utf-8").format_map(told)


def _figures(job: str, figures: Sequence[Mapping[str, Any]]) -> str:
    named = {(one["case"], one["figure"]): one for one in figures}
    judged, form = ("distance from pooled", "{:.1e}") if job == "survival" else ("accuracy", "{:.3f}")
    forms = {judged: form, "whole": "{:.0f}", "a round": "{:.2f}", "bytes sent by a site": "{:,.0f}"}
    rows = [
        [system, *(_entry(named.get((f"{job}, {system}", name)), form) for name, form in forms.items()), sees]
        for system, sees in _SEES.items()
        if (f"{job}, {system}", judged) in named
    ]
    if not rows:
        return "The file has no run of this job."
    return table(["", judged, "whole, s", "a round, s", "bytes a site", "who sees a single update"], rows)


def _entry(one: Mapping[str, Any] | None, form: str) -> str:
    """The median (least to most) of a figure.

    >>> _entry({"median": 0.95, "min": 0.94, "max": 0.96}, "{:.3f}"), _entry(None, "{:.3f}")
    ('0.950 (0.940 to 0.960)', '')
    """
    if one is None:
        return ""
    median, least, most = (form.format(one[name]) for name in ("median", "min", "max"))
    return median if least == most else f"{median} ({least} to {most})"
