"""A run is read from its folder: while it runs, when it is over, and when it was killed."""

import json
from dataclasses import replace

import pytest

from benchmarks.page.server import node_view
from node.observe.history_reader import Rounds
from node.observe.run_folder import MAX_FILE_BYTES, MAX_RUNS, MODEL, SILENT_S, RunFolder, found_runs
from node.storage.folder_lock import HISTORY, SUMMARY, VIEW
from node.system.errors import ConfigError, UserError
from tests.unit.node.observe.folders import AT, run_in


def read(path, now=AT):
    return RunFolder(path, lambda: now).read()


def test_what_the_node_showed_last_is_shown_with_its_rounds_and_those_that_came_after_it(tmp_path):
    kept = node_view(peers=3, ended=6)
    path = run_in(tmp_path / "run", kept, ended=True)
    rounds = Rounds(path / HISTORY).read()
    assert [one.round for one in rounds] == [1, 2, 3, 4, 5, 6]
    assert read(path) == replace(kept, ended=True, folder=str(path), history=rounds)
    assert read(run_in(tmp_path / "other", round=4)).round == 6


def test_the_files_are_followed_as_they_grow(tmp_path):
    path = run_in(tmp_path / "run")
    folder = RunFolder(path, lambda: AT)
    assert folder.read().history[-1].round == 6
    with (path / HISTORY).open("a") as file:
        file.write(json.dumps({"round": 7, "outcome": "aggregated", "metric": "auc", "value": 0.5}) + "\n")
    (path / MODEL).write_bytes(b"m" * 10)
    seen = folder.read()
    assert (seen.round, seen.history[-1].value, seen.model_bytes) == (7, 0.5, 10)


@pytest.mark.parametrize(
    ("later", "ended", "silent"),
    [(SILENT_S, False, None), (SILENT_S + 1, False, AT), (SILENT_S + 1, True, None)],
)
def test_a_node_that_writes_no_more_is_called_silent_unless_it_has_ended(tmp_path, later, ended, silent):
    path = run_in(tmp_path / "run", ended=ended)
    assert read(path, AT + later).silent_since == silent


def test_a_folder_of_an_earlier_version_is_read_from_its_summary(tmp_path):
    path = run_in(tmp_path / "run")
    (path / VIEW).unlink()
    summary = {"rounds": 6, "task": "digits", "key": "ab" * 32, "base_digest": "cd" * 32, "bytes_sent": 7}
    more = {"bytes_received": 8, "privacy": {"epsilon_spent": 1.0}, "accuracy_of": "validation"}
    (path / SUMMARY).write_text(json.dumps({**summary, **more}))
    seen = read(path)
    assert (seen.task, seen.key, seen.round, seen.ended) == ("digits", "ab" * 32, 6, True)
    assert (seen.sent, seen.received, seen.accuracy_of) == ({"all": 7}, {"all": 8}, "validation")
    assert seen.privacy == {"epsilon_spent": 1.0}
    (path / SUMMARY).unlink()
    assert (read(path).task, read(path).round) == ("run", 6)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged: it is no object"),
        ('{"version": 2, "at": 1}', "has the version 2; allowed: 1"),
        ('{"version": 1, "at": "noon"}', "has the version 1"),
        ('{"version": 1, "at": 1, "round": "x"}', "is damaged: round has the value 'x'"),
    ],
)
def test_a_damaged_view_is_one_line_that_says_what_to_do(tmp_path, text, why):
    path = run_in(tmp_path / "run")
    (path / VIEW).write_text(text)
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path / VIEW} {why}")
    assert "move" in str(caught.value)


def test_a_huge_file_is_refused_before_it_is_read_whole(tmp_path):
    path = run_in(tmp_path / "run")
    with (path / VIEW).open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(UserError, match="larger than 8000000 bytes"):
        read(path)


def test_the_folders_in_a_folder_are_found_up_to_as_many_as_can_be_told_apart(tmp_path):
    one, other = run_in(tmp_path / "runs" / "a"), run_in(tmp_path / "runs" / "b")
    (tmp_path / "runs" / "notes").mkdir()
    assert found_runs([tmp_path / "runs"]) == [one, other]
    assert found_runs([other, one, other]) == [other, one]
    with pytest.raises(ConfigError, match=r"holds no run: .* has view\.json, history\.jsonl, summary\.json"):
        found_runs([tmp_path])
    with pytest.raises(ConfigError, match="cannot be read"):
        found_runs([tmp_path / "nowhere"])
    for number in range(MAX_RUNS - 1):
        run_in(tmp_path / "runs" / str(number))
    with pytest.raises(ConfigError, match=f"9 runs are given; allowed: at most {MAX_RUNS}"):
        found_runs([tmp_path / "runs"])
