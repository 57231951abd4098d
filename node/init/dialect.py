"""Finds out how a table's cells are written: marks of numbers, order of dates, names of months, no value.

Each column that can be told by itself votes; the file decides for the others. A column that contradicts the
file gets its own mark or order. What nothing in the file decides is said, with the option that decides it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from node.data.files.csv_and_parquet import Frame
from node.data.text.cells import MISSING_WORDS, is_word, number_reader, without_sign
from node.data.text.columns import is_text, truth, words_of
from node.data.text.dates import days, hours
from node.data.text.shapes import DateShapes, NumberShapes, Shapes, either_in, shapes_of, unit_after
from node.init.asked import NONE, NOTHING_ASKED, USUAL_ENCODING, Asked
from node.system.errors import counted, shown
from node.task.data_schema import TableSchema
from node.task.dialect import (
    A_MARK,
    BELOW,
    MONTHS,
    OTHER_MARK,
    PLAIN,
    WORDS,
    Cells,
    DateOrder,
    Decimal,
    Dialect,
    Months,
    Thousands,
    below_text,
)

_ABSENT_ANYWHERE = frozenset(
    {
        *("k.a.", "k. a.", "k.a", "keine angabe", "n.a.", "n. a.", "n.a", "<na>", "#nv", "#null!", "#div/0!"),
        *("#wert!", "#value!", "#ref!", "#bezug!", "nat", "not available", "not applicable", "s/d", "n/d"),
    }
)
"""Words for no value in any column."""
_ABSENT_AMONG_VALUES = frozenset(
    {
        *("-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "*", "/", "//", "??", "???"),
        *("n.b.", "n.v.", "n.d.", "nd", "unbekannt", "unknown", "missing", "fehlt", "fehlend"),
        *("inconnu", "n.c.", "desconocido", "null", "na", "nan"),
    }
)
"""Words for no value in columns of numbers, dates, times, or yes and no; they may be values elsewhere."""
FEW_CODES = 20
"""Up to so many different whole numbers may be names of categories."""
_FEW_WORDS = 0.1  # of the cells with a value: a column with more words is none of numbers
_LEAST_UNITS = 3  # different words with a unit: a single one may be a slip
_LEAST_GROUPED = 3  # numbers such as 1.234 beside 950, from which the point is one for thousands
_MARKS: tuple[Decimal, ...] = ("point", "comma")
_GROUPS: tuple[Thousands, ...] = ("point", "comma", "space", "apostrophe")
_Vote = TypeVar("_Vote", bound=str)


@dataclass(frozen=True)
class Found:
    """The dialect of a file, and where columns differ from it."""

    dialect: Dialect
    decimals: Mapping[str, Decimal]
    """Columns with the other decimal mark."""
    dates: Mapping[str, DateOrder]
    """Columns with the other order of day and month."""
    undecided: frozenset[str]
    """Columns of dates whose order nothing decides."""
    numbers: frozenset[str]
    """Columns whose limits and words are read as `dialect` says: most cells are numbers of many kinds."""
    units: Mapping[str, str]
    """Columns with one unit after their numbers."""
    remarks: tuple[str, ...]
    """What was found, for the report."""

    def of_column(self, name: str) -> Dialect:
        """Returns the dialect of one column; a category may have values such as <18."""
        dialect = self.dialect.of_column(self.decimals.get(name), self.dates.get(name))
        return dialect if name in self.numbers else replace(dialect, below=None, words=None)


@dataclass(frozen=True)
class _Column:
    """A text column's words without those for no value: their shapes; and the ones for no value."""

    name: str
    shapes: Shapes
    """Those of the words without the unit."""
    absent: frozenset[str]
    unit: str
    """The one that words have after a number, if there is just one; "" otherwise."""

    @property
    def numeric(self) -> bool:
        """Whether at least half of the words are numbers in some dialect."""
        return 0 < self.shapes.words <= 2 * self.shapes.numbers.count

    @property
    def dated(self) -> bool:
        """Whether at least half of the words are dates with the year last."""
        return 0 < self.shapes.words <= 2 * self.shapes.dates.year_last

    @property
    def named(self) -> bool:
        """Whether at least half of the words are dates with a month's name in some language."""
        return 0 < self.shapes.words <= 2 * self.shapes.dates.named


