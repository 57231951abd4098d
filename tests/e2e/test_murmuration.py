"""The installed command and `python -m` run the same code."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from node.cli import murmuration
from node.cli.commands import COMMANDS, Command
from tests.e2e.processes import ENOUGH_S, ROOT

SHIPPED = ("node", "protocol", "mechanisms", "scenarios")
NAMES = [command.name for command in COMMANDS]
OWN_TASK = """\
[task]
name = "own"
[model]
class = "mine:Net"
[data]
source = "digits"
"""
OWN_MODEL = """\
from torch import nn
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
"""


def ended(words: tuple[str | Path, ...], cwd: Path, packages: Path = ROOT) -> tuple[int, str, str]:
    """Runs Python with these words; returns its exit status and both outputs."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(packages), "COLUMNS": "100"},
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def called(
    main: Callable[[Sequence[str]], int], argv: Sequence[str], program: str = murmuration.SCRIPT
) -> tuple[int, str, str]:
    """Calls a command as if `program` had been started; returns its exit status and both outputs."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        patch.setattr(sys, "argv", [f"/bin/{program}", *argv])
        patch.setenv("COLUMNS", "100")
        with redirect_stderr(io.StringIO()) as err:
            try:
                status = main(argv)
            except SystemExit as end:
                status = int(end.code or 0)
    return status, out.getvalue(), err.getvalue()


def without_program(said: str) -> str:
    """Replaces both names of each command by one, and rewraps the lines."""
    for command in COMMANDS:
        names = rf"(murmuration {command.name}|python -m {re.escape(command.package)})\b(?!\.)"
        said = re.sub(names, f"<{command.name}>", said)
    return " ".join(said.split())


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
@pytest.mark.parametrize("option", ["--help", "--nope"])
def test_both_doors_lead_to_the_same(command: Command, option: str) -> None:
    by_name = called(murmuration.main, (command.name, option))
    by_module = called(command.load().main, (option,), "__main__.py")

    assert by_name[0] == by_module[0] == (0 if option == "--help" else 2)
    assert [without_program(said) for said in by_name[1:]] == [
        without_program(said) for said in by_module[1:]
    ]
    if option == "--help":
        assert by_name[1].startswith(f"usage: murmuration {command.name} ")
        assert by_module[1].startswith(f"usage: python -m {command.package} ")
    else:
        assert by_name[2].count("\n") == 1


def test_both_doors_are_there(script: Path, tmp_path: Path) -> None:
    """The installed script and `python -m`, started as a user does."""
    key = COMMANDS[NAMES.index("key")]
    by_name = called(murmuration.main, ("key", "--help"))
    by_module = called(key.load().main, ("--nope",), "__main__.py")

    assert ended((script, "key", "--help"), tmp_path) == by_name
    assert ended(("-m", key.package, "--nope"), tmp_path) == by_module


@pytest.mark.parametrize(
    ("argv", "status", "out", "err"),
    [
        ((), 2, "usage: murmuration COMMAND", ""),
        (("--help",), 0, "usage: murmuration COMMAND", ""),
        (("--version",), 0, "murmuration ", ""),
        (("nod",), 2, "", "error: 'nod' is no command of murmuration (did you mean node?); allowed: node, "),
        (("zzz",), 2, "", "error: 'zzz' is no command of murmuration; allowed: node, tracker, init, check, "),
        (("--debug",), 2, "", "error: '--debug' is no command of murmuration; allowed: node, "),
    ],
)
def test_what_the_program_says_itself(argv: tuple[str, ...], status: int, out: str, err: str) -> None:
    ending, said, complained = called(murmuration.main, argv)

    assert ending == status
    assert said.startswith(out) if out else said == ""
    assert complained.startswith(err) if err else complained == ""
    assert complained.count("\n") == bool(err)
    assert argv[:1] not in [(), ("--help",)] or all(f"\n  {name} " in said for name in NAMES)


def test_where_the_repository_is_not_one_line_says_so_of_the_benchmarks(script: Path, tmp_path: Path) -> None:
    """Python's path has nothing that a developers' environment adds to it."""
    for name in SHIPPED:
        (tmp_path / name).symlink_to(ROOT / name)

    status, out, err = ended(("-S", script, "bench", "list"), tmp_path, packages=tmp_path)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: bench is not part of the installed package: it is in the repository; ")


def test_a_class_of_ones_own_is_found_in_this_folder(script: Path, tmp_path: Path) -> None:
    """As `python -m` finds it; the script is in another folder."""
    (tmp_path / "own.toml").write_text(OWN_TASK)
    (tmp_path / "mine.py").write_text(OWN_MODEL)

    status, out, _ = ended((script, "check", "own.toml", "--shard", "0/3"), tmp_path)

    assert (status, out.splitlines()[-1]) == (0, "nothing found that would fail")
    assert "ok       model: mine:Net, 650 parameters, takes these rows" in out.splitlines()


def test_a_scenario_runs_with_its_processes(script: Path, tmp_path: Path) -> None:
    """Children of the installed command import it again, but do not run it again."""
    argv = ("scenarios", "run", "swarm", "--quick", "--peers", "3", "--rounds", "1", "--out", "run")

    status, out, err = ended((script, *argv), tmp_path)

    assert (status, err) == (0, "")
    assert out.startswith("scenario swarm: Real peers on loopback")
    assert (tmp_path / "run" / "report.html").is_file()


# -- completion ----------------------------------------------------------------------------------------

LOOKED_UP = [
    ("murmuration ", {*NAMES}),
    ("murmuration --", {"--help", "--version"}),
    ("murmuration sc", {"scenarios"}),
    ("murmuration scenarios ", {"list", "run", "data", "judge", "compare"}),
    ("murmuration scenarios run label", {"label-dp"}),
    ("murmuration scenarios run swarm --engine ", {"inline", "processes", "ray"}),
    ("murmuration scenarios run swarm --quick --pe", {"--peers"}),
    ("murmuration init --target-kind c", {"classes"}),
    ("murmuration init --data ward.csv --for", {"--force"}),
    ("murmuration agree ward.toml --w", {"--wait", "--write"}),
    ("murmuration bench t", {"tls", "training"}),
    ("murmuration bench tls --r", {"--rounds"}),
    ("murmuration completion ", {"bash", "zsh", "fish"}),
    ("murmuration init --data wa", set()),
    ("murmuration check wa", set()),
]
"""What is typed, and the matching words of the table; none: the shell completes files."""
IN_BASH = """
source ./script
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    if [[ $line == *' ' ]]; then COMP_WORDS+=(''); fi
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
    _murmuration
    echo "${COMPREPLY[*]}"
