"""Recognises columns that say whether something happened, and when: survival data."""

from __future__ import annotations

import re

import numpy as np

from node.data.files.csv_and_parquet import Frame
from node.data.text.columns import parsed, reader_of, words_of
from node.init.dialect import Found
from node.system.errors import shown

EVENT = re.compile(
    r"(?i)event|death|died|dead|deceased|censor|relaps|recurr|progress|vital|exitus|ereignis|(^|[^a-z])tod|todes"
    r"|verstorben|gestorben|zensier|zensur|rezidiv|r(ü|ue)ckfall|^status$|(^|[^a-z])(os|pfs|dfs|surv\w*)_?status"
)
DURATION = re.compile(
    r"(?i)time|days|weeks|months|years|surviv|follow|duration|tage|wochen|monate|jahre|zeit|dauer|(ü|ue)berleben"
    r"|(^|[^a-z])(os|pfs|dfs|ttp|tte)($|[^a-z])"
)
NO_DURATION = re.compile(r"(?i)(^|[^a-z])(age|alter|birth|geburt)")
_FEWEST = 5  # different durations


def survival_remark(frame: Frame, found: Found) -> tuple[str, ...]:
    """Returns a line about the first column of an event and the first of a duration, if there are both."""
    named = [name for name in frame.columns if EVENT.search(name)]
    events = (name for name in named if len(words_of(frame.columns[name], found.of_column(name)).words) == 2)
    event = next(events, "")
    duration = next((name for name in frame.columns if name != event and _is_time(frame, name, found)), "")
    if not event or not duration:
        return ()
    told = (
        f"{shown(event)} and {shown(duration)} look like survival data (an event, and the time until it or "
        f"the last look); --statistics proposes curves and a Cox model: {shown(event)} as classes loses when "
        "it happened, and takes rows that were not watched to the end for rows without the event"
    )
    return (told,)


def _is_time(frame: Frame, name: str, found: Found) -> bool:
    """Whether a column has a name like a duration, and numbers from 0 on."""
    if not DURATION.search(name) or NO_DURATION.search(name):
        return False
    dialect = found.of_column(name)
    words = words_of(frame.columns[name], dialect)
    if len(words.words) < _FEWEST:
        return False
    values, bad = parsed(words, reader_of(frame.columns[name], dialect, found.units.get(name)))
    return bad is None and not bool(np.any(values < 0))
