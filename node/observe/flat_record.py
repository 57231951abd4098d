"""A line of history as one level of names, for tables and for programs that plot figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Plain = str | int | float | bool | None


def flat(record: Mapping[str, object]) -> dict[str, Plain]:
    """Returns the record with dotted names: `metrics.auc`; the items of a list stand in one text."""
    return dict(_flat(record, ""))


def numbers(record: Mapping[str, object]) -> dict[str, float]:
    """Returns the numbers of the record, by dotted names; what is not a number is left out."""
    return {
        name: float(value)
        for name, value in flat(record).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _flat(value: object, name: str) -> Iterator[tuple[str, Plain]]:
    match value:
        case Mapping():
            for key, item in value.items():
                yield from _flat(item, f"{name}.{key}" if name else str(key))
        case list() | tuple():
            yield name, " ".join(map(str, value))
        case str() | int() | float() | None:
            yield name, value
        case _:
            yield name, str(value)
