"""What is declared, what is pinned, what is documented, and what a wheel holds."""

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import find_packages

from node.system.distribution import NAME

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("node", "protocol", "mechanisms", "scenarios")


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def requirements(pyproject: dict[str, Any]) -> dict[str, Requirement]:
    project = pyproject["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    return by_name(lines)


def by_name(lines: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(parsed.name): parsed for parsed in map(Requirement, lines)}


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def test_exactly_the_packages_that_exist_are_in_the_wheel(pyproject):
    folders = {path.parent.relative_to(ROOT) for path in sources()}
    on_disk = {".".join(folder.parts) for folder in folders}
    include = pyproject["tool"]["setuptools"]["packages"]["find"]["include"]
    found = find_packages(str(ROOT), include=include)
    assert on_disk == set(found)
    assert {name.partition(".")[0] for name in found} == set(PACKAGES)


def test_name_version_wheel_and_licence_are_the_declared_ones(pyproject):
    assert pyproject["project"]["name"] == NAME
    wheel = f"{pyproject['project']['name'].replace('-', '_')}-*.whl"
    assert f"/dist/{wheel})" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert pyproject["project"]["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "Copyright 2026 the Murmuration authors" in text
    assert not [path for path in sources() if path.stem in {"utils", "util", "helpers", "misc"}]


def test_every_package_ships_its_type_marker_and_its_data(pyproject):
    declared = pyproject["tool"]["setuptools"]["package-data"]
    globs = [(package, glob) for package in PACKAGES for glob in declared[package]]
    shipped = {path for package, glob in globs for path in (ROOT / package).glob(glob)}
    present = {
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    assert shipped == present
    assert {ROOT / package / "py.typed" for package in PACKAGES} <= shipped


def test_every_declared_dependency_has_its_line_and_no_line_is_stale(pyproject):
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = {canonicalize_name(name) for name in re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)}
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    for extra in ("docs", "ray"):
        assert extras[extra]
        assert set(extras[extra]) <= set(extras["dev"])
    assert rows == set(
        by_name([*project["dependencies"], *chain(*project["optional-dependencies"].values())])
    )


def test_the_constraints_pin_every_dependency_inside_its_range(requirements):
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {
        canonicalize_name(name): version
        for name, separator, version in (line.partition("==") for line in lines if not line.startswith("#"))
        if separator
    }
    assert set(requirements) <= set(pins)
    assert not [name for name, wanted in requirements.items() if not wanted.specifier.contains(pins[name])]
