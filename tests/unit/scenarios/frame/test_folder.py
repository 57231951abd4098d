import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from node.system.errors import ConfigError, UserError
from scenarios.frame.folder import claimed, first_difference, fresh_folder

HERE = {"peers": 5, "task": {"train": {"rounds": 20}}}


def test_the_same_run_goes_on_in_its_folder_and_another_is_told_by_its_first_difference(tmp_path):
    folder = tmp_path / "deep" / "out"
    for _ in range(2):
        with claimed(folder, "swarm", HERE):
            pass
    assert json.loads((folder / "configuration.json").read_text())["configuration"] == HERE
    assert first_difference(HERE, HERE) is None
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 2}}) == "a.b (1, not 2)"
    assert first_difference({}, {"a": 1}) == "a (None, not 1)"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"scenario": "nbafl", "configuration": HERE}, "holds a run of scenario nbafl, not swarm"),
        (
            {"scenario": "swarm", "configuration": {"peers": 5, "task": {"train": {"rounds": 9}}}},
            "another task.train.rounds (9, not 20)",
        ),
        ({"something": "else"}, "is no scenario's; give another folder"),
        ([], "is no scenario's; give another folder"),
    ],
)
def test_another_runs_folder_is_refused_and_left_alone(tmp_path: Path, content: object, said: str) -> None:
    path = tmp_path / "configuration.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError) as refused, claimed(tmp_path, "swarm", HERE):
        pass
    assert said in str(refused.value)
    assert json.loads(path.read_text()) == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["configuration.json"]


@pytest.mark.parametrize(
    ("content", "inside", "error", "said"),
    [
        ({"thesis.txt": "important"}, "", ConfigError, "not empty and no scenario's folder"),
        ({"configuration.json": "{"}, "", ConfigError, "cannot be read"),
        ({"out": ""}, "out", ConfigError, "is not a folder"),
        ({"file": ""}, "file/out", UserError, "cannot be written"),
    ],
)
def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, content, inside, error, said) -> None:
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=said), claimed(tmp_path / inside, "swarm", HERE):
        pass


def test_a_folder_in_use_is_refused_and_a_fresh_one_is_one_that_is_not_there(tmp_path):
    in_use = pytest.raises(UserError, match="in use")
    with claimed(tmp_path, "swarm", HERE), in_use, claimed(tmp_path, "swarm", HERE):
        pass
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    first = fresh_folder("swarm", now, tmp_path)
    assert first == tmp_path / "swarm-20240506-070809"
    first.mkdir()
    assert fresh_folder("swarm", now, tmp_path) == tmp_path / "swarm-20240506-070809-2"