def find_dialect(frame: Frame, asked: Asked) -> Found:
    """Returns how the cells of `frame` are written, as far as `asked` leaves it open."""
    columns = [_column(name, cells, asked) for name, cells in frame.columns.items() if is_text(cells)]
    numeric = [column for column in columns if column.numeric]
    votes = {column.name: _decimal(column.shapes.numbers) for column in numeric}
    usual: Decimal = "point" if frame.separator in (None, ",") else "comma"
    beside = next((OTHER_MARK[mark] for mark in _MARKS if mark == asked.thousands), None)
    voted = asked.decimal or beside or _common(votes.values(), usual)
    decimal = voted or (
        usual if any(column.shapes.numbers.either["comma"] for column in numeric) else "point"
    )
    orders = {column.name: _order(column.shapes.dates) for column in columns if column.dated}
    # Where no date gives the order away, decimal commas go with days first.
    usual_order: DateOrder | None = "day-first" if orders and decimal == "comma" else None
    dialect = Dialect(
        decimal=decimal,
        thousands=_thousands(numeric, votes, decimal, asked.thousands),
        dates=asked.dates or _common(orders.values(), "day-first") or usual_order,
        months=asked.months or _months(columns, decimal),
        missing=tuple(dict.fromkeys((*asked.missing, *_absent(columns, asked)))),
        encoding=asked.encoding or (USUAL_ENCODING if frame.encoding == USUAL_ENCODING else None),
        separator=asked.separator,
        sheet=asked.sheet,
    )
    decimals = {name: mark for name, mark in votes.items() if mark is not None and mark != decimal}
    dates = {name: order for name, order in orders.items() if order is not None and order != dialect.dates}
    found = Found(
        dialect=dialect,
        decimals={} if asked.decimal else decimals,
        dates={} if asked.dates else dates,
        undecided=frozenset(orders) if dialect.dates is None else frozenset(),
        numbers=frozenset(),
        units={},
        remarks=(),
    )
    looked = (_odd(column, frame.columns[column.name], found) for column in numeric)
    found, odd = _with_odd(found, [one for one in looked if one is not None], asked)
    doubt = () if voted else _doubt(numeric, frame, decimal)
    return replace(found, remarks=(*_remarks(found, columns, frame), *odd, *doubt))


@dataclass(frozen=True)
class Unlike:
    """In what a file is not written as a task says."""

    cells: Cells
    """What --cells has to say for most columns: only what the file gives away."""
    odd: Mapping[str, str]
    """Columns that are written unlike the others of the file, and how."""
    marks: str
    """A number such as 1.234, where nothing in the file says what its mark is for; "" if there is none."""
    days: str
    """A date such as 3/4/2023, where nothing in the file says which part is the day; "" if there is none."""


def unlike(frame: Frame, schema: TableSchema) -> Unlike:
    """Returns in what the schema's columns of numbers and dates are not written as it says."""
    columns = [_column(name, cells, NOTHING_ASKED) for name, cells in frame.columns.items() if is_text(cells)]
    numeric, dated = [each for each in columns if each.numeric], [each for each in columns if each.dated]
    votes = {column.name: _decimal(column.shapes.numbers) for column in numeric}
    orders = {column.name: _order(column.shapes.dates) for column in dated}
    said = {one.name or "": schema.written_in(one) for one in schema.numbers}
    marks: dict[str, Decimal | None] = {name: dialect.decimal for name, dialect in said.items()}
    decimal: Decimal | None = _against(votes, marks)
    dates: DateOrder | None = _against(orders, {name: dialect.dates for name, dialect in said.items()})
    written, mark = schema.written, decimal or schema.written.decimal
    odd = {
        name: f"decimals with a {vote}"
        for name, vote in votes.items()
        if vote not in (None, decimal or marks.get(name))
    }
    tied = _tied(columns)
    known = {word.casefold() for word in written.missing} | {word.casefold() for word in MISSING_WORDS}
    absent = [word for word in _absent(columns, NOTHING_ASKED) if word.casefold() not in known]
    return Unlike(
        Cells(
            decimal=decimal,
            thousands=_other_thousands(_thousands(numeric, votes, mark, None), votes, mark, written),
            dates=dates,
            months=None if not tied or written.months in tied else _months(columns, mark),
            missing=(*written.missing, *absent) if absent else None,
        ),
        odd,
        "" if any(votes.values()) else _either(numeric, frame),
        "" if any(orders.values()) else _either_day(dated, frame),
    )


