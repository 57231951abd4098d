"""What the options of `python -m node.init` say about how a table's cells are written."""

from __future__ import annotations

from dataclasses import dataclass

from node.task.dialect import DateOrder, Decimal, Dialect, Months, Separator

NONE = "none"
USUAL_ENCODING = "cp1252"
"""That of files that are not Unicode, unless an option names another: Windows' in Western Europe."""


@dataclass(frozen=True)
class Asked:
    """What the options say; None, or no word: to be found out. `thousands` may be NONE."""

    decimal: Decimal | None = None
    thousands: str | None = None
    dates: DateOrder | None = None
    months: Months | None = None
    missing: tuple[str, ...] = ()
    encoding: str | None = None
    separator: Separator | None = None
    sheet: str | None = None
    below: str | None = None
    words: str | None = None
    """`below` and `words` may be NONE."""

    @property
    def first(self) -> Dialect:
        """The dialect by which a file is read before its own is known: all cells as text."""
        return Dialect(encoding=self.encoding or USUAL_ENCODING, separator=self.separator, sheet=self.sheet)


NOTHING_ASKED = Asked()
