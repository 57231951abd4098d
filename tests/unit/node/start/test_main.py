"""`murmuration start`: what it says of a folder without a swarm, and of a missing terminal."""

from __future__ import annotations

import pytest

from node.start.__main__ import main


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["FOLDER", "--yes"], "has no swarm: give the folder that invite or join named"),
        (["FOLDER"], "there is no terminal to ask at; give --yes, which answers each question by yes"),
        (["--yes"], "the folder comes first"),
    ],
)
def test_what_is_refused(argv, why, tmp_path, one_line):
    assert why in one_line(main, [word.replace("FOLDER", str(tmp_path)) for word in argv])


@pytest.mark.parametrize(("argv", "status"), [(["--help"], 0), ([], 2)])
def test_help_shows_how_it_is_called(argv, status, capsys):
    assert main(argv) == status
    assert "FOLDER [--yes]" in capsys.readouterr().out
