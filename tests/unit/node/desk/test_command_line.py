"""A command line as it is typed, and as the command reads it."""

import shlex
from pathlib import Path

import pytest

from node.desk.command_line import CommandLine, path_word, plain_word
from node.system.errors import ConfigError

LINE = CommandLine("report", [path_word(Path("runs/a")), ("--html", "-x y.html")], ("--force",))


def test_a_line_is_typed_as_it_is_read():
    assert LINE.command == "murmuration report runs/a '--html=-x y.html' --force"
    assert LINE.argv == ["runs/a", "--html=-x y.html", "--force"]
    assert LINE.package == "node.report"
    read = LINE.read()
    assert (read.folders, str(read.html), read.force) == ((Path("runs/a"),), "-x y.html", True)
    assert shlex.split(LINE.command)[2:] == LINE.argv


def test_no_argument_reads_like_an_option():
    assert path_word(Path("-a.toml")) == ("", "./-a.toml")
    assert plain_word("Ward B", "the name") == ("", "Ward B")
    for written in ("--yes", "-", ""):
        with pytest.raises(ConfigError, match="the name"):
            plain_word(written, "the name")
