from pathlib import Path

import pytest

from scenarios.__main__ import main, parse, request
from scenarios.catalogue import SCENARIOS


def test_list_names_every_scenario_with_source_and_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert "swarm" in said
    assert "Murmuration" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "list | run"),
        ("walk swarm", "walk"),
        ("run", "NAME"),
        ("run nothing", "scenario 'nothing' is unknown; allowed: swarm"),
        ("run no.toml", "no.toml: cannot be read: No such file"),
        ("run no.where:STUDY", "'no.where:STUDY' cannot be imported"),
        ("compare", "DIR"),
        ("compare here", "compare takes two runs or more"),
        ("compare here there", "here is no result.json of a scenario"),
        ("run swarm --peers five", "five"),
        ("run swarm --peers 2", "--peers 2: allowed are 3"),
        ("run swarm --jobs 2", "--jobs: scenario swarm does not have it; allowed are --engine"),
        ("run swarm --data-dir /data", "--data-dir: scenario swarm does not have it"),
        ("run swarm --engine inline", "--engine inline: scenario swarm does not have it; allowed: proc"),
        ("run swarm --set ray.address=auto", "--set ray.*: engine processes has no such keys"),
        ("run swarm --engine ray --set ray.address=nowhere", "ray.address = 'nowhere' is refused"),
        ("run swarm --engine steam", "steam"),
        ("run swarm --set train.speed=3", "train.speed"),
        ("run swarm --set scenario.x=3", "no keys of its own"),
        ("run swarm --set aggregation.min_participants=2", "aggregation.min_participants = 2"),
        ("run swarm --set task.seed=3 --seed 4", "--set task.seed=3: --seed 4 sets task.seed too; give one"),
        ("run aldp --set task.seed=3", "--set task.seed"),
        ("run mechanisms --set task.seed=3", "--set task.seed=3: --seed sets the first of the seeds"),
        ("run mechanisms --set train.optimizer=adam", "clients of a server train all by plain 'sgd'"),
        ("run mechanisms --set scenario.mechanism=node.models:MLP", "scenario.mechanism is no server's mech"),
        ("run swarm --peer 5", "unrecognized arguments: --peer 5; python -m scenarios --help shows what"),
    ],
)
def test_a_bad_command_line_is_one_line_and_status_2(line, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out in (
        "",
        "study no.toml\n",
        "study no.where:STUDY\n",
        *(f"scenario {entry.name}: {entry.summary}\n" for entry in SCENARIOS.values()),
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("run", "swarm", "--out", "."), "not empty"),
        (("run", "swarm", "--out", "file"), "--out file: is not a folder; give a new or an empty one"),
        (("run", "swarm", "--out", "file/a"), "--out file/a: cannot be written (Not a directory); give"),
        (("run", "swarm", "--out", "x" * 300), "File name too long; give a shorter name"),
        (("data", "mnist", "--data-dir", "file"), "cannot be written (Not a directory); make room or give"),
    ],
)
def test_a_folder_that_can_not_be_is_one_line(argv, said, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main(argv) in (1, 2)
    captured = capsys.readouterr()
    assert captured.err.startswith("scenarios: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_fault_is_one_line_and_a_traceback_only_with_debug(capsys, tmp_path) -> None:
    """No shell can hand over such a name."""
    argv = ["run", "swarm", "--out", f"{tmp_path}/a\0b"]
    assert main(argv) == 1
    told = "scenarios: ValueError: embedded null byte (this is a fault of the program; --debug shows where)\n"
    assert capsys.readouterr().err == told
    assert main([*argv, "--debug"]) == 1
    assert capsys.readouterr().err.startswith("Traceback")


def test_every_option_reaches_the_request() -> None:
    line = (
        "run swarm --peers 4 --rounds 3 --seed 2 --engine ray --jobs 6 --data-dir d --out o --quick "
        "--set a.b=1 --set c.d=2"
    )
    asked = request(parse(line.split()))
    assert (asked.peers, asked.rounds, asked.seed, asked.engine, asked.jobs) == (4, 3, 2, "ray", 6)
    assert (asked.data_dir, asked.out, asked.quick) == (Path("d"), Path("o"), True)
    assert asked.overrides == ("a.b=1", "c.d=2")


@pytest.mark.parametrize("entry", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_says_what_its_entry_says(entry):
    scenario = entry.load()
    assert (scenario.name, scenario.source, scenario.summary) == (entry.name, entry.source, entry.summary)
