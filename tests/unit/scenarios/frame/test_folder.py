import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from node.errors import ConfigError, UserError
from scenarios.frame.folder import claimed, first_difference, fresh_folder

HERE = {"peers": 5, "task": {"train": {"rounds": 20}}}


def test_the_same_run_goes_on_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    for _ in range(2):
        with claimed(folder, "swarm", HERE):
            pass
    assert json.loads((folder / "configuration.json").read_text())["configuration"] == HERE


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


def test_a_strangers_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("important")
    with (
        pytest.raises(ConfigError, match="not empty and no scenario's folder"),
        claimed(tmp_path, "swarm", HERE),
    ):
        pass


def test_half_a_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "configuration.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"), claimed(tmp_path, "swarm", HERE):
        pass


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"), claimed(tmp_path / "out", "swarm", HERE):
        pass


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with (
        claimed(tmp_path, "swarm", HERE),
        pytest.raises(UserError, match="in use"),
        claimed(tmp_path, "swarm", HERE),
    ):
        pass


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match="cannot be written"),
        claimed(tmp_path / "file" / "out", "swarm", HERE),
    ):
        pass


def test_a_fresh_folder_is_one_that_is_not_there(tmp_path: Path) -> None:
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    first = fresh_folder("swarm", now, tmp_path)
    assert first == tmp_path / "swarm-20240506-070809"
    first.mkdir()
    assert fresh_folder("swarm", now, tmp_path) == tmp_path / "swarm-20240506-070809-2"


def test_the_first_difference_is_a_dotted_key() -> None:
    assert first_difference(HERE, HERE) is None
    assert first_difference({"a": {"b": 1}}, {"a": {"b": 2}}) == "a.b (1, not 2)"
    assert first_difference({}, {"a": 1}) == "a (None, not 1)"
