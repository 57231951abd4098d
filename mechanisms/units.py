"""The units of privacy whose neighbours add or remove a row or a person."""

from __future__ import annotations

from mechanisms.accounting.ledger import Relation, Unit

_RECORD, _PERSON = "one record (row) of a node's data", "one person of a node's data, with all rows"

ONE_RECORD = Unit(f"{_RECORD}, over the run", Relation.ADD_REMOVE, "L2")
ONE_PERSON = Unit(f"{_PERSON}, over the run", Relation.ADD_REMOVE, "L2")
RECORD_AGREED = Unit(f"{_RECORD}, over the agreement", Relation.ADD_REMOVE, "L2")
PERSON_AGREED = Unit(f"{_PERSON}, over the agreement", Relation.ADD_REMOVE, "L2")


def noun_of(unit: Unit) -> str:
    """Returns what a sentence calls one of these units."""
    return "person" if unit in (ONE_PERSON, PERSON_AGREED) else "record (row)"
