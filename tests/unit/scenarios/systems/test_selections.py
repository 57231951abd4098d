"""What claims, charts and tables select is there: every value that they name is one that an arm has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest

from scenarios.catalogue import SCENARIOS
from scenarios.frame.spec import judge
from scenarios.frame.stored import read_result
from scenarios.study.arms import OWN, Factors, Level, Line, Where, as_arm
from scenarios.study.sweep import Sweep

RESULTS = Path(__file__).resolve().parents[4] / "docs" / "results"
STUDIES = [name for name in SCENARIOS if name != "swarm"]


@dataclass(frozen=True)
class Asked(Sweep):
    """A sweep that keeps every factor and value that was asked for and that no arm of its study has."""

    unknown: set[tuple[str, Level]] = field(default_factory=set)

    def select(self, where: Where) -> tuple[str, ...]:
        self._keep(where)
        return super().select(where)

    def lines(self, over: str, where: Where, least: int = 2) -> tuple[Line, ...]:
        self._keep(where)
        return super().lines(over, where, least)

    def pairs(self, one: Where, other: Where) -> tuple[tuple[str, str], ...]:
        self._keep(one)
        self._keep(other)
        return super().pairs(one, other)

    def _keep(self, where: Where) -> None:
        known = levels({as_arm(arm).arm: as_arm(arm).factors for arm in self.study.arms})
        for name, wanted in where.items():
            each = [wanted] if isinstance(wanted, str | int | float) else wanted
            self.unknown.update((name, level) for level in each if (name, level) not in known)


def levels(factors: Mapping[str, Factors]) -> set[tuple[str, Level]]:
    own = [*factors.values(), OWN]
    return {(name, level) for one in own for name, level in one.items()}


@pytest.mark.parametrize("name", STUDIES)
def test_every_value_that_is_named_is_one_that_an_arm_has(name: str) -> None:
    scenario = SCENARIOS[name].load()
    stored = scenario.stored(read_result(RESULTS / f"{name}.json"))
    asked = Asked(**{one.name: getattr(stored, one.name) for one in fields(Sweep)})
    shown = scenario.presentation
    judge(shown.claims, asked)
    shown.charts(asked)
    shown.tables(asked)
    shown.headline(asked)
    assert asked.unknown == set()
