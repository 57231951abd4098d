"""The first inspection of somebody's data, of any kind: a schema for it, and a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from node.data.files.csv_and_parquet import fail, read_frame
from node.data.files.formats import kind_of
from node.data.files.npz import finite, labels, read_arrays
from node.data.files.text_folder import CLASS, has_texts
from node.data.free_text import lost_texts
from node.data.images import list_folder, size_of
from node.data.reading import X, Y, label_word
from node.data.report import Entry, Report
from node.init.asked import NOTHING_ASKED, Asked
from node.init.counts import COUNT_REMARK, are_whole, count_scale, is_count
from node.init.dialect import find_dialect
from node.init.guess import TargetKind, array_scales, classes_of, understand
from node.init.person import PersonColumn, person_column, unnamed
from node.init.survival import survival_remark
from node.init.texts import Texts
from node.system.errors import ConfigError, counted, shown
from node.task.data_schema import ArraySchema, ClassTarget, NumberTarget, Schema, Target
from node.task.scaling import Scale, Scaling

if TYPE_CHECKING:
    pass

LARGEST_SIDE = 64
_SMALLEST_SIDE = 8
_PUBLIC_MEAN, _PUBLIC_STD = 0.5, 0.25
_FEW_CLASSES = 20


@dataclass(frozen=True)
class Look:
    """The result: the schema, the number of rows, the columns left out, and the report."""

    schema: Schema
    rows: int
    omitted: tuple[Entry, ...]
    report: Report
    person: PersonColumn | None = None
    """The column that says whose a row is."""
    warning: str = ""
    counts: bool = False
    """Whether the target counts something."""
    encoder_at: str | None = None
    """Where the sentence encoder is that texts are read by, if it is not at the usual place."""

    @property
    def units(self) -> int:
        """How many rows there are, or persons, where a column says whose they are."""
        return self.rows if self.person is None else self.person.persons


def look(
    path: Path,
    target: str | None,
    kind: TargetKind,
    unwanted: Sequence[str],
    scaling: Scaling,
    asked: Asked = NOTHING_ASKED,
    person: str | None = None,
    texts: Texts | None = None,
) -> Look:
    """Inspects a file or folder; `target` is a column or array, None for the last column or "y".

    `asked` is what is known about how a table's cells are written; `person` is the column that says whose a
    row is, NONE for none, None to be found out; `texts` is how free text is read, None for not at all.
    """
    if path.is_dir() and has_texts(path):
        target = target or CLASS
    elif path.is_dir():
        _refuse("--target", target, "the classes are the names of the folders")
        _refuse("--leave-out", next(iter(unwanted), None), "images have no columns")
        _refuse("--person", person, "images have no columns")
        _refuse_dialect(asked, "images have no cells")
        return _images(path)
    if kind_of(path) == "npz":
        _refuse("--leave-out", next(iter(unwanted), None), "an npz has arrays, not columns")
        _refuse("--person", person, "write data.person, the name of an array, into the task")
        _refuse_dialect(asked, "an npz has numbers, not text")
        return _npz(path, target or Y, kind, scaling)
    frame = read_frame(path, None, dialect=asked.first)
    aim = target if target is not None else list(frame.columns)[-1]
    if aim in unwanted:
        raise ConfigError(
            f"--leave-out {shown(aim)} is refused: it is the target; name another column with --target"
        )
    written = find_dialect(frame, asked)
    whose = person_column(frame, person, aim, written.dialect)
    apart = () if whose is None else (whose.name,)
    found = understand(frame, aim, kind, (*unwanted, *apart), scaling, written, texts)
    columns, width = counted(len(found.schema.columns), "column"), found.schema.shape[0]
    headline = (
        f"{path.name}: {counted(found.rows, 'row')}, {columns} as {counted(width, 'feature')}, "
        f"target {shown(aim)}, {counted(len(found.omitted), 'column')} left out"
    )
    omitted = tuple(
        replace(entry, remark="says whose a row is, and stays here") if entry.column in apart else entry
        for entry in found.omitted
    )
    read = (aim, *(column.name for column in found.schema.columns), *unwanted, *apart)
    remarks = (*written.remarks, *survival_remark(frame, written), *lost_texts(frame, read))
    report = Report(headline, (*found.kept, *omitted), (*remarks, *_of_persons(whose, found.rows)))
    warning = unnamed(frame, aim, written.dialect) if whose is None and person is None else ""
    encoder_at = texts.encoder_at if texts is not None and found.schema.texts else None
    return Look(found.schema, found.rows, omitted, report, whose, warning, found.counts, encoder_at)


def _of_persons(whose: PersonColumn | None, rows: int) -> tuple[str, ...]:
    if whose is None:
        return ()
    told = (
        f"persons: the {rows} rows are of {whose.persons} persons by column {shown(whose.name)}, at most "
        f"{whose.most} rows each; all rows of a person are on one side, and epsilon is for one person "
        "(--person none takes that back)"
    )
    return (told,)


def _refuse(option: str, value: str | None, why: str) -> None:
    """Raises ConfigError for an option that does not apply to this kind of data."""
    if value is not None:
        raise ConfigError(f"{option} {shown(value)} is refused: {why}; leave the option out")


def _refuse_dialect(asked: Asked, why: str) -> None:
    for entry in fields(asked):
        value = getattr(asked, entry.name)
        _refuse(f"--{entry.name}", value[0] if isinstance(value, tuple) and value else value or None, why)


def _images(path: Path) -> Look:
    folder = list_folder(path)
    target, spelt = classes_of(None, {name: len(files) for name, files in folder.classes.items()})
    if len(target.values) < 2:
        raise ConfigError(
            f"data folder {shown(str(path))} has one class, {shown(target.values[0])}; allowed: a folder for "
            "each of two classes or more"
        )
    sizes = size_of([file for files in folder.classes.values() for file in files])
    if not sizes:
        raise ConfigError(f"data folder {shown(str(path))}: no image in it can be read")
    (wide, high, _), _ = sizes.most_common(1)[0]
    shrink = max(1.0, max(wide, high) / LARGEST_SIDE)
    height, width = (max(_SMALLEST_SIDE, round(side / shrink)) for side in (high, wide))
    channels = 3 if any(colour for _, _, colour in sizes) else 1
    schema = ArraySchema(
        kind="images",
        target=target,
        shape=(channels, height, width),
        mean=(_PUBLIC_MEAN,),
        std=(_PUBLIC_STD,),
    )
    headline = (
        f"{path.name}: {counted(folder.count, 'image')}, {len(target.values)} classes, scaled to "
        f"{height} x {width}"
    )
    entries = tuple(
        Entry(name, "class", counted(len(files), "image")) for name, files in folder.classes.items()
    )
    others = f"{counted(sizes.total(), 'image')} can be read; {counted(folder.others, 'other file')} ignored"
    report = Report(headline, entries, tuple(filter(None, (spelt, others))))
    return Look(schema, sizes.total(), (), report)


def _npz(path: Path, name: str, kind: TargetKind, scaling: Scaling) -> Look:
    arrays = read_arrays(path, (X, name))
    x, y = finite(path, X, arrays[X]), arrays[name]
    if x.ndim < 2 or y.shape != x.shape[:1] or len(x) < 2:
        fail(
            path,
            f": {X} is {x.shape} and {name} is {y.shape}; allowed: shapes (n, ...) and (n,), n 2 or more",
        )
    target, counts, spelt = _npz_target(path, name, y, kind, scaling)
    schema = _array_schema(target, tuple(x.shape[1:]), array_scales(x, scaling))
    number, remark = ("a count", COUNT_REMARK) if counts else ("a number", spelt)
    what = f"{len(target.values)} classes" if isinstance(target, ClassTarget) else number
    shape = " x ".join(map(str, schema.shape))
    headline = f"{path.name}: {counted(len(x), 'row')}, {shape} numbers each, target {shown(name)} ({what})"
    entries = (Entry(name, f"target, {what}", remark), Entry(X, shape, ""))
    return Look(schema, len(x), (), Report(headline, entries, ()), counts=counts)


def _array_schema(target: Target, shape: tuple[int, ...], scales: Sequence[Scale]) -> ArraySchema:
    means, stds = tuple(scale.mean for scale in scales), tuple(scale.std for scale in scales)
    lows = tuple(scale.low for scale in scales if scale.low is not None)
    highs = tuple(scale.high for scale in scales if scale.high is not None)
    has_ranges = len(lows) == len(highs) == len(scales)
    return ArraySchema(
        kind="array",
        target=target,
        shape=shape,
        mean=means,
        std=stds,
        low=lows if has_ranges else None,
        high=highs if has_ranges else None,
    )


def _npz_target(
    path: Path, name: str, y: np.ndarray, kind: TargetKind, scaling: Scaling
) -> tuple[Target, bool, str]:
    """Returns the target's schema, whether it counts something, and what to tell of classes' spellings."""
    words, rows = np.unique(labels(path, name, y), return_counts=True)
    numeric = y.dtype.kind in "biuf"
    few = len(words) <= _FEW_CLASSES and (not numeric or bool(np.all(words == np.floor(words))))
    if kind == "classes" or (kind == "auto" and (few or not numeric)):
        target, spelt = classes_of(name, dict(zip(map(label_word, words), rows.tolist(), strict=True)))
        if not 2 <= len(target.values) <= 1000:
            fail(path, f": {name} has {len(target.values)} different values; allowed: 2 to 1000 classes")
        return target, False, spelt
    values = finite(path, name, y).astype(np.float64)
    if float(values.std()) == 0.0:
        fail(path, f": {name} is the same in every row; name another array with --target")
    if kind == "count" and not are_whole(values):
        fail(path, f": {name} does not count; allowed with --target-kind count: whole numbers from 0 on")
    counts = kind == "count" or (kind == "auto" and is_count(name, values))
    scale = count_scale(scaling(values)) if counts else scaling(values)
    return NumberTarget("number", scale.mean, scale.std, name, scale.low, scale.high), counts, ""
