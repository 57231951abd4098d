"""What the command line may change of a study, checked: which arms, how many seeds, which engine.

`--set scenario.KEY=VALUE` is for the study, `--set ray.KEY=VALUE` for its engine, every other `--set` is a
key of a task and goes to all arms.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from node.system.distribution import NAME as DISTRIBUTION
from node.system.errors import ConfigError, shown
from node.task.load import overridden
from node.task.rules import Rule, key, plain_table, read_section, real, text, whole
from scenarios.clients.aggregators import aggregated_by
from scenarios.clients.attacks import own_attackers
from scenarios.data.sources import data_folder
from scenarios.engines.choice import ENGINES, EngineChoice, RaySection
from scenarios.engines.room import LocalRoom
from scenarios.federated.cell import FederatedCell
from scenarios.frame.spec import Json, Request
from scenarios.study.arms import OWN, Arm, as_arm
from scenarios.study.cells import Cell
from scenarios.study.sweep import Study

OPTIONS = frozenset({"peers", "rounds", "seed", "engine", "jobs", "data_dir", "out", "quick", "overrides"})
_MOST_JOBS = 256
_LARGEST_SEED = 2**31


def _patterns(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts:
        raise ValueError
    if not all(isinstance(part, str) and part.strip() for part in parts):
        raise ValueError
    return tuple(part.strip() for part in parts)


_MECHANISM = "the name of a mechanism, such as 'fedadam', or 'package.module:Class'"
_arguments = plain_table("a table of text, numbers, booleans, lists")


def _figure(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    figure = float(value)  # TOML takes ".9" for text
    if not (math.isfinite(figure) and figure > 0):
        raise ValueError
    return figure


_ARMS = Rule("names of arms, or patterns such as 'eps10-*', separated by commas", _patterns)


@dataclass(frozen=True)
class StudySection:
    """The keys of `scenario.`.

    `mechanism` adds the arm "own", made with `parameters`; `aggregator` adds one whose server aggregates with
    the user's function. With `attack`, a share `attackers` of the clients attacks, in all arms. `target`: a
    figure; the report says when each arm reaches it.
    """

    arms: tuple[str, ...] | None = key(_ARMS, None)
    seeds: int | None = key(whole(2, 1000, because=", as a mean needs its standard error"), None)
    mechanism: str | None = key(text(_MECHANISM, r"[\w-]+|[\w.]+:[\w.]+"), None)
    parameters: Mapping[str, Any] = key(_arguments, factory=dict)
    aggregator: str | None = key(text("'package.module:function'", r"[\w.]+:[\w.]+"), None)
    aggregator_parameters: Mapping[str, Any] = key(_arguments, factory=dict)
    attack: str | None = key(text("'package.module:Class'", r"[\w.]+:[\w.]+"), None)
    attack_parameters: Mapping[str, Any] = key(_arguments, factory=dict)
    attackers: float = key(real(above=0, at_most=1), 0.2)
    target: float | None = key(Rule("a number above 0, such as 0.9", _figure), None)


@dataclass(frozen=True)
class StudyRun:
    """A study that can be run: what the command line asked for, checked.

    arms: templates, changed as asked; seeds: one after the other from the first; given: the arguments that
    ask for the same again; target: see `Sweep`.
    """

    study: Study
    arms: tuple[Arm | Cell, ...]
    seeds: tuple[int, ...]
    engine: EngineChoice
    data_dir: Path
    given: tuple[str, ...]
    target: float | None = None

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Seed by seed, so that a run that is stopped has whole seeds."""
        return tuple(as_arm(arm).cell.seeded(seed) for seed in self.seeds for arm in self.arms)


def study_run(study: Study, request: Request) -> StudyRun:
    """The run that a request asks for. Raises ConfigError, also where a data set is missing or damaged."""
    table = overridden(request.overrides or ())
    own = read_section(StudySection, "scenario", table.pop("scenario", {}))
    ray = read_section(RaySection, "ray", table.pop("ray", {}))
    engine = chosen_engine(request, ray, ENGINES[0])
    seeds = _seeds(study, request, own)
    chosen = (_changed(arm, request, table, study) for arm in _chosen(study, request, own))
    arms = tuple(_attacked(arm, own) for arm in chosen)
    data_dir = data_folder(request.data_dir, os.environ)
    room = LocalRoom(data_dir)
    for name in study.data_sets:
        room.either(name, seeds[0])
    for arm in arms:
        try:
            as_arm(arm).cell.seeded(seeds[0]).check(room)
        except ConfigError as error:
            raise ConfigError(f"{arm.arm}: {error}") from error
    return StudyRun(study, arms, seeds, engine, data_dir, _given(request), own.target)


