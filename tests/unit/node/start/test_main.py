"""`murmuration start`: what it says of a folder without a swarm, and of a missing terminal."""

from __future__ import annotations

import pytest

from node.start.__main__ import main


def told(capsys) -> str:
    return capsys.readouterr().err.strip()


def test_a_folder_without_a_swarm_is_refused(tmp_path, capsys):
    assert main([str(tmp_path), "--yes"]) == 2
    assert "has no swarm: give the folder that invite or join named" in told(capsys)


def test_without_a_terminal_yes_has_to_be_said(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert told(capsys) == (
        "error: there is no terminal to ask at; give --yes, which answers each question by yes"
    )


def test_the_folder_comes_first(capsys):
    assert main(["--yes"]) == 2
    assert "the folder comes first" in told(capsys)


@pytest.mark.parametrize(("argv", "status"), [(["--help"], 0), ([], 2)])
def test_help_shows_how_it_is_called(argv, status, capsys):
    assert main(argv) == status
    assert "FOLDER [--yes]" in capsys.readouterr().out
