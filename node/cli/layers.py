"""Where an option's value comes from: command line, then environment, then a file, then its default.

Every option of a parser can be given in all three ways. In the environment `--log-level` is PREFIX_LOG_LEVEL,
in the file `log-level`. Each value goes through the parser as if it had been typed, and keeps the name of its
place, so that an error can name it.
"""

from __future__ import annotations

import argparse
import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.cli.options import option, values
from node.cli.overrides import Override, leaves, parse_override
from node.cli.parser import NodeParser
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CONFIG = "config"
_TASK_KEYS = "set"
_MOST_BYTES = 1 << 20
_SWITCHES = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Layered:
    """The options by their names in the parser; None for an option without a value and without a default.

    `where` holds the place of each given value: "--listen", "MURMURATION_NODE_LISTEN" or
    "listen in node.toml". `overrides` are all values of --set, the weakest first.
    """

    values: argparse.Namespace
    where: Mapping[str, str]
    overrides: tuple[Override, ...]

    def place(self, name: str) -> str:
        """Returns where `name`, an option's name in the parser, was given; if nowhere, the option itself."""
        return self.where.get(name, f"--{name.replace('_', '-')}")

    def read(self, kind: type[DataclassInstance]) -> dict[str, Any]:
        """Returns the fields of `kind` that are options. Raises ConfigError, which names the place."""
        return values(kind, vars(self.values), self.place)


@dataclass(frozen=True)
class _Layer:
    """The values of one layer by destination, with the name of each value's place."""

    values: Mapping[str, Any]
    where: Mapping[str, str]
    overrides: tuple[Override, ...]


def config_option(prefix: str) -> Any:
    """Returns the field of the option that names the file."""
    return option(
        "a file with options, by their names without the dashes. The command line overrides "
        f"{prefix}_OPTION in the environment, which overrides the file, which overrides the default. "
        "Default: none",
        metavar="FILE.toml",
    )


def layered(parser: NodeParser, argv: Sequence[str], environ: Mapping[str, str], prefix: str) -> Layered:
    """Returns the options from all layers. `prefix`: the beginning of the environment's names.

    Raises ConfigError, which names the place of a wrong value. --help prints and raises SystemExit(0).
    """
    actions = {name: action for action in parser.declared if (name := _long_name(action)) is not None}
    flags = _flags(parser, argv, actions)
    env = _from_environment(parser, environ, prefix, actions)
    path = flags.values.get(CONFIG) or env.values.get(CONFIG)
    layers = (*([] if path is None else [_from_file(parser, Path(path), actions)]), env, flags)
    values = {action.dest: action.default for action in actions.values()}
    where: dict[str, str] = {}
    for layer in layers:
        values |= layer.values
        where |= layer.where
    overrides = tuple(override for layer in layers for override in layer.overrides)
    return Layered(argparse.Namespace(**values), where, overrides)


def _long_name(action: argparse.Action) -> str | None:
    """Returns the option without its dashes; None for --help and positional arguments."""
    names = [option[2:] for option in action.option_strings if option.startswith("--")]
    return names[0] if names and action.dest != "help" else None


def _parsed(
    parser: NodeParser, argv: Sequence[str], actions: Mapping[str, argparse.Action]
) -> dict[str, Any]:
    """Returns the values in `argv` itself by destination, without any default."""
    nothing = argparse.Namespace(**{action.dest: None for action in actions.values()})
    given = vars(parser.parse_args(argv, nothing))
    return {dest: value for dest, value in given.items() if value is not None}


def _flags(parser: NodeParser, argv: Sequence[str], actions: Mapping[str, argparse.Action]) -> _Layer:
    values = _parsed(parser, argv, actions)
    written = values.pop(_TASK_KEYS, [])
    where = {action.dest: f"--{name}" for name, action in actions.items() if action.dest in values}
    return _Layer(values, where, tuple(parse_override(text, "--set") for text in written))


