"""Which Python processes load a command of this project, and what Ctrl-C does until the command begins."""

import signal
import subprocess
import sys

import pytest

from node.cli.sigint import begun, is_command, loading


@pytest.mark.parametrize(
    ("argv", "whole", "expected"),
    [
        (["-m"], ["python", "-m", "node"], True),
        (["-m", "--debug"], ["python", "-W", "error", "-m", "node.tracker", "--debug"], True),
        (["-m", "-m"], ["python", "-mscenarios", "-m"], True),
        (["-m", "list"], ["python", "-m", "benchmarks", "list"], True),
        (["-m"], ["python", "-m", "nodes"], False),
        (["-m", "node"], ["python", "-m", "pytest", "node"], False),
        (["/usr/lib/node/__main__.py"], ["python", "-m", "node"], False),
        (["script.py", "-m"], ["python", "script.py", "-m"], False),
        (["-c"], ["python", "-c", "import node"], False),
        ([""], ["python"], False),
        ([], ["python"], False),
        (["/v/bin/murmuration", "init"], ["python", "-u", "/v/bin/murmuration", "init"], True),
        (["/v/bin/murmuration"], ["python", "/v/bin/murmuration"], True),
        # a child that multiprocessing has started
        (["/v/bin/murmuration", "scenarios", "run", "swarm"], ["python", "-c", "spawn_main()"], False),
        (["/v/bin/murmurations"], ["python", "/v/bin/murmurations"], False),
    ],
)
def test_a_command_is_told_from_a_program_that_imports_this_one(argv, whole, expected):
    assert is_command(argv, whole) is expected


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
