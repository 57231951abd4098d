"""Inspects the data as an owner's options say."""

from __future__ import annotations

from node.init.look import Look, look
from node.init.options import InitOptions
from node.init.texts import AUTO, LEFT_OUT, Texts, chosen_texts
from node.task.scaling import by_range, by_rows


def looked(options: InitOptions) -> Look:
    """Returns what an inspection of the data finds; raises ConfigError."""
    scaling = by_range if options.agree or options.statistics else by_rows
    about = options.target, options.target_kind, options.leave_out, scaling, options.asked, options.person
    return look(options.data, *about, _texts(options))


def _texts(options: InitOptions) -> Texts | None:
    """Returns how texts are read; a model of tables, and statistics, read none."""
    asked = options.text
    if options.statistics or (asked == AUTO and options.model in ("additive", "trees")):
        asked = LEFT_OUT
    return chosen_texts(asked, options.privacy != "none")
