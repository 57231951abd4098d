"""The parameters that all peers of a swarm must share, as canonical text, and their differences in words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from node.system.errors import one_line
from node.task.data_schema import agreed_schema
from node.task.round_length import replaced_length
from node.task.rules import shared_values
from node.task.sections import LEAST_RATE, Task
from node.task.shared_noise_keys import SHARED_NOISE_KEYS, is_distributed
from protocol.vectors.ring import WIDE

NOTHING_FIXED: Mapping[str, Any] = MappingProxyType({})
_UNSET = (
    ("train", "proximal", 0.0),
    ("aggregation", "least_rate", LEAST_RATE),
    ("aggregation", "liars", None),
    ("aggregation", "bits", WIDE.bits),
    ("data", "person", None),
    ("privacy", "rows_per_person", None),
)
_SOURCE = '"window_source":'
_ROSTER = "roster"
_AGAIN = "again"
_DIGITS = re.compile(r"[0-9a-f]{64}")
_SHOWN_DIGITS = 4
_MOST_DIFFERENCES = 3
_LISTS = (
    "shapes",
    "data.schema.columns",
    "estimator.columns",
    "estimator.declared.columns",
)  # lists that are compared item by item
_IN_WORDS = {
    "model.initial": "the learner's first numbers are not those there (draw them from task.seed, or give all "
    "members the same model.weights)"
}
"""Of keys whose values say nothing."""
_LONGEST_PARAMETERS = 1 << 18  # characters; a few thousand shared tensors


def canonical_parameters(
    task: Task,
    shapes: Sequence[tuple[str, tuple[int, ...]]],
    bound: float | None,
    digests: Mapping[str, str] = NOTHING_FIXED,
    computed: Mapping[str, float] = NOTHING_FIXED,
    roster: bytes | None = None,
    again: int = 0,
) -> str:
    """Returns canonical JSON of all values that must be equal in a swarm: sorted keys, no spaces, ASCII.

    `shapes` are the names and shapes of the shared parameters, in the vector's order; `bound` is the limit of
    an offer's coordinates, None if it has none; `digests` are those of initial tensors that must be equal;
    `computed` are values that the mechanism computed from `[privacy]`; `roster` is the digest of the members'
    list in a swarm made by invitation, so that nodes with different lists do not meet; `again`: how often a
    job without noise was begun anew without members that are gone, so that these do not meet it. The JSON
    leaves out what a node may choose for itself (its data, its timeouts) the agreement on scales, which
    is over, and statistics.
    """
    agreed: dict[str, Any] = {entry.name: shared_values(getattr(task, entry.name)) for entry in fields(task)}
    del agreed["agreement"], agreed["statistics"]
    schema = agreed["data"].pop("schema")
    if schema is not None:
        agreed["data"]["schema"] = agreed_schema(schema)
    agreed["model"] |= digests
    agreed["privacy"] |= computed
    if bound is not None:
        agreed["privacy"]["offer_bound"] = bound
    agreed["privacy"]["window_source"] = task.privacy.radius_follows
    agreed["privacy"]["rows_per_person"] = task.rows_per_person  # what is meant, set or not
    del agreed["privacy"]["public_radius"]  # follows from the mechanism and its radius
    if not is_distributed(task):  # as before there were such keys: nodes continue with their folders
        for section, name in SHARED_NOISE_KEYS:
            del agreed[section][name]
    del agreed["train"][replaced_length(task.train)]  # likewise, and it has no effect
    for name in task.aggregation.unused:  # likewise
        del agreed["aggregation"][name]
    for section, name, unset in _UNSET:  # likewise
        if agreed[section][name] == unset:
            del agreed[section][name]
    if not task.counts_with_noise:  # likewise
        del agreed["privacy"]["metric_share"]
    agreed["shapes"] = [[name, list(shape)] for name, shape in shapes]
    if roster is not None:
        agreed[_ROSTER] = roster.hex()
    if again:
        agreed[_AGAIN] = again
    return json.dumps(agreed, sort_keys=True, separators=(",", ":"), allow_nan=False)


def former_parameters(task: Task, parameters: str) -> dict[str, str]:
    """Returns the parameters with which an earlier version ran this task, each with what continues it."""
    if task.privacy.mechanism != "aldp" or task.privacy.radius_follows != "aggregate":
        return {}
    former = parameters.replace(f'{_SOURCE}"aggregate"', f'{_SOURCE}"raw"')
    return {
        former: "its aldp followed the norms of your own updates, which no epsilon covers; to go on with it, "
        "set privacy.window_source=raw and privacy.public_radius=true at all peers, or name another folder"
    }


def describe_difference(mine: str, theirs: str) -> str:
    """Returns why two nodes do not fit: the first dotted keys that differ, with both values.

    Both are `canonical_parameters`, but `theirs` may be any text; the result is one line of bounded length.
    """
    try:
        here, there = _flat(json.loads(mine)), _flat(_parsed(theirs))
    except (ValueError, RecursionError):
        return "the other's parameters cannot be read"
    differing = [name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)]
    if not differing:
        return "the parameters are the same"
    told = []
    for name in differing[:_MOST_DIFFERENCES]:
        ours, its = (_clipped(side.get(name, "absent")) for side in (here, there))
        told.append(_IN_WORDS.get(name) or f"{_clipped(name)} is {ours} here and {its} there")
    more = len(differing) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def has_section(parameters: str, name: str) -> bool:
    """Returns whether there is a section of this name in a peer's parameters, which may be any text."""
    try:
        return name in _parsed(parameters)
    except (ValueError, RecursionError):
        return False


