"""Reads a task, built-in or from a file, and applies the overrides of the command line."""

from __future__ import annotations

import copy
import importlib.resources
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, get_type_hints

from node.cli.overrides import Override, apply_override, parse_override
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown
from node.task.combinations import check_cells, check_combinations
from node.task.dialect import cells_rule
from node.task.privacy_off import privacy_note, without_noise
from node.task.round_length import chosen_length
from node.task.rules import read_section, unknown_name
from node.task.sections import BUILT_IN_SOURCES, NO_MODEL, PACKAGE, Task
from node.task.shared_noise_keys import resolved
from node.task.table_models import with_model_keys


@dataclass(frozen=True)
class Loaded:
    """A task, and a line about its privacy if that was switched off; "" if there is nothing to say."""

    task: Task
    privacy_note: str


def built_in_tasks() -> dict[str, Traversable]:
    """Returns the task files of the package, by name."""
    folder = importlib.resources.files("node").joinpath("tasks")
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


def load_task(name_or_path: str, overrides: Sequence[str]) -> Task:
    """Returns the task `name_or_path` (a built-in name or FILE.toml) with `overrides` applied.

    Overrides are `section.key=value`, the value in TOML syntax or a bare word. A relative `data.source` is
    relative to the task file, in an override to the working directory. If one of them switches privacy off,
    keys that suit its noise change too (node.task.privacy_off). Raises ConfigError.
    """
    return load_changed_task(name_or_path, [parse_override(override, "--set") for override in overrides]).task


def load_changed_task(name_or_path: str, overrides: Sequence[Override]) -> Loaded:
    """Does the same with overrides from several places; later ones win, and an error names the place."""
    table = _read_table(name_or_path)
    try:
        changed = _changed(table, overrides)
        return Loaded(read_task(changed), privacy_note(table, changed))
    except ConfigError as error:
        place = _to_blame(table, overrides, str(error))
        if place in (None, "--set"):
            raise
        raise ConfigError(f"{place}: {error}") from None


def _changed(table: Mapping[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """Returns a copy of `table` with the overrides applied, and what follows from them for other keys."""
    changed = copy.deepcopy(dict(table))
    for override in overrides:
        apply_override(changed, override)
    asked = {override.path[:2] for override in overrides}
    return chosen_length(without_noise(table, changed, asked), asked)


def _to_blame(table: Mapping[str, Any], overrides: Sequence[Override], complaint: str) -> str | None:
    """Returns the place of the first override that leads to `complaint`; None for the task itself."""
    if complaint.startswith(tuple(override.where for override in overrides)):
        return None  # the complaint names its place already
    blamed: str | None = None
    for count in range(len(overrides), -1, -1):
        try:
            read_task(_changed(table, overrides[:count]))
        except ConfigError as error:
            if str(error) == complaint:
                blamed = overrides[count - 1].where if count else None
                continue
        break
    return blamed


def overridden(overrides: Sequence[str]) -> dict[str, Any]:
    """Returns the table that each `section.key=value` changes. ConfigError for a malformed override."""
    table: dict[str, Any] = {}
    for override in overrides:
        apply_override(table, parse_override(override, "--set"))
    return table


def read_task(table: Mapping[str, object]) -> Task:
    """Returns the Task that a parsed TOML `table` describes; raises ConfigError."""
    sections = get_type_hints(Task)
    for given in table:
        if given not in sections:
            raise unknown_name("section", given, given, list(sections))
    tables = {name: table.get(name, {}) for name in sections}
    read = {name: read_section(sections[name], name, tables[name]) for name in _read_of(table, sections)}
    task = Task(**{"model": NO_MODEL, **read})
    check_combinations(task, table)
    return resolved(with_model_keys(task, table), table)


def _read_of(table: Mapping[str, object], sections: Mapping[str, type]) -> list[str]:
    """Returns the sections to read: without a model, those of a task for statistics alone."""
    if "model" in table or "statistics" not in table:
        return list(sections)
    if "train" in table:
        raise ConfigError(
            "train has no effect without [model]: the task is for its [statistics] alone; leave it out, or "
            "add [model]"
        )
    return [name for name in sections if name != "model"]


def with_cells(task: Task, table: Mapping[str, object], place: str) -> Task:
    """Returns `task` for a file whose cells are written as `table` says; raises ConfigError."""
    try:
        changed = replace(task, data=replace(task.data, cells=cells_rule().accept(table)))
        check_cells(changed.data)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None
    return changed


def read_kept_task(table: Mapping[str, Any]) -> Task:
    """Returns the Task of a file that a node wrote; raises ConfigError.

    Before there was `privacy.public_radius`, a task with a radius of raw norms did not say that it is public.
    """
    privacy = table.get("privacy", {})
    showed = privacy.get("mechanism") == "aldp" and privacy.get("window_source") == "raw"
    return read_task({**table, "privacy": {"public_radius": True, **privacy}} if showed else table)


def _read_table(name_or_path: str) -> dict[str, Any]:
    """Returns the parsed TOML of a built-in task or of a file."""
    built_in = built_in_tasks()
    if name_or_path in built_in:
        return tomllib.loads(built_in[name_or_path].read_text("utf-8"))
    if not name_or_path.endswith(".toml"):
        raise ConfigError(
            f"task {shown(name_or_path)} is not known; allowed: {', '.join(built_in)}, or a FILE.toml"
        )
    path = Path(name_or_path)
    try:
        check_regular(path)
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"task file {shown(str(path))} cannot be read: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"task file {shown(str(path))} is not valid TOML: {reason(error)}") from None
    for section, name in (("data", "source"), ("data", "encoder"), ("model", "weights")):
        _anchor(table, section, name, path.parent)
    return table


def _anchor(table: dict[str, Any], section: str, name: str, folder: Path) -> None:
    """Resolves a relative path in a task file against that file's folder."""
    values = table.get(section)
    path = values.get(name) if isinstance(values, dict) else None
    if isinstance(path, str) and path and path not in BUILT_IN_SOURCES and not path.startswith(PACKAGE):
        table[section] = {**table[section], name: str(folder / path)}
