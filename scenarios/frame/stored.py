"""Stored results: their files, and their claims judged again by this version, without training anything.

A result holds the figures of every arm and seed, so claims that were reworded or judged in another way since
then need no new run. A run writes it whole, as one result.json. A result that is kept for good is packed:
NAME.json has what people read, NAME.parquet the seeds (scenarios.frame.packed) in a tenth of the space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from node.system.errors import ConfigError
from scenarios.frame.folder import write_bytes, write_json
from scenarios.frame.spec import Json, Judged, Scenario, claims_json, judge

_LAST = ("method", "arms", "claims")
_SEEDS = "seeds sha256"
"""The key of a packed result: the SHA-256 of the .parquet beside it."""


def read_result(path: Path) -> dict[str, Any]:
    """A stored result, whole or packed, with its scenario's name under "scenario".

    Raises ConfigError if it is none, or if its .parquet is missing or another.
    """
    found = _text(path)
    if _SEEDS not in found:
        return found
    from scenarios.frame.packed import BROKEN, unpack  # noqa: PLC0415  loads pyarrow

    digest, beside = found.pop(_SEEDS), path.with_suffix(".parquet")
    try:
        file = beside.read_bytes()
        if sha256(file).hexdigest() == digest:
            return unpack(found, file)
    except BROKEN:
        pass
    raise ConfigError(f"{beside} does not hold the seeds of {path.name}; restore the two files of one run")


def write_packed(path: Path, result: Json) -> None:
    """Write a result to `path` and the .parquet beside it; that one stays if it holds the same.

    Raises ConfigError for a result that is not of a study.
    """
    from scenarios.frame.packed import BROKEN, pack, unpack  # noqa: PLC0415  loads pyarrow

    try:
        rest, file = pack(result)
    except BROKEN:
        raise ConfigError(f"{path}: the result has no arms with seeds; give one of a study") from None
    beside = path.with_suffix(".parquet")
    with suppress(*BROKEN):
        there = beside.read_bytes()
        file = there if unpack(rest, there) == result else file
    write_bytes(beside, file)
    write_json(path, {**rest, _SEEDS: sha256(file).hexdigest()})


def write_again(path: Path, result: Json) -> None:
    """Write a result in place of the one in `path`: packed if that is packed, else whole."""
    write = write_packed if _SEEDS in _text(path) else write_json
    write(path, result)


def _text(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
        if isinstance(found["scenario"], str) and isinstance(found["arms"], dict):
            return dict(found)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ConfigError(f"{path} is no result.json of a scenario; give one that a run wrote")


def judged_again(scenario: Scenario[Any, Any], result: Json) -> tuple[Json, tuple[Judged, ...]]:
    """The result with its headline and claims as this version has them; and these claims.

    Raises ConfigError if this version cannot read it, such as for an arm that the scenario no longer has.
    """
    if scenario.stored is None:
        raise ConfigError(f"scenario {scenario.name} cannot be judged again from its result; run it again")
    try:
        results = scenario.stored(result)
    except (KeyError, TypeError, ValueError, StopIteration, AttributeError):
        raise ConfigError(
            f"a result of scenario {scenario.name} lacks what this version reads; run it again"
        ) from None
    shown = scenario.presentation
    claims = judge(shown.claims, results)
    again = {**result, "headline": shown.headline(results), "method": shown.method}
    again["claims"] = claims_json(claims)
    return _in_order(again), claims


def _in_order(result: Mapping[str, Any]) -> Json:
    """The keys as a run writes them: the long ones last."""
    first = {key: value for key, value in result.items() if key not in _LAST}
    return {**first, **{key: result[key] for key in _LAST}}