def chosen_engine(request: Request, ray: RaySection, usual: str) -> EngineChoice:
    """The engine that a request asks for; `usual`: the one if it names none. Raises ConfigError."""
    name, jobs = request.engine or usual, request.jobs
    if name != "ray" and ray != RaySection():
        raise ConfigError(f"--set ray.*: engine {name} has no such keys; they go with --engine ray")
    if name == "ray" and find_spec("ray") is None:
        raise ConfigError(
            f"--engine ray: Ray is not installed; `pip install '{DISTRIBUTION}[ray]'`, "
            "or take --engine inline"
        )
    if ray.working_dir is not None and not Path(ray.working_dir).is_dir():
        raise ConfigError(f"ray.working_dir = {shown(ray.working_dir)} is no folder; give one that is there")
    if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
        raise ConfigError(f"--jobs {jobs}: allowed are 1 to {_MOST_JOBS} cells side by side")
    return EngineChoice(name, jobs, ray)


def _seeds(study: Study, request: Request, own: StudySection) -> tuple[int, ...]:
    first = 0 if request.seed is None else request.seed
    if not 0 <= first <= _LARGEST_SEED:
        raise ConfigError(f"--seed {first}: allowed are 0 to {_LARGEST_SEED}")
    usual = study.quick.seeds if request.quick else study.seeds
    return tuple(range(first, first + (usual if own.seeds is None else own.seeds)))


def _chosen(study: Study, request: Request, own: StudySection) -> tuple[Arm | Cell, ...]:
    """The arms that were asked for by name, else those of the study's form; and the user's own."""
    patterns = own.arms or (study.quick.arms if request.quick else study.usual)
    for pattern in patterns:
        if not any(fnmatchcase(arm.arm, pattern) for arm in study.arms):
            known = ", ".join(arm.arm for arm in study.arms)
            raise ConfigError(f"scenario.arms = {shown(pattern)} is no arm of {study.name}; allowed: {known}")
    arms = tuple(arm for arm in study.arms if any(fnmatchcase(arm.arm, pattern) for pattern in patterns))
    return (*arms, *_own_arms(study, own))


def _own_arms(study: Study, own: StudySection) -> tuple[Arm, ...]:
    """The arm with the user's own mechanism or aggregator, if one was asked for."""
    if own.mechanism is None and own.parameters:
        raise ConfigError("scenario.parameters has no effect without scenario.mechanism; name one")
    if own.aggregator is None and own.aggregator_parameters:
        raise ConfigError(
            "scenario.aggregator_parameters has no effect without scenario.aggregator; name one"
        )
    if own.mechanism is None and own.aggregator is None:
        return ()
    if own.mechanism is not None and own.aggregator is not None:
        raise ConfigError("scenario.mechanism and scenario.aggregator are both given; give one of them")
    if study.own is None:
        name = "aggregator" if own.mechanism is None else "mechanism"
        raise ConfigError(f"scenario.{name}: study {study.name} makes no arm of it; add an arm to the study")
    if own.mechanism is not None:
        return (Arm(study.own(own.mechanism, own.parameters), OWN),)
    server = aggregated_by(str(own.aggregator), own.aggregator_parameters)
    return (Arm(study.own(server.path, server.parameters), OWN),)


def _attacked(arm: Arm | Cell, own: StudySection) -> Arm | Cell:
    """The arm with the user's own attack among its clients. Raises ConfigError."""
    if own.attack is None:
        if own.attack_parameters or own.attackers != StudySection.attackers:
            raise ConfigError(
                "scenario.attackers and scenario.attack_parameters have no effect without scenario.attack; "
                "name one"
            )
        return arm
    cell, factors = as_arm(arm).cell, as_arm(arm).factors
    if not isinstance(cell, FederatedCell):
        raise ConfigError(
            f"scenario.attack: arm {arm.arm} has no clients of a server, which attack; leave it out by "
            "naming others in scenario.arms"
        )
    attackers = own_attackers(own.attack, own.attack_parameters, own.attackers)
    return Arm(replace(cell, attackers=attackers), factors)


def _changed(arm: Arm | Cell, request: Request, table: Mapping[str, Any], study: Study) -> Arm | Cell:
    rounds = request.rounds
    if rounds is None and request.quick:
        rounds = study.quick.rounds
    if rounds is not None:
        if rounds < 1:
            raise ConfigError(f"--rounds {rounds}: allowed are 1 and more")
        arm = arm.lasting(rounds)
    if request.peers is not None:
        if request.peers < 1:
            raise ConfigError(f"--peers {request.peers}: allowed are 1 and more")
        arm = arm.among(request.peers)
    return arm.changed(table) if table else arm


def _given(request: Request) -> tuple[str, ...]:
    numbers = {"--peers": request.peers, "--rounds": request.rounds, "--seed": request.seed}
    options = [text for name, value in numbers.items() if value is not None for text in (name, str(value))]
    if request.engine is not None:
        options += ["--engine", request.engine]
    if request.quick:
        options.append("--quick")
    return (*options, *(text for override in request.overrides or () for text in ("--set", override)))


def described(run: StudyRun) -> Json:
    """The configuration as JSON; two runs with the same may share a folder, whatever --jobs and target."""
    return {
        "seed": run.seeds[0],
        "seeds": len(run.seeds),
        "engine": run.engine.name,
        "arms": {arm.arm: as_arm(arm).cell.describe() for arm in run.arms},
    }