def _against(votes: Mapping[str, _Vote | None], said: Mapping[str, _Vote | None]) -> _Vote | None:
    """Returns what most columns give away, if more of them are written so than as is said of each."""
    told = {name: vote for name, vote in votes.items() if vote is not None}
    right = sum(vote == said.get(name) for name, vote in told.items())
    return next((vote for vote, count in Counter(told.values()).most_common(1) if count > right), None)


def _other_thousands(
    found: Thousands | None, votes: Mapping[str, Decimal | None], mark: Decimal, written: Dialect
) -> Thousands | Literal["none"] | None:
    """Returns the mark for thousands that --cells has to say beside the decimal `mark`; None: nothing."""
    if found in _MARKS and not any(votes.values()):
        found = None  # it may be the decimal mark
    if found is not None:
        return None if found == written.thousands else found
    return "none" if written.thousands == mark else None


def _either(numeric: Iterable[_Column], frame: Frame) -> str:
    """Returns the first number whose mark may be for decimals or for thousands; "" if there is none."""
    words = (
        either_in(_distinct(frame.columns[column.name]), mark)
        for column in numeric
        for mark in _MARKS
        if column.shapes.numbers.either[mark]
    )
    return next(words, "")


def _either_day(dated: Iterable[_Column], frame: Frame) -> str:
    """Returns the first date that may have the day or the month first; "" if there is none."""
    words = (word for column in dated for word in _distinct(frame.columns[column.name]))
    return next((word for word in words if shapes_of([word]).dates.either_first), "")


def _column(name: str, cells: pa.ChunkedArray, asked: Asked) -> _Column:
    said = {word.casefold() for word in asked.missing}
    words = _distinct(cells)
    odd = {word: word.casefold() for word in words if said or not word[-1:].isdigit()}
    anywhere = {word for word, folded in odd.items() if folded in _ABSENT_ANYWHERE}
    among = {word for word, folded in odd.items() if folded in _ABSENT_AMONG_VALUES}
    absent = (
        anywhere | among | {word for word, folded in odd.items() if word in MISSING_WORDS or folded in said}
    )
    rest = [word for word in words if word not in absent] if absent else words
    units = Counter(unit for word in odd if word not in absent and (unit := unit_after(word)))
    unit = next(iter(units)) if len(units) == 1 and units.total() >= _LEAST_UNITS else ""
    if unit:
        rest = [word.removesuffix(unit).rstrip() for word in rest]
    column = _Column(name, shapes_of(rest), frozenset(anywhere), unit)
    valued = column.numeric or column.dated or column.named
    if among and rest and not valued:  # all yes or no, or dates with the year first, or times of day
        valued = any(all(read(word) is not None for word in rest) for read in (truth, days, hours))
    return replace(column, absent=frozenset(anywhere | among)) if valued else column


@dataclass(frozen=True)
class _Odd:
    """A column of numbers, some cells of which are limits, or words: those cells, by what is in them."""

    name: str
    unit: str
    limits: Counter[str]
    words: Counter[str]


def _odd(column: _Column, cells: pa.ChunkedArray, found: Found) -> _Odd | None:
    """Returns which cells of a column are no numbers as they stand; None if it may be no column of numbers.

    Few whole numbers may be codes, and so may numbers beside many words.
    """
    words = words_of(cells, found.of_column(column.name))
    if len(words.words) <= FEW_CODES and not column.shapes.numbers.marked:
        return None
    read = number_reader(found.of_column(column.name), column.unit or None)
    odd = _Odd(column.name, column.unit, Counter(), Counter())
    for word, count in zip(words.words, words.counts().tolist(), strict=True):
        sign, rest = without_sign(word)
        if read(word) is not None:
            continue
        if sign and read(rest) is not None:
            odd.limits[word] = count
        elif is_word(word):
            odd.words[word] = count
        else:
            return None
    return odd if odd.words.total() <= _FEW_WORDS * words.counts().sum() else None


