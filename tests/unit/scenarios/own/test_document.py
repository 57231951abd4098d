"""docs/own-studies.md: its file is a study, its Python runs, and the parser takes its commands."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from scenarios.__main__ import is_own, parse
from scenarios.catalogue import SCENARIOS
from scenarios.clients.poisons import Attackers
from scenarios.own.file import read_study
from scenarios.own.opened import checked
from tests.unit.scenarios.study.made_up import sweep

ROOT = Path(__file__).resolve().parents[4]
DOCUMENT = (ROOT / "docs" / "own-studies.md").read_text("utf-8")
EXAMPLES = ROOT / "examples" / "studies"


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT, re.S | re.M)
    return [block for own, block in fenced if own == language]


COMMANDS = [line for block in blocks("") for line in block.splitlines()]


def test_the_file_is_a_study_and_has_the_arms_of_the_example(tmp_path):
    (text,) = blocks("toml")
    (tmp_path / "study.toml").write_text(text)
    found, example = read_study(tmp_path / "study.toml"), read_study(EXAMPLES / "study.toml")
    assert [arm.arm for arm in found.arms] == [arm.arm for arm in example.arms]
    assert [arm.factors for arm in found.arms] == [arm.factors for arm in example.arms]
    assert [claim.name for claim in found.claims] == [example.claims[1].name]


def test_the_python_is_a_study_an_attack_charts_and_tables():
    names: dict = {}
    for block in blocks("python"):
        exec(block, names)
    assert len(checked(names["STUDY"], "the document").arms) == 6
    attackers = Attackers(0.5, None, names["AgainstTheMean"]())
    forged = attackers.forged(np.array([1, 2], np.float32), np.zeros(2, np.float32), np.random.default_rng(0))
    assert forged.tolist() == [-1.5, -1.5]  # 3 standard deviations of 0.5
    done = sweep({"ldp 1": 0.1, "ldp 10": 0.2, "dp-sgd 1": 0.3, "dp-sgd 10": 0.4, "none": 0.9})
    lines, bars = names["CHARTS"](done)
    assert [trace["name"] for trace in lines.traces] == ["whole data sets", "records", "no noise"]
    assert [(trace["name"], trace["x"]) for trace in bars.traces] == [
        ("ldp", ["epsilon 1", "epsilon 10"]),
        ("dp-sgd", ["epsilon 1", "epsilon 10"]),
    ]
    grid, arms = names["TABLES"](done)
    assert grid.rows == (("ldp", "10.0% ± 0.6", "20.0% ± 0.6"),)
    assert len(arms.rows) == 5


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_one_that_the_parser_takes(command):
    python, module, name, *argv = shlex.split(command)
    assert (python, module, name) == ("python", "-m", "scenarios")
    assert {line.split()[3] for line in COMMANDS} == {"run", "judge", "compare"}
    parsed = parse(argv)
    if parsed.command == "run":
        target = parsed.name
        file = EXAMPLES / (target if target.endswith(".toml") else f"{target.partition(':')[0]}.py")
        assert file.exists() if is_own(target) else target in SCENARIOS
