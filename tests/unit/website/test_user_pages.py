"""Pages for users keep their promises: messages that the code has, the page's words, the navigation."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from node.observe.page import PARTS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
GAP = "…"
_QUOTED = re.compile(r"`([^`]*)`")
_TERM = re.compile(r'^  (?:"([a-z ]+)"|([a-z]+)): "', re.MULTILINE)


def texts(tree: ast.AST) -> Iterator[str]:
    """Yields the texts of a module with a gap for each value that is filled in."""
    for part in ast.walk(tree):
        match part:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=values):
                yield "".join(str(one.value) if isinstance(one, ast.Constant) else GAP for one in values)


@pytest.fixture(scope="module")
def code() -> list[str]:
    """All texts of the code that users run."""
    paths = (
        path for package in ("node", "protocol", "mechanisms") for path in (ROOT / package).rglob("*.py")
    )
    return [text for path in paths for text in texts(ast.parse(path.read_text("utf-8")))]


def occurs(message: str, code: list[str]) -> bool:
    """Returns whether one text of the code has the message's fixed parts in their order."""
    parts = [re.escape(part.strip()) for part in message.split(GAP) if part.strip(" .;:,()")]
    pattern = re.compile(".*".join(parts), re.DOTALL)
    return any(pattern.search(text) for text in code)


def messages() -> list[str]:
    """The messages in the first column of the tables of the page."""
    rows = [
        line for line in (DOCS / "troubleshooting.md").read_text("utf-8").splitlines() if line[:3] == "| `"
    ]
    return [message for row in rows for message in _QUOTED.findall(row.split(" | ")[0])]


@pytest.mark.parametrize("message", messages())
def test_a_message_of_the_page_is_one_that_users_see(message, code):
    if message == "address already in use":  # the system's words
        return
    assert occurs(message, code)


def test_a_message_that_nobody_says_is_found_out(code):
    assert len(messages()) > 30
    assert not occurs("… cannot be reached (…); giving up", code)


def test_the_glossary_is_in_order_and_every_page_in_the_navigation():
    rows = [line.split(" | ") for line in (DOCS / "glossary.md").read_text("utf-8").splitlines()]
    terms = [row[0].removeprefix("| ") for row in rows if len(row) == 2 and row[0] != "| term"]
    assert terms == sorted(terms)
    assert len(set(terms)) == len(terms) > 30
    if "glossary.js" in PARTS:
        explained = (ROOT / "node" / "assets" / "glossary.js").read_text("utf-8")
        words = {quoted or bare for quoted, bare in _TERM.findall(explained)}
        assert words
        assert words <= set(terms)

    class Loader(yaml.SafeLoader):
        """Reads mkdocs.yml, which names Python objects in other files."""

    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    named = json.dumps(yaml.load(text, Loader)["nav"])
    for page in ("faq", "troubleshooting", "glossary", "comparison"):
        assert f'"{page}.md"' in named