def _with_odd(found: Found, odd: Sequence[_Odd], asked: Asked) -> tuple[Found, list[str]]:
    """Returns what was found with how limits, words and units are read, and remarks on them."""
    below = asked.below or ("half" if any(one.limits for one in odd) else NONE)
    words = asked.words or ("missing" if any(one.words for one in odd) else NONE)
    read = [one for one in odd if not (one.limits and below == NONE) and not (one.words and words == NONE)]
    dialect = replace(
        found.dialect,
        below=next((each for each in BELOW if each == below), None),
        words=next((each for each in WORDS if each == words), None),
    )
    units = {one.name: one.unit for one in read if one.unit}
    numbers = frozenset(one.name for one in read)
    return replace(found, dialect=dialect, numbers=numbers, units=units), [*_of_odd(read, dialect)]


def _of_odd(odd: Iterable[_Odd], dialect: Dialect) -> Iterator[str]:
    """Yields for each column what its odd cells are, an example, and the option that says otherwise."""
    for one in odd:
        if one.limits and dialect.below:
            yield (
                f"column {shown(one.name)}: {counted(one.limits.total(), 'cell')} such as "
                f"{shown(next(iter(one.limits)))}; {below_text(dialect.below)}; --below "
                f"{', '.join(each for each in BELOW if each != dialect.below)} or none says otherwise"
            )
        if one.words:
            yield (
                f"column {shown(one.name)}: {counted(one.words.total(), 'cell')} such as "
                f"{shown(next(iter(one.words)))} have no digit and count as no value; --words none says "
                "otherwise"
            )
        if one.unit:
            yield f"column {shown(one.name)}: numbers with the unit {shown(one.unit)}, which is left off"


def _distinct(cells: pa.ChunkedArray) -> list[str]:
    """Returns the distinct words of a text column, without surrounding white space."""
    different = pc.unique(cells).drop_null()
    text = different.dictionary_decode() if pa.types.is_dictionary(different.type) else different
    return list(dict.fromkeys(pc.utf8_trim_whitespace(text).to_pylist()))


def _decimal(shapes: NumberShapes) -> Decimal | None:
    """Returns the decimal mark that a column's words give away, None if they do not."""
    votes = {mark: shapes.fractions[mark] + shapes.split[OTHER_MARK[mark]] for mark in _MARKS}
    if any(votes.values()):
        return max(_MARKS, key=votes.__getitem__)
    for mark in _MARKS:
        # Of decimals with three digits, 1 in 1000 would lack all three, and 99 in 1000 one or two.
        if shapes.either[mark] >= _LEAST_GROUPED and shapes.whole and not shapes.long:
            return OTHER_MARK[mark]
    return None


def _common(votes: Iterable[_Vote | None], even: _Vote) -> _Vote | None:
    """Returns the most common vote, `even` if there are as many of it as of another; None without votes."""
    counts = Counter(vote for vote in votes if vote is not None)
    return max(counts, key=lambda vote: (counts[vote], vote == even)) if counts else None


def _thousands(
    numeric: Iterable[_Column], votes: Mapping[str, Decimal | None], decimal: Decimal, asked: str | None
) -> Thousands | None:
    """Returns the mark for thousands that most columns with this decimal mark have; None: there is none."""
    fitting = [column.shapes.numbers for column in numeric if votes[column.name] in (None, decimal)]
    counts = {mark: sum(_is_split(shapes, mark) for shapes in fitting) for mark in _GROUPS if mark != decimal}
    if asked is not None:
        return next((mark for mark in _GROUPS if mark == asked), None)
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else None


def _is_split(shapes: NumberShapes, mark: Thousands) -> bool:
    return bool(shapes.split[mark] or shapes.either.get(mark, 0))


def _order(shapes: DateShapes) -> DateOrder | None:
    """Returns the order that a column's dates give away, None if they do not."""
    if shapes.day_first == shapes.month_first:
        return None
    return "day-first" if shapes.day_first > shapes.month_first else "month-first"


def _months(columns: Iterable[_Column], decimal: Decimal) -> Months | None:
    """Returns the language that has most names of months in the file; None if there are no such dates.

    Where several have them all, it is English beside decimal points, and not English beside commas.
    """
    return max(
        _tied(columns), key=lambda language: (language == "english") == (decimal == "point"), default=None
    )


def _tied(columns: Iterable[_Column]) -> list[Months]:
    """Returns the languages that have the most names of months in the file, in order; none without names."""
    dates = [column.shapes.dates.months for column in columns if column.named]
    counts = {language: sum(each[language] for each in dates) for language in MONTHS}
    most = max(counts.values())
    return [language for language in MONTHS if most and counts[language] == most]


