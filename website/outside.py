"""Finds what a built page would load from other servers, which is forbidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

_LOADS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "link": ("href",),
}
_HARMLESS = {"canonical", "next", "prev", "license"}  # links that browsers do not load by themselves
_ELSEWHERE = re.compile(r"\s*(?:[a-z]+:)?//", re.IGNORECASE)
_IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record what an element would load from elsewhere."""
        values = dict(attrs)
        if tag == "link" and set((values.get("rel") or "").split()) <= _HARMLESS:
            return
        for name in _LOADS.get(tag, ()):
            if _ELSEWHERE.match(values.get(name) or ""):
                self.found.append(f"{tag} {name}={values[name]}")
        self.found += _IN_STYLE.findall(values.get("style") or "")


def loads_of(html: str) -> list[str]:
    """List what a page loads from other servers.

    >>> loads_of('<a href="https://a"></a><img src="//b/c.png"><style>@import "https://d"</style>')
    ['img src=//b/c.png', 'https://d']
    """
    parser = _Loads()
    parser.feed(html)
    return [
        *parser.found,
        *(
            found
            for style in re.findall(r"<style.*?</style>", html, re.S)
            for found in _IN_STYLE.findall(style)
        ),
    ]


def loads_from_elsewhere(site: Path) -> Iterator[str]:
    """Yield all such loads in the pages and style sheets of a built site, each with its file."""
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            yield from (f"{path.name}: {found}" for found in loads_of(path.read_text("utf-8")))
        elif path.suffix == ".css":
            yield from (f"{path.name}: {found}" for found in _IN_STYLE.findall(path.read_text("utf-8")))
