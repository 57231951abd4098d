"""The table of commands, which processes load one, and what Ctrl-C does until it begins."""

import argparse
import signal
import subprocess
import sys

import pytest

from node.cli.command import Command
from node.cli.commands import COMMANDS, program, usage
from node.cli.completion import table
from node.cli.murmuration import help_text
from node.cli.sigint import begun, is_command, loading
from tests.unit.node.cases import cases


def test_every_command_has_a_parser_and_a_line_of_its_own():
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    for command in COMMANDS:
        assert command.is_here()
        loaded = command.load().main
        assert isinstance(loaded, Command)
        assert isinstance(loaded.command_line(), argparse.ArgumentParser)
        assert f"\n  {command.name:10}  {command.summary}\n" in help_text()
    assert max(map(len, help_text().splitlines())) <= 100


@cases("""
    argv => called
    /usr/bin/murmuration bench => murmuration bench
    /repository/benchmarks/__main__.py => python -m benchmarks
    => python -m benchmarks
""")
def test_a_command_is_called_as_it_was_started(monkeypatch, argv, called):
    monkeypatch.setattr(sys, "argv", argv.split())
    assert program("benchmarks") == called
    assert usage("benchmarks", "NAME", "[--quick]") == (
        f"usage: {called} NAME\n{' ' * len(f'usage: {called} ')}[--quick]"
    )


def test_what_may_follow_is_read_off_the_parsers():
    words = dict(table())
    assert words["murmuration"] == [command.name for command in COMMANDS]
    assert words["murmuration scenarios data"][0] == "digits"
    assert words["murmuration scenarios run --engine"] == ["inline", "processes", "ray"]
    assert "--quick" in words["murmuration bench tls -"]
    assert words["murmuration node --data"] == []
    assert "murmuration node --open" not in words
    assert words["murmuration check -"] == words["murmuration node -"]
    assert set(words["murmuration agree -"]) - set(words["murmuration node -"]) == {
        *("--write", "--force", "--without", "--leave-out-missing", "--also-class")
    }


@cases("""
    argv => whole => is_one
    -m => python -m node => True
    -m --debug => python -W error -m node.tracker --debug => True
    -m -m => python -mscenarios -m => True
    -m list => python -m benchmarks list => True
    -m => python -m nodes => False
    -m node => python -m pytest node => False
    /usr/lib/node/__main__.py => python -m node => False
    script.py -m => python script.py -m => False
    -c => python -c import-node => False
    => python => False
    /v/bin/murmuration init => python -u /v/bin/murmuration init => True
    /v/bin/murmuration => python /v/bin/murmuration => True
    /v/bin/murmuration scenarios run swarm => python -c spawn_main() => False
    /v/bin/murmurations => python /v/bin/murmurations => False
""")
def test_a_command_is_told_from_a_program_that_imports_this_one(argv, whole, is_one):
    """`spawn_main()`: a child that multiprocessing has started."""
    assert str(is_command(argv.split(), whole.split())) == is_one
    assert not is_command([""], ["python"])


def test_in_another_program_ctrl_c_stays_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    loading()
    begun()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("name", ["SIG_IGN", "default_int_handler"])
def test_who_ignores_ctrl_c_goes_on_ignoring_it(name):
    """A script's background command ignores Ctrl-C, before and after it has begun."""
    looked = (
        f"import signal, sys; signal.signal(signal.SIGINT, signal.{name}); "
        "sys.argv[0], sys.orig_argv[-1:] = '-m', ['node'];"
        "import node, node.cli.sigint; print(signal.getsignal(signal.SIGINT) is node.cli.sigint._end);"
        f"node.cli.sigint.begun(); print(signal.getsignal(signal.SIGINT) is signal.{name})"
    )
    told = subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True, check=True).stdout
    assert told.split() == [str(name == "default_int_handler"), "True"]


def test_a_command_ends_as_python_does_but_its_interpreter_is_not_taken_down():
    """A reader of pyarrow that calls Python after that aborts the process: status 134 for a refused file."""
    ending = """
import atexit, sys, threading, time
from node.cli.sigint import leave
class Kept:
    def __del__(self):
        print("taken down")
kept, late = Kept(), threading.Event()
atexit.register(print, "at exit")
threading.Thread(target=lambda: (late.wait(), print("waited for"))).start()
print("said", end=" ")
late.set()
leave(3)
"""
    done = subprocess.run([sys.executable, "-c", ending], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said waited for\nat exit\n", "")
