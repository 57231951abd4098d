"""`murmuration completion SHELL`: a script that completes commands, options and their values in a shell.

The script holds one table, made from the commands' own parsers: what has been typed, and the words that may
follow. It only looks words up, and starts no Python. Where the table has no words, as after an option that
takes a file, the shell completes file names.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from node.cli.command import command
from node.cli.commands import COMMANDS
from node.cli.options import argument, as_typed
from node.cli.parser import NodeParser
from node.cli.sigint import SCRIPT

_DESCRIPTION = f"""\
Prints a script that completes what is typed after {SCRIPT}: commands, options, and the values of options
that have only a few. It completes all else as file names. The script fits this version: print it again after
an upgrade."""
_EPILOG = f"""\
examples:
  {SCRIPT} completion bash > ~/.local/share/bash-completion/completions/{SCRIPT}
  {SCRIPT} completion zsh > ~/.zfunc/_{SCRIPT}      (a folder in fpath, before compinit)
  {SCRIPT} completion fish > ~/.config/fish/completions/{SCRIPT}.fish"""

Table = Mapping[str, Sequence[str]]
"""Maps what has been typed to the words that may follow; no words: a file.

"murmuration scenarios run" has the names that come next, "murmuration scenarios run -" the options, and
"murmuration scenarios run --engine" the values of that option. Options without a value have no entry.
"""


def table() -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the entries of a `Table`: of the program itself, then of each command that is here."""
    here = [entry for entry in COMMANDS if entry.is_here()]
    yield SCRIPT, [entry.name for entry in here]
    yield f"{SCRIPT} -", ["--help", "--version"]
    for entry in here:
        yield from _after(f"{SCRIPT} {entry.name}", entry.load().main.command_line())


def _after(typed: str, parser: NodeParser) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the entries of a command and of its subcommands."""
    positional = [action for action in parser.declared if not action.option_strings]
    options = {name: action for action in parser.declared for name in action.option_strings[-1:]}
    yield typed, [word for action in positional for word in _choices(action)]
    yield f"{typed} -", list(options)
    for name, action in options.items():
        if action.nargs != 0:
            yield f"{typed} {name}", _choices(action)
    for action in positional:
        below = action.choices.items() if isinstance(action.choices, Mapping) else ()
        for name, under in below:
            if isinstance(under, NodeParser):
                yield from _after(f"{typed} {name}", under)


def _choices(action: argparse.Action) -> list[str]:
    return list(map(str, action.choices or ()))


def _words_in_sh(words: Table) -> str:
    cases = (
        f"        {'|'.join(map(repr, typed))}) echo '{' '.join(after)}' ;;" for typed, after in _cases(words)
    )
    return _WORDS_IN_SH.replace("CASES", "\n".join(cases))


def _fish(words: Table) -> str:
    cases = (
        f"        case {' '.join(map(repr, typed))}\n            echo -n '{' '.join(after)}'"
        for typed, after in _cases(words)
    )
    return _FISH.replace("CASES", "\n".join(cases))


def _cases(words: Table) -> Iterator[tuple[list[str], Sequence[str]]]:
    """Groups what is typed by what follows: many options have the same values, or none that are known."""
    for after in dict.fromkeys(map(tuple, words.values())):
        yield [typed for typed, each in words.items() if tuple(each) == after], after


_WORDS_IN_SH = """\
_murmuration_words() {
    case "$1" in
CASES
        *) return 1 ;;
    esac
}

"""

_BASH = """\
_murmuration() {
    local current="${COMP_WORDS[COMP_CWORD]}" last="${COMP_WORDS[COMP_CWORD-1]}" typed=murmuration word after
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ $word != -* ]] && _murmuration_words "$typed $word" > /dev/null; then typed+=" $word"; fi
    done
    if [[ $last != -* ]] || ! after=$(_murmuration_words "$typed $last"); then
        if [[ $current == -* ]]; then typed+=" -"; fi
        after=$(_murmuration_words "$typed")
    fi
    COMPREPLY=($(compgen -W "$after" -- "$current"))
}

complete -o bashdefault -o default -F _murmuration murmuration"""

_ZSH = """\
_murmuration() {
    local last="$words[CURRENT-1]" typed=murmuration word after
    for word in "${(@)words[2,CURRENT-1]}"; do
        if [[ $word != -* ]] && _murmuration_words "$typed $word" > /dev/null; then typed+=" $word"; fi
    done
    if [[ $last != -* ]] || ! after=$(_murmuration_words "$typed $last"); then
        if [[ $PREFIX == -* ]]; then typed+=" -"; fi
        after=$(_murmuration_words "$typed")
    fi
    if [[ -n $after ]]; then compadd -- ${=after}; else _files; fi
}

# As an autoloaded function this file is its body; `source` only registers it.
if [[ $funcstack[1] == _murmuration ]]; then _murmuration "$@"; else compdef _murmuration murmuration; fi"""

_FISH = """\
function __murmuration_words
    switch $argv[1]
CASES
        case '*'
            return 1
    end
end

function __murmuration
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l typed murmuration
    for word in $before[2..]
        if not string match -q -- '-*' $word; and __murmuration_words "$typed $word" > /dev/null
            set typed "$typed $word"
        end
    end
    set -l words
    if string match -q -- '-*' $before[-1]; and __murmuration_words "$typed $before[-1]" > /dev/null
        set words (__murmuration_words "$typed $before[-1]")
    else if string match -q -- '-*' $current
        set words (__murmuration_words "$typed -")
    else
        set words (__murmuration_words $typed)
    end
    if test -n "$words"
        string split -- ' ' $words
    else
        __fish_complete_path $current
    end
end

complete -c murmuration -f -a '(__murmuration)'"""

_SCRIPTS: Mapping[str, Callable[[Table], str]] = {
    "bash": lambda words: _words_in_sh(words) + _BASH,
    "zsh": lambda words: f"#compdef {SCRIPT}\n\n{_words_in_sh(words)}{_ZSH}",
    "fish": _fish,
}


@dataclass(frozen=True, kw_only=True)
class CompletionOptions:
    """The shell."""

    shell: str = argument("the shell that reads the script", as_typed, choices=tuple(_SCRIPTS))


def _run(options: CompletionOptions) -> int:
    print(_SCRIPTS[options.shell](dict(table())))
    return 0


main = command("node.cli.completion", CompletionOptions, _DESCRIPTION, _EPILOG, run=_run)
main.start(__name__)