def _absent(columns: Iterable[_Column], asked: Asked) -> list[str]:
    """Returns the words for no value that no option names, each in one spelling."""
    known = {word.casefold() for word in asked.missing}
    found = {word.casefold(): word for column in columns for word in sorted(column.absent)}
    return sorted(word for folded, word in found.items() if folded not in known)


# -- what the report says ------------------------------------------------------------------------------------


def _remarks(found: Found, columns: Sequence[_Column], frame: Frame) -> Iterator[str]:
    parts = list(filter(None, _parts(found, columns, frame)))
    if parts:
        yield f"written with: {'; '.join(parts)}"
    for name, mark in found.decimals.items():
        yield f"column {shown(name)} has decimals with a {mark}, unlike the others"
    for name, order in found.dates.items():
        yield f"column {shown(name)} has dates {order.replace('-', ' ')}, unlike the others"
    chosen = found.dialect.months
    for column in columns:
        counts = column.shapes.dates.months
        best = max(MONTHS, key=lambda language: counts[language])
        if column.named and chosen is not None and counts[best] > counts[chosen]:
            yield (
                f"column {shown(column.name)} has names of months that are {best.capitalize()}, and not "
                f"{chosen.capitalize()} as in the task: write them alike, or say --months {best}"
            )
    short = [
        column.name
        for column in columns
        if (column.dated or column.named) and column.shapes.dates.short_years
    ]
    if short:
        yield f"years of two digits mean 1969 to 2068, in {shown(', '.join(short))}"


def _parts(found: Found, columns: Sequence[_Column], frame: Frame) -> Iterator[str]:
    """Yields what differs from the default, each with the number of columns or cells that have it."""
    dialect = found.dialect
    numeric = [
        column.shapes.numbers for column in columns if column.numeric and column.name not in found.decimals
    ]
    thousands = dialect.thousands
    if dialect.decimal != PLAIN.decimal or thousands is not None:
        having = sum(bool(s.fractions[dialect.decimal] or s.either[dialect.decimal]) for s in numeric)
        yield f"decimals with a {dialect.decimal} ({counted(having, 'column')})" if having else ""
    if thousands is not None:
        having = sum(_is_split(shapes, thousands) for shapes in numeric)
        yield f"thousands with {A_MARK[thousands]} ({counted(having, 'column')})"
    if dialect.dates is not None:
        dated = sum(column.dated and column.name not in found.dates for column in columns)
        yield f"dates {dialect.dates.replace('-', ' ')} ({counted(dated, 'column')})"
    if dialect.months is not None:
        named = sum(column.named for column in columns)
        yield f"names of months in {dialect.months.capitalize()} ({counted(named, 'column')})"
    if dialect.missing:
        cells = _cells(frame, dialect)
        told = (f"{shown(word)} ({counted(cells[word.casefold()], 'cell')})" for word in dialect.missing)
        yield f"no value: {', '.join(told)}"
    if frame.encoding is not None and not frame.encoding.startswith("utf-8"):
        yield f"{frame.encoding} text"


def _cells(frame: Frame, dialect: Dialect) -> Counter[str]:
    """Returns in how many cells each word for no value stands, in any case."""
    counts: Counter[str] = Counter()
    known = {word.casefold() for word in dialect.missing}
    for cells in frame.columns.values():
        words = words_of(cells, PLAIN)
        places = [place for place, word in enumerate(words.words) if word.casefold() in known]
        if places:
            each = words.counts()
            counts.update({words.words[place].casefold(): int(each[place]) for place in places})
    return counts


def _doubt(numeric: Iterable[_Column], frame: Frame, decimal: Decimal) -> Iterator[str]:
    """Yields what nothing in the file decides: whether a mark is for decimals or for thousands."""
    for column in numeric:
        for mark in _MARKS:
            if column.shapes.numbers.either[mark]:
                word = either_in(_distinct(frame.columns[column.name]), mark)
                read = "a decimal mark" if mark == decimal else "one for thousands"
                other = f"--thousands {mark}" if mark == decimal else f"--decimal {mark}"
                yield (
                    f"column {shown(column.name)}: nothing in the file says whether the {mark} in "
                    f"{shown(word)} is for decimals or for thousands; it is read as {read}; {other} says "
                    "otherwise"
                )
