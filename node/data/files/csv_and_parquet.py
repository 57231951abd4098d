"""Reads tables with columns of any kind from CSV (also gzip), Excel and Parquet files, with pyarrow.

Limits apply while a file is read: rows and bytes are counted piece by piece, and text stays
dictionary-encoded, so a file that is well compressed on disk does not fill the memory.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from node.data.files.csv_head import Head, header_of, read_head
from node.data.files.formats import kind_of
from node.data.files.text_folder import CLASS, TEXT, TextFolder, list_texts
from node.data.persons import Persons, persons_of
from node.data.remedies import OTHER_ENCODING, without_columns
from node.data.sides import NOT_DRAWN, Draws, RowDraws
from node.data.text.columns import raw_words, words_of
from node.data.text.vectors import is_vectors, list_bytes
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, one_line, reason, shown
from node.task.dialect import PLAIN, Dialect

MOST_ROWS = 50_000_000
MOST_BYTES = 8 << 30
"""The most bytes of one file, decompressed."""
MOST_COLUMNS = 10_000
_BLOCK_BYTES = 8 << 20
_HEAD_BYTES = 1 << 30
_BATCH_ROWS = 1 << 16
_TEXT = pa.dictionary(pa.int32(), pa.string())
_WHY = ", to train and to validate"
_UNREADABLE = (OSError, EOFError, ValueError, MemoryError, csv.Error, zlib.error, pa.ArrowException)


@dataclass(frozen=True)
class Limits:
    """Limits on one file: the most rows, the most bytes when decompressed, and the least rows."""

    rows: int
    bytes: int
    least_rows: int = 2


LIMITS = Limits(MOST_ROWS, MOST_BYTES)
TO_PREDICT = Limits(MOST_ROWS, MOST_BYTES, 1)
DATA_FRAME = Path("(a data frame)")
"""What stands in messages in place of a file."""


@dataclass(frozen=True)
class Frame:
    """Columns (n,) as they were read, by name; text is dictionary-encoded."""

    path: Path
    columns: dict[str, pa.ChunkedArray]
    rows: int
    unusable: dict[str, str]
    """Columns that were not read because of what their cells are (records, lists of text): name to type."""
    vectors: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    """Columns (n,) of lists of numbers, by name."""
    encoding: str | None = None
    """The encoding of a text file."""
    separator: str | None = None
    """The character between the cells of a text file."""
    draws: Draws = field(default_factory=lambda: NOT_DRAWN)
    """The draw of each row by all columns of the file, if they were asked for: (n,)."""
    persons: Persons | None = None
    """The person of each row, if that was asked for."""
    texts: TextFolder | None = None
    """The folder of texts that it was read from, with the file of each row."""

    def type_of(self, name: str) -> str | None:
        """Returns the type of a column whose cells are no single values; None for another column."""
        lists = self.vectors.get(name)
        return self.unusable.get(name) if lists is None else one_line(str(lists.type))


def read_frame(
    path: Path,
    wanted: Sequence[str] | None,
    limits: Limits = LIMITS,
    dialect: Dialect = PLAIN,
    drawing: RowDraws | None = None,
) -> Frame:
    """Reads the table in `path`: .csv, .tsv, .txt, each also .gz, .xlsx, .parquet, or a folder of texts.

    `wanted` are the columns to return, None for all; `drawing` draws each row, by all columns of the file,
    and asks whose it is.
    Raises a one-line ConfigError if the file is unreadable or too large, or lacks a column.
    """
    try:
        match kind_of(path):
            case "parquet":
                return _read_parquet(path, wanted, dialect, limits, drawing)
            case "workbook":
                return _read_workbook(path, wanted, dialect, limits, drawing)
            case "texts":
                return _read_texts(path, wanted, dialect, limits, drawing)
            case "table" | "npz":
                return _read_text(path, wanted, dialect, limits, drawing)
    except _UNREADABLE as error:
        fail(path, f" cannot be read: {_told(error, dialect)}")


def read_header(path: Path, dialect: Dialect) -> list[str]:
    """Returns the names of the columns, from the header alone; none for what is no table.

    Raises ConfigError, OSError, ValueError or csv.Error for a file that cannot be read.
    """
    match kind_of(path):
        case "parquet":
            check_regular(path)
            return list(pq.read_schema(path).names)
        case "workbook":
            from node.data.files.excel import open_sheet  # noqa: PLC0415 - openpyxl, only for a workbook

            with open_sheet(path, dialect.sheet, _HEAD_BYTES) as sheet:
                return [cell.strip() for cell in sheet.header]
        case "table":
            try:
                head = read_head(path, None, dialect)
            except UnicodeError:
                head = read_head(path, dialect.encoding, dialect)
            first = next(csv.reader(io.StringIO(head.text), delimiter=head.separator), [])
            return [cell.strip() for cell in first]
        case "texts":
            return [CLASS, TEXT]
        case "npz":
            return []


def fail(path: Path, text: str) -> NoReturn:
    """Raises the ConfigError about the data in `path`."""
    raise ConfigError(f"data file {shown(str(path))}{text}")


def _told(error: Exception, dialect: Dialect) -> str:
    if _is_no_text(error):
        if dialect.encoding is None:
            return f"it is not UTF-8 text ({reason(error)}); save it as UTF-8, or say {OTHER_ENCODING}"
        return f"it is neither Unicode nor {dialect.encoding} text ({reason(error)}); save it as UTF-8"
    if "straddl" in str(error):
        return f"it has a row of more than {_BLOCK_BYTES} bytes, or a quotation mark without its second"
    return reason(error)


def _is_no_text(error: Exception) -> bool:
    return isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)


def _read_text(
    path: Path, wanted: Sequence[str] | None, dialect: Dialect, limits: Limits, drawing: RowDraws | None
) -> Frame:
    """Reads text; only a file that turns out not to be Unicode is read again, in the dialect's encoding."""
    try:
        return _read_lines(path, read_head(path, None, dialect), wanted, dialect, limits, drawing)
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        if dialect.encoding is None or not _is_no_text(error):
            raise
    head = read_head(path, dialect.encoding, dialect)
    return _read_lines(path, head, wanted, dialect, limits, drawing)


