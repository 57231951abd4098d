"""What a field of a round or of a run declares of itself: its words, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from node.storage.plain import plain

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_TOLD = "node.runtime.record.fields.told"
DIGITS = 6


@dataclass(frozen=True)
class Logged:
    """A field's `place` in the line of the log. If not `always`, it is there only where it says something."""

    place: int
    digits: int | None = DIGITS
    always: bool = True


@dataclass(frozen=True)
class Scraped:
    """A metric of /metrics: a counter that adds up the values of all rounds, or a gauge with the last one."""

    name: str
    about: str
    is_counter: bool = False


@dataclass(frozen=True)
class Told:
    """The metadata of a field.

    `words` explain it to readers of the file, in which its floats have `digits` digits, or all. `kept`: it is
    known when the round ends, and is stored with the state. `page`: the page shows it. `outside` makes of a
    value what log and page show instead. `joined` makes one value of the last sum's and the earlier ones', if
    a round has several; None: the last one's stays.
    """

    words: str
    digits: int | None
    log: Logged | None
    metric: Scraped | None
    kept: bool
    page: bool
    outside: Callable[[Any], object]
    joined: Callable[[Any, Any], object] | None


def told(
    words: str,
    default: Any = MISSING,
    *,
    factory: Any = MISSING,
    digits: int | None = DIGITS,
    log: Logged | None = None,
    metric: Scraped | None = None,
    kept: bool = False,
    page: bool = True,
    outside: Callable[[Any], object] = lambda value: value,
    joined: Callable[[Any, Any], object] | None = None,
) -> Any:
    """Returns a dataclass field; see Told. Without `default` and `factory` it is required."""
    about = Told(words, digits, log, metric, kept, page, outside, joined)
    return field(default=default, default_factory=factory, metadata={_TOLD: about})


def told_of(entry: Field[Any]) -> Told:
    """Returns what `entry`, a field made by `told`, declares."""
    about: Told = entry.metadata[_TOLD]
    return about


def file_line(value: DataclassInstance) -> dict[str, object]:
    """Returns all fields, for the file."""
    return {entry.name: plain(getattr(value, entry.name), told_of(entry).digits) for entry in fields(value)}


def page_line(value: DataclassInstance) -> dict[str, object]:
    """Returns the fields that the page shows."""
    return {name: plain(outside(getattr(value, name))) for name, outside in _on_page(type(value))}


@cache
def _on_page(kind: type[DataclassInstance]) -> tuple[tuple[str, Callable[[Any], object]], ...]:
    found = ((entry.name, told_of(entry)) for entry in fields(kind))
    return tuple((name, about.outside) for name, about in found if about.page)


def kept_values(value: DataclassInstance) -> dict[str, object]:
    """Returns the fields that are stored when a round ends."""
    return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value) if told_of(entry).kept}


def joined_values(last: DataclassInstance, earlier: DataclassInstance) -> dict[str, object]:
    """Returns the fields that the sums of one round have together, made of the last one's and the others'."""
    found = ((entry.name, told_of(entry).joined) for entry in fields(last))
    return {name: join(getattr(last, name), getattr(earlier, name)) for name, join in found if join}


def log_line(value: DataclassInstance) -> dict[str, object]:
    """Returns the fields of the log's line, in their order there."""
    found = ((name, log, about.outside(getattr(value, name))) for name, log, about in logged(type(value)))
    return {name: plain(out, log.digits) for name, log, out in found if log.always or out not in (None, {})}


def logged(kind: type[DataclassInstance]) -> Iterator[tuple[str, Logged, Told]]:
    """Yields the names of the fields that the log tells, with how it does, in their order there."""
    found = [(entry.name, about.log, about) for entry in fields(kind) if (about := told_of(entry)).log]
    yield from sorted(found, key=lambda one: one[1].place)


def scraped(kind: type[DataclassInstance]) -> dict[str, Scraped]:
    """Returns the metrics of a kind's fields, by the fields' names: counters, then gauges."""
    found = {entry.name: metric for entry in fields(kind) if (metric := told_of(entry).metric)}
    return dict(sorted(found.items(), key=lambda one: not one[1].is_counter))
