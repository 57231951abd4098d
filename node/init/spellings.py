"""Words of a category or class that are one value in several spellings: East, east; m, male, männlich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from node.system.errors import shown

_SEXES = tuple(
    frozenset(words.split(" "))
    for words in (
        "m male man männlich maennlich mann masculin homme maschile masculino uomo hombre",
        "f w female woman weiblich frau féminin feminin femme femminile femenino donna mujer",
        "d x divers diverse other",
    )
)
"""Public lists, in five languages: a peer's own spelling may be another one."""

_LONG = 3  # letters: in shorter words case may mean something, as in the genes AA, Aa and aa


@dataclass(frozen=True)
class Spelt:
    """One value: its words in a file, its rows, and a public list of words for it; empty without one."""

    words: tuple[str, ...]
    rows: int
    public: frozenset[str]

    def spelling(self, value: str) -> tuple[str, ...]:
        """Returns `value` and all other words for it, in lower case and without frequencies: for a task."""
        folded = {word.casefold() for word in self.words} | self.public
        return (value, *sorted(folded - {value}))

    def told(self, value: str) -> str:
        """Returns the other words in the file, for its owner."""
        return ", ".join(shown(word) for word in self.words if word != value)


def alike(rows: Mapping[str, int]) -> Mapping[str, Spelt]:
    """Returns the values among words with so many `rows`, by their most common word."""
    folded = {word: word.casefold() for word in rows}
    lower_case = frozenset(folded.values())
    several = len([each for each in _SEXES if each & lower_case]) > 1
    public = _SEXES if several and lower_case <= frozenset().union(*_SEXES) else ()  # all are in these lists
    groups: dict[object, list[str]] = {}
    for word, lower in folded.items():
        same = next((each for each in public if lower in each), lower if len(word) >= _LONG else word)
        groups.setdefault(same, []).append(word)
    found = {}
    for group, words in groups.items():
        value = max(words, key=lambda word: (rows[word], word))
        known = group if isinstance(group, frozenset) else frozenset()
        found[value] = Spelt(tuple(sorted(words)), sum(rows[word] for word in words), known)
    return found


@dataclass(frozen=True)
class Named:
    """The spellings of some values for a task, None without any, and what an owner is told of them."""

    spellings: tuple[tuple[str, ...], ...] | None
    told: str


def named(found: Mapping[str, Spelt], values: Sequence[str]) -> Named:
    """Returns how `values`, some of those in `found`, are written, if a file has several words for one."""
    several = any(len(each.words) > 1 for each in found.values())
    chosen = [value for value in values if several and (found[value].public or len(found[value].words) > 1)]
    other = ((value, found[value].told(value)) for value in chosen)
    return Named(
        tuple(found[value].spelling(value) for value in chosen) or None,
        "; ".join(f"{shown(value)} is also written {words}" for value, words in other if words),
    )