def _from_environment(
    parser: NodeParser,
    environ: Mapping[str, str],
    prefix: str,
    actions: Mapping[str, argparse.Action],
) -> _Layer:
    """Reads PREFIX_OPTION=value, and PREFIX_SET_section__key=value for a task key."""
    names = {f"{prefix}_{name.upper().replace('-', '_')}": name for name in actions}
    values: dict[str, Any] = {}
    where: dict[str, str] = {}
    overrides: list[Override] = []
    for variable in sorted(name for name in environ if name.startswith(f"{prefix}_")):
        task_key = variable.removeprefix(f"{prefix}_{_TASK_KEYS.upper()}_")
        if task_key != variable and _TASK_KEYS in _destinations(actions):
            written = f"{task_key.replace('__', '.')}={environ[variable]}"
            overrides.append(parse_override(written, variable))
        elif variable not in names or names[variable] == _TASK_KEYS:
            raise _unknown("variable", variable, list(names))
        else:
            given = _one(parser, names[variable], [environ[variable]], variable, actions)
            values |= given
            where |= dict.fromkeys(given, variable)
    return _Layer(values, where, tuple(overrides))


def _from_file(parser: NodeParser, path: Path, actions: Mapping[str, argparse.Action]) -> _Layer:
    """Reads the options in a TOML file, and the task keys under its [set]."""
    values: dict[str, Any] = {}
    where: dict[str, str] = {}
    overrides: list[Override] = []
    for name, value in _table(path).items():
        place = f"{name} in {path}"
        if name == _TASK_KEYS and _TASK_KEYS in _destinations(actions):
            overrides += _task_keys(value, place)
        elif name not in actions or name in (_TASK_KEYS, CONFIG):
            raise _unknown("key", place, [known for known in actions if known != CONFIG], name)
        else:
            is_repeatable = isinstance(actions[name], argparse._AppendAction)
            each = value if is_repeatable and isinstance(value, list) else [value]
            given = _one(parser, name, [_as_text(item, place) for item in each], place, actions)
            values |= given
            where |= dict.fromkeys(given, place)
    return _Layer(values, where, tuple(overrides))


def _destinations(actions: Mapping[str, argparse.Action]) -> set[str]:
    return {action.dest for action in actions.values()}


def _one(
    parser: NodeParser,
    name: str,
    texts: Sequence[str],
    place: str,
    actions: Mapping[str, argparse.Action],
) -> dict[str, Any]:
    """Parses the value of one option, or its values; raises ConfigError that begins with `place`."""
    if actions[name].nargs == 0:  # a switch
        if texts[0].lower() not in _SWITCHES:
            raise ConfigError(f"{place}: {shown(texts[0])} is refused; allowed: true or false")
        return {actions[name].dest: _SWITCHES[texts[0].lower()]}
    try:
        return _parsed(parser, [f"--{name}={text}" for text in texts], actions)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def _table(path: Path) -> dict[str, Any]:
    """Returns the parsed file; raises ConfigError if it cannot be read, is too large, or is not TOML."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--config {shown(str(path))} cannot be read: {reason(error)}") from None
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"--config {shown(str(path))} is refused: more than {_MOST_BYTES >> 20} MiB")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--config {shown(str(path))} is not valid TOML: {reason(error)}") from None


def _as_text(value: object, place: str) -> str:
    """Returns a value of the file as it would be typed: lists with commas, switches as true or false."""
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
    raise ConfigError(f"{place}: {shown(value)} is refused; allowed: text, a number, true or false")


def _task_keys(value: object, place: str) -> Iterator[Override]:
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: {shown(value)} is refused; allowed: a table, as in [set.train]")
    for path, leaf in leaves(value):
        if len(path) < 2:
            allowed = "a key of a section, as in [set.train]"
            raise ConfigError(f"{place}: {path[0]} is no section; allowed: {allowed}")
        yield Override(path, leaf, f"{_TASK_KEYS}.{'.'.join(path)}{place.removeprefix(_TASK_KEYS)}")


def _unknown(kind: str, shown_name: str, allowed: list[str], name: str | None = None) -> ConfigError:
    near = difflib.get_close_matches(name or shown_name, allowed, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return ConfigError(f"{shown_name} is not a known {kind}{hint}; allowed: {', '.join(sorted(allowed))}")