def describe_lists(who: str, mine: str, theirs: str) -> str:
    """Returns the line about a peer, `who`, with another list of members; empty if the lists are the same.

    Both texts are as those of `describe_difference`.
    """
    try:
        here, there = _list_of(json.loads(mine)), _list_of(_parsed(theirs))
    except (ValueError, RecursionError):
        return ""
    if here == there:
        return ""
    runs = f"with the list {there}" if there else "without a list"
    return f"another list: {who} runs {runs}, you {f'with {here}' if here else 'without one'}"


def begun_ahead(mine: str, theirs: str) -> int:
    """Returns how often more a peer's job was begun anew than one's own; below 0: less often.

    Both texts are as those of `describe_difference`.
    """
    try:
        here, there = (table.get(_AGAIN, 0) for table in (json.loads(mine), _parsed(theirs)))
    except (ValueError, RecursionError):
        return 0
    return there - here if isinstance(there, int) else 0


def describe_again(who: str, mine: str, theirs: str) -> str:
    """Returns the line about a peer, `who`, whose job was begun anew more or less often; else "".

    Both texts are as those of `describe_difference`.
    """
    ahead = begun_ahead(mine, theirs)
    if ahead == 0:
        return ""
    if ahead > 0:
        return (
            f"{who} has begun another job, without members that were gone: end this node (Ctrl-C) and start "
            "it with --again to get its result"
        )
    return f"{who} has the job that this one was begun anew from: it must start with --again to take part"


def _list_of(parameters: Mapping[str, Any]) -> str:
    """Returns the first digits of the list's digest; empty if there is no list, or no digest of one."""
    digits = parameters.get(_ROSTER)
    if not isinstance(digits, str) or not _DIGITS.fullmatch(digits):
        return ""
    return f"{digits[:_SHOWN_DIGITS]}…"


def _parsed(theirs: str) -> dict[str, Any]:
    """Returns the JSON object in `theirs`; raises ValueError if it is too long or not an object."""
    if len(theirs) > _LONGEST_PARAMETERS:
        raise ValueError
    table = json.loads(theirs)
    if not isinstance(table, dict):
        raise ValueError
    return table


def _flat(value: object, name: str = "") -> dict[str, str]:
    """Returns leaves as JSON: of tables by dotted key, of the lists of shapes and columns by number."""
    match value:
        case dict() if value:
            items = [(str(part), item) for part, item in value.items()]
        case list() if name in _LISTS:
            items = [(str(number), item) for number, item in enumerate(value)]
        case _:
            return {name: json.dumps(value, sort_keys=True)}
    leaves: dict[str, str] = {}
    for part, item in items:
        leaves |= _flat(item, f"{name}.{part}" if name else part)
    return leaves


def _clipped(text: str) -> str:
    """Returns `text` on one line of at most 48 characters."""
    line = one_line(text)
    return line if len(line) <= 48 else line[:45] + "..."