def _read_lines(
    path: Path,
    head: Head,
    wanted: Sequence[str] | None,
    dialect: Dialect,
    limits: Limits,
    drawing: RowDraws | None,
) -> Frame:
    lines = csv.reader(io.StringIO(head.text, newline=""), delimiter=head.separator)
    header = header_of(path, next(lines, []))
    chosen = _chosen(path, header, wanted)
    reader = pa_csv.open_csv(
        pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None),
        read_options=pa_csv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK_BYTES,
            column_names=header,
            skip_rows=head.skipped + lines.line_num,
            encoding="utf8" if head.encoding.startswith("utf-8") else head.encoding,
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=head.separator, newlines_in_values=True, invalid_row_handler=_blank_is_skipped
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(header, _TEXT),
            strings_can_be_null=False,
            include_columns=chosen if drawing is None else header,
        ),
    )
    with reader:
        drawn = _Drawn(path, header, drawing, dialect, head.encoding)
        found = _frame(path, chosen, map(drawn.seen, reader), limits, {})
    return replace(drawn.told(found), encoding=head.encoding, separator=head.separator)


def _read_texts(
    path: Path, wanted: Sequence[str] | None, dialect: Dialect, limits: Limits, drawing: RowDraws | None
) -> Frame:
    texts = list_texts(path)
    drawn = _Drawn(path, texts.columns, drawing, dialect)
    batches = map(drawn.seen, texts.batches(dialect.encoding or "utf-8"))
    found = _frame(path, _chosen(path, texts.columns, wanted), batches, limits, {})
    return replace(drawn.told(found), texts=texts)


def _blank_is_skipped(row: pa_csv.InvalidRow) -> str:
    """Returns what pyarrow does with a row whose cell count is not the header's: it skips blank lines."""
    return "error" if row.text.strip() else "skip"


