"""Made-up sweeps of the systems' studies. The TOML file of a system says what its arms reached:

    [figures]       from a pattern of arms to their figure, or a list with one for each in study order
    [facts]         from a pattern of arms to their facts, on top of what cells say
    [offsets]       from a pattern to facts that are the figure plus a number; [series]: to series
    spread, moving  what each seed adds: to figures, to offsets, and to facts that match these patterns

Later patterns win. A change has the same form: `{"ldp-*" = 0.5}` gives arms another figure, and `{ldp-10 =
{epsilon = 9}}` another fact; `figure` is one of them. Changed arms vary with the seeds the other way, so that
differences from others do. The fact "none" is None.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from mechanisms.servers.server import Federation
from scenarios.federated.cell import FederatedCell
from scenarios.federated.rounds import protection_facts
from scenarios.inference.inversion import FOUND, TRUTH, InversionCell
from scenarios.study.arms import Arm, as_arm
from scenarios.study.cells import Fact, Outcome
from scenarios.study.sweep import FINAL, Study, Sweep
from scenarios.swarms.cells import SwarmCell
from scenarios.systems.aldp.claims import STUDY as ALDP
from scenarios.systems.attacks.claims import STUDY as ATTACKS
from scenarios.systems.distributed_dp.claims import STUDY as DISTRIBUTED_DP
from scenarios.systems.dp_fedavg.claims import STUDY as DP_FEDAVG
from scenarios.systems.label_dp.claims import STUDY as LABEL_DP
from scenarios.systems.mechanisms.claims import STUDY as MECHANISMS
from scenarios.systems.nbafl.claims import STUDY as NBAFL
from scenarios.systems.rpfl.study import STUDY as RPFL
from scenarios.systems.tables.claims import STUDY as TABLES
from scenarios.vertical.cell import VerticalCell, protection_of

Change = Mapping[str, Any]
SMALL = 0.05
"""Below this a figure is an error, not an accuracy: seeds add a share of it."""


@dataclass(frozen=True)
class System:
    """A study with its made-up figures."""

    study: Study

    @cached_property
    def told(self) -> Mapping[str, Any]:
        name = self.study.name.replace("-", "_")
        return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))

    @cached_property
    def arms(self) -> Mapping[str, Arm]:
        return {one.arm: as_arm(one) for one in self.study.arms}

    @cached_property
    def figures(self) -> Mapping[str, float]:
        found = by_arm(self.told["figures"], self.arms)
        return {name: found[name] for name in self.arms if name in found}

    @cached_property
    def facts(self) -> Mapping[str, Mapping[str, Fact]]:
        known = {name: self._protection(one) for name, one in self.arms.items() if name in self.figures}
        for pattern, facts in self.told.get("facts", {}).items():
            for fact, value in facts.items():
                for name, own in by_arm({pattern: value}, known).items():
                    known[name][fact] = None if own == "none" else own
        return known

    def _protection(self, one: Arm) -> dict[str, Fact]:
        """As an engine says it; of peers, that what is stated is spent."""
        cell, federation = one.cell, self.told.get("federation")
        if isinstance(cell, VerticalCell):
            return protection_of(cell)
        if isinstance(cell, FederatedCell) and federation is not None:
            clients = cell.clients.count
            rows = ((cell.rows.most or federation["rows"]) // clients,) * clients
            mechanism = cell.mechanism.make(Federation(rows, cell.rounds, tuple(federation["parameters"])))
            return {**protection_facts(mechanism), **mechanism.figures}
        stated = cell.task.privacy.epsilon if isinstance(cell, SwarmCell) else one.factors.get("epsilon")
        if stated is None or one.factors.get("mechanism") == "none":
            return {"epsilon": None, "stated": None, "delta": None, "unit": None, "protects": "nothing"}
        return {"epsilon": stated, "stated": stated, "delta": 1e-5, "unit": "one record", "protects": "rows"}

    def sweep(
        self,
        change: Change | None = None,
        only: Iterable[str] = ("*",),
        more: Sequence[tuple[Arm, float]] = (),
        spread: float = 1.0,
    ) -> Sweep:
        """A sweep of the arms that match `only`, and of `more`; seeds add `spread` times as much."""
        changed: dict[str, dict[str, Any]] = {}
        for pattern, value in (change or {}).items():
            for name in by_arm({pattern: 0}, self.figures):
                changed[name] = value if isinstance(value, dict) else {FINAL: value}
        there = [name for name in self.figures if any(fnmatchcase(name, one) for one in only)]
        outcomes = {name: self._outcomes(name, changed.get(name, {}), spread) for name in there}
        arms = [self.arms[name] for name in there]
        for arm, figure in more:
            known = self._protection(arm)
            outcomes[arm.arm] = tuple(Outcome((0.1, figure + off), known, 2.0) for off in self.told["spread"])
            arms.append(arm)
        return Sweep(self.study, tuple(range(len(self.told["spread"]))), tuple(arms), outcomes)

    def _outcomes(self, name: str, changed: Mapping[str, Any], times: float) -> tuple[Outcome, ...]:
        figure = changed.get(FINAL, self.figures[name])
        offsets = {
            fact: figure + by
            for pattern, facts in self.told.get("offsets", {}).items()
            if fnmatchcase(name, pattern)
            for fact, by in facts.items()
        }
        series = {
            fact: tuple(row)
            for pattern, rows in self.told.get("series", {}).items()
            if fnmatchcase(name, pattern)
            for fact, row in rows.items()
        }
        if isinstance(self.arms[name].cell, InversionCell):
            series = {TRUTH: (0.5,) * 64, FOUND: (0.25,) * 64}
        facts = {**self.facts[name], **offsets, **{fact: x for fact, x in changed.items() if fact != FINAL}}
        moving = {fact for fact in facts if matches_any(fact, (*offsets, *self.told.get("moving", ())))}
        outcomes = []
        for spread in self.told["spread"]:
            off = times * (-spread if {FINAL, *moving} & {*changed} else spread)
            moved = {fact: value + off if fact in moving else value for fact, value in facts.items()}
            last = figure + off * (figure if abs(figure) < SMALL else 1)
            outcomes.append(Outcome((0.1, last), moved, 2.0, series))
        return tuple(outcomes)


def by_arm(table: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The value of each arm that a pattern of the table matches; each pattern matches one or more."""
    found: dict[str, Any] = {}
    for pattern, value in table.items():
        there = [name for name in names if fnmatchcase(name, pattern)]
        assert there, f"{pattern} matches no arm"
        found |= zip(there, value if isinstance(value, list) else [value] * len(there), strict=True)
    return found


def matches_any(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


SYSTEMS = {
    study.name: System(study)
    for study in (ALDP, ATTACKS, DISTRIBUTED_DP, DP_FEDAVG, LABEL_DP, MECHANISMS, NBAFL, RPFL, TABLES)
}
