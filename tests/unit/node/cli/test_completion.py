"""The scripts that complete commands, options and values, in the shells that are here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from node.cli.commands import COMMANDS
from node.cli.completion import _SCRIPTS, table
from tests.patience import ENOUGH_S

LOOKED_UP = [
    ("murmuration ", {command.name for command in COMMANDS}),
    ("murmuration --", {"--help", "--version"}),
    ("murmuration sc", {"scenarios"}),
    ("murmuration scenarios ", {"list", "run", "data", "judge", "compare"}),
    ("murmuration scenarios run label", {"label-dp"}),
    ("murmuration scenarios run swarm --engine ", {"inline", "processes", "ray"}),
    ("murmuration scenarios run swarm --quick --pe", {"--peers"}),
    ("murmuration init --target-kind c", {"classes", "count"}),
    ("murmuration init --data ward.csv --forc", {"--force"}),
    ("murmuration agree ward.toml --w", {"--wait", "--without", "--write"}),
    ("murmuration bench t", {"targets", "tls", "training"}),
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
    """Returns the script for each shell."""
    return {shell: _SCRIPTS[shell](dict(table())) for shell in SHELLS}


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