def _chosen(path: Path, header: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """Returns `wanted`, or all columns if it is None; raises ConfigError if one is not there."""
    if len(header) > MOST_COLUMNS:
        fail(path, f" has {len(header)} columns; allowed: at most {MOST_COLUMNS}")
    check_columns(path, header, wanted or ())
    return list(header if wanted is None else wanted)


def check_columns(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises ConfigError for columns that a schema requires and the file lacks."""
    missing = [name for name in wanted if name not in header]
    if missing:
        fail(path, without_columns(missing, header))


def _read_workbook(
    path: Path, wanted: Sequence[str] | None, dialect: Dialect, limits: Limits, drawing: RowDraws | None
) -> Frame:
    from node.data.files.excel import open_sheet  # noqa: PLC0415 - openpyxl, only for a workbook

    with open_sheet(path, dialect.sheet, limits.bytes) as sheet:
        header = header_of(path, sheet.header)
        chosen = _chosen(path, header, wanted)
        batches = (
            pa.record_batch([pa.array(cells, _TEXT) for cells in zip(*rows, strict=True)], names=header)
            for rows in sheet.batches(_BATCH_ROWS)
        )
        drawn = _Drawn(path, header, drawing, dialect)
        return drawn.told(_frame(path, chosen, map(drawn.seen, batches), limits, {}))


def _read_parquet(
    path: Path, wanted: Sequence[str] | None, dialect: Dialect, limits: Limits, drawing: RowDraws | None
) -> Frame:
    check_regular(path)
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        kinds = {field.name: field.type for field in schema}
        unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        _check(path, metadata.num_rows, max(unpacked, _list_bytes(metadata, kinds)), limits)
    if len(kinds) < len(schema):
        fail(path, " has two columns of the same name; each needs a name of its own")
    header = header_of(path, list(kinds))
    chosen = _chosen(path, header, wanted)
    kept, unusable = _usable(chosen, kinds)
    read, _ = _usable(chosen if drawing is None else header, kinds)
    text = [name for name in read if _is_text(kinds[name])]
    with pq.ParquetFile(path, read_dictionary=text) as file:
        batches = file.iter_batches(_BATCH_ROWS, columns=read, use_threads=False)
        drawn = _Drawn(path, read, drawing, dialect)
        return drawn.told(_frame(path, kept, map(drawn.seen, batches), limits, unusable))


def _list_bytes(metadata: pq.FileMetaData, kinds: Mapping[str, pa.DataType]) -> int:
    """Returns the most bytes of lists of numbers; a page may hold one number and how often it comes."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    roots = {name for name, kind in kinds.items() if is_vectors(kind)}
    return sum(8 * chunk.num_values for chunk in chunks if chunk.path_in_schema.split(".")[0] in roots)


def _usable(chosen: Sequence[str], kinds: Mapping[str, pa.DataType]) -> tuple[list[str], dict[str, str]]:
    """Returns the columns that can be read, and the type of each of the others."""
    kept = [name for name in chosen if _is_plain(kinds[name]) or is_vectors(kinds[name])]
    return kept, {name: one_line(str(kinds[name])) for name in chosen if name not in kept}


def frame_of(
    table: pa.Table,
    wanted: Sequence[str] | None,
    drawing: RowDraws | None = None,
    dialect: Dialect = PLAIN,
    limits: Limits = LIMITS,
) -> Frame:
    """Returns a table in memory as `read_frame` returns a Parquet file with the same columns."""
    header = header_of(DATA_FRAME, table.column_names)
    for place, field_ in enumerate(table.schema):
        if _is_text(field_.type):
            text = table.column(place).cast(pa.string()).cast(_TEXT)
            table = table.set_column(place, field_.name, text)
    kinds = {name: table.schema.field(name).type for name in header}
    chosen = _chosen(DATA_FRAME, header, wanted)
    kept, unusable = _usable(chosen, kinds)
    read, _ = _usable(header, kinds)
    drawn = _Drawn(DATA_FRAME, read, drawing, dialect)
    batches = table.select(read).to_batches(_BATCH_ROWS)
    return drawn.told(_frame(DATA_FRAME, kept, map(drawn.seen, batches), limits, unusable))


class _Drawn:
    """The draws of a file's rows, as its batches come, and whose they are."""

    def __init__(
        self,
        path: Path,
        header: Sequence[str],
        drawing: RowDraws | None,
        dialect: Dialect,
        encoding: str = "utf-8",
    ) -> None:
        """Raises ConfigError if the column of persons, which data.person names, is not in `header`."""
        self._path = path
        self._drawing = drawing
        self._dialect = dialect
        self._encoding = "utf-8" if encoding.startswith("utf") else encoding
        self._parts: list[Draws] = []
        self._names: list[pa.Array] = []
        person = None if drawing is None else drawing.person
        if person is not None and person not in header:
            fail(
                path,
                f" has no column {shown(person)} of single values, which data.person names; it has "
                f"{shown(', '.join(header))}; rename a column, or leave data.person out at all peers",
            )

    def seen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Draws the rows of a batch, which has all columns, if they were asked for; returns the batch."""
        if self._drawing is not None:
            cells = (pa.chunked_array([batch.column(name)]) for name in sorted(batch.schema.names))
            self._parts.append(self._drawing.of_columns([*map(_drawn_by, cells)], self._encoding))
            if self._drawing.person is not None:
                self._names.append(batch.column(self._drawing.person))
        return batch

    def told(self, frame: Frame) -> Frame:
        """Returns the frame of all batches with what was asked of its rows."""
        return replace(frame, draws=np.concatenate([NOT_DRAWN, *self._parts]), persons=self._persons())

    def _persons(self) -> Persons | None:
        drawing = self._drawing
        if drawing is None or drawing.person is None:
            return None
        cells = pa.table({"": pa.chunked_array(self._names)}).unify_dictionaries()[0]
        words = words_of(cells, self._dialect)
        return persons_of(
            self._path, drawing.person, words.words, words.codes, blank_is_own=drawing.blank_is_own
        )


def _drawn_by(column: pa.ChunkedArray) -> tuple[Sequence[str | bytes], NDArray[np.int64]]:
    """Returns the distinct words of a column, or the bytes of its lists, and which one each row (n,) has."""
    if is_vectors(column.type):
        return list_bytes(column)
    found = raw_words(column)
    return found.words, found.codes


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Returns whether a column of this type holds one usable value per row."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (
        *(pa.types.is_string, pa.types.is_large_string, pa.types.is_boolean, pa.types.is_integer),
        *(pa.types.is_floating, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp),
        pa.types.is_time,
    )
    return any(test(inner) for test in tests)


def _frame(
    path: Path,
    names: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    limits: Limits,
    unusable: dict[str, str],
) -> Frame:
    """Joins all batches, and checks the limits as they come."""
    kept, rows, size = [], 0, 0
    for batch in batches:
        chosen = batch.select(names)
        rows, size = rows + batch.num_rows, size + chosen.nbytes
        _check(path, rows, size, limits)
        kept.append(chosen)
    if rows < limits.least_rows:
        fail(
            path, f" has {rows} rows; at least {limits.least_rows} are needed{_WHY * (limits.least_rows > 1)}"
        )
    table = pa.Table.from_batches(kept).unify_dictionaries()
    lists = {name: table[name] for name in names if is_vectors(table.schema.field(name).type)}
    columns = {name: table[name] for name in names if name not in lists}
    return Frame(path, columns, rows, unusable, vectors=lists)


def _check(path: Path, rows: int, size: int, limits: Limits) -> None:
    for count, most, what in ((rows, limits.rows, "rows"), (size, limits.bytes, "bytes")):
        if count > most:
            fail(path, f" has more than {most} {what}; allowed: at most that many; take a part of it")
