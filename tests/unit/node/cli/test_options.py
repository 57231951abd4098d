"""An option is declared once: what reads it, asks for it, completes it and tells of it follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from node import __main__ as node
from node.cli.command import Command
from node.cli.completion import table
from node.cli.options import argument, chosen, command_line, option, reachable_path, repeated, switch, whole
from node.options import NodeOptions, read_kind
from node.system.errors import ConfigError
from website import commands

PEERS = ("--peers", "127.0.0.1:1,127.0.0.1:2")


@dataclass(frozen=True, kw_only=True)
class Lit(NodeOptions):
    """A node with two options that nothing else knows."""

    lamps: int = option(
        "how many lamps it lights. Default: %(default)s", whole(1, 9), default="3", metavar="LAMPS"
    )
    colour: tuple[str, ...] = repeated("a colour that it may have", choices=("red", "blue"))


def lit(*argv: str, **environ: str) -> tuple[int, tuple[str, ...]]:
    read = read_kind(
        Lit, [*PEERS, *argv], {f"MURMURATION_NODE_{name}": value for name, value in environ.items()}
    )
    return read.lamps, read.colour


def test_an_option_that_is_declared_in_one_place_is_found_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('lamps = 4\ncolour = ["red", "blue"]\n', "utf-8")
    made = Command(lambda: command_line("node", Lit, ""), lambda argv: read_kind(Lit, argv, {}), lambda _: 0)
    monkeypatch.setattr(node, "main", made)

    assert lit() == (3, ())
    assert lit("--config", str(file)) == (4, ("red", "blue"))
    assert lit("--config", str(file), LAMPS="5", COLOUR="red") == (5, ("red",))
    assert lit("--lamps", "6", "--colour=blue", LAMPS="5", COLOUR="red") == (6, ("blue",))
    assert Lit(task=read_kind(NodeOptions, PEERS, {}).task).lamps == 3
    refusal = r"^MURMURATION_NODE_LAMPS '10' is refused; allowed: a whole number"
    with pytest.raises(ConfigError, match=refusal):
        lit(LAMPS="10")
    assert made(["--help"]) == 0
    assert "--lamps LAMPS" in (told := capsys.readouterr().out)
    assert "how many lamps it lights. Default: 3" in told
    words = dict(table())
    assert "--lamps" in words["murmuration node -"]
    assert words["murmuration node --colour"] == ["red", "blue"]
    assert "| `--lamps LAMPS` | how many lamps it lights. Default: 3 |" in commands.page()


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """What is read without layers."""

    folders: tuple[Path, ...] = argument("folders", reachable_path, nargs="+", metavar="DIR")
    width: int | None = option("how wide", whole(1, 9), begins="how it is built")
    deep: bool = switch("whether it is deep", begins="")


def test_without_layers_errors_name_the_option_or_the_metavar() -> None:
    parser = command_line("node.show", Shelf, "a shelf")
    assert chosen(Shelf, ["a", "b", "--deep"], parser) == Shelf(folders=(Path("a"), Path("b")), deep=True)
    assert "how it is built:\n  --width" in parser.format_help()
    for argv, line in ((["a", ""], "DIR '' is refused"), (["a", "--width=x"], "--width 'x' is refused")):
        with pytest.raises(ConfigError, match=f"^{line}"):
            chosen(Shelf, argv, parser)
