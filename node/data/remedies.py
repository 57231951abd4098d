"""What to do about data that lack a column or have a class more than the task: in words, all remedies.

A task is one file for all peers. What changes a schema changes the width of the model, so whoever wrote the
task changes it, and everybody learns with the new file.
"""

from __future__ import annotations

from collections.abc import Sequence

from node.system.errors import shown

OTHER_ENCODING = "--cells encoding=cp1252 (or another)"
"""What to say of text that is not UTF-8."""


def without_columns(missing: Sequence[str], header: Sequence[str]) -> str:
    """Returns the rest of a line about a file, with this `header`, that lacks columns of the schema."""
    is_one = len(missing) == 1
    what, it = ("column", "it") if is_one else ("columns", "them")
    which = shown(missing[0]) if is_one else "for each"
    return (
        f" has no {what} {shown(', '.join(missing))}, which the task's schema asks for; it has "
        f"{shown(', '.join(header))}; rename a column, or add {it} (empty cells are missing values), or "
        f"learn without {it}: all run node.agree with --leave-out-missing, or node.init with --leave-out "
        f"{which} makes a new file for all"
    )


def other_class(classes: Sequence[str]) -> str:
    """Returns the rest of a line about a label that is none of the task's `classes`."""
    return (
        f"is no class of the task; allowed: {shown(', '.join(classes))}; mend it, or leave its rows out, or "
        "learn it: all run node.agree with --also-class and its name, or whoever wrote the task adds it to "
        "data.schema.target.values, gives the model one more output in model.args, and sends all the file"
    )
