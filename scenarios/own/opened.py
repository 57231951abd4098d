"""What `scenarios run` is given: a name of the catalogue, an import path, or a file."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from node.system.errors import ConfigError, shown
from node.task.import_path import import_object
from scenarios.frame.spec import Scenario
from scenarios.own.file import NAME, read_study
from scenarios.runs.run import scenario_of
from scenarios.study.sweep import Study


def opened(target: str) -> Scenario[Any, Any]:
    """What is at `package.module:NAME` (a Study or a Scenario) or of a study file. Raises ConfigError."""
    if target.endswith(".toml"):
        return scenario_of(read_study(Path(target)), target)
    found = import_object(target)
    match found:
        case Scenario():
            return found
        case Study():
            return scenario_of(checked(found, target), target)
    raise ConfigError(
        f"{shown(target)} is a {type(found).__name__}; allowed: a scenarios.study.sweep.Study or a Scenario"
    )


def checked(study: Study, target: str) -> Study:
    """`study`, if its names can be those of files and no two arms have one. Raises ConfigError."""
    for name in (study.name, *(arm.arm for arm in study.arms)):
        if not re.fullmatch(NAME, name):
            raise ConfigError(
                f"{target}: the name {shown(name)} is refused; allowed: letters, digits, '.', '_' and '-', "
                "at most 64"
            )
    counts = Counter(arm.arm for arm in study.arms)
    if not counts:
        raise ConfigError(f"{target}: the study has no arms; give it one or more")
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise ConfigError(f"{target}: {count} arms are called {name}; give each a name of its own")
    if study.seeds < 2:
        raise ConfigError(f"{target}: seeds = {study.seeds} is refused; allowed: 2 and more")
    return study