done
complete -p murmuration
"""
IN_FISH = "source ./script; while read -l line; echo (complete -C $line); end"
IN_ZSH = """
compdef() { print -r -- "compdef $*" }
compadd() { shift; for word; do if [[ $word == $PREFIX* ]]; then print -rn -- "$word "; fi; done }
_files() {}
source ./script
while IFS= read -r line; do
    words=(${=line})
    if [[ $line == *' ' ]]; then words+=(''); fi
    CURRENT=$#words PREFIX=$words[-1]
    _murmuration
    print
done
"""
SHELLS = {
    "bash": ("bash", "--norc", "-c", IN_BASH),
    "fish": ("fish", "-N", "-c", IN_FISH),
    "zsh": ("zsh", "-fc", IN_ZSH),
}


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """Returns the scripts printed for each shell."""
    return {shell: called(murmuration.main, ("completion", shell))[1] for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_options_and_values(
    scripts: dict[str, str], tmp_path: Path, shell: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    (tmp_path / "script").write_text(scripts[shell])
    (tmp_path / "ward.csv").touch()

    done = subprocess.run(
        SHELLS[shell],
        cwd=tmp_path,
        input="".join(f"{typed}\n" for typed, _ in LOOKED_UP),
        capture_output=True,
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    if shell == "bash":
        assert lines.pop() == "complete -o bashdefault -o default -F _murmuration murmuration"
    if shell == "zsh":
        assert lines.pop(0) == "compdef _murmuration murmuration"
    files = {"ward.csv"} if shell == "fish" else set()  # the others' own completion comes afterwards
    found = {typed: set(line.split()) for (typed, _), line in zip(LOOKED_UP, lines, strict=True)}
    assert found == {typed: words or files for typed, words in LOOKED_UP}


def test_the_words_of_a_script_need_no_quotes(scripts: dict[str, str]) -> None:
    cases = [line for line in scripts["bash"].splitlines() if line.startswith("        '")]

    assert cases
    assert not [line for line in cases if not re.fullmatch(r" +('[\w .-]+'\|?)+\) echo '[\w .-]*' ;;", line)]
