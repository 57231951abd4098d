"""Judges the claims of a stored result.json again, by the claims of this version, without training anything.

A result holds the figures of every arm and seed, so claims that were reworded or judged in another way since
then need no new run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.errors import ConfigError
from scenarios.frame.spec import Json, Judged, Scenario, claims_json, judge

_LAST = ("method", "arms", "claims")


def read_result(path: Path) -> dict[str, Any]:
    """A stored result with its scenario's name under "scenario". Raises ConfigError if it is none."""
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
    claims = judge(scenario.claims, results)
    again = {**result, "headline": scenario.headline(results), "method": scenario.method}
    again["claims"] = claims_json(claims)
    return _in_order(again), claims


def _in_order(result: Mapping[str, Any]) -> Json:
    """The keys as a run writes them: the long ones last."""
    first = {key: value for key, value in result.items() if key not in _LAST}
    return {**first, **{key: result[key] for key in _LAST}}
