"""Conversion of links between the files of the repository into links between pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\((?P<target>[^()\s]+)\)")
_IMAGE = re.compile(r'(?P<name>\b(?:src|srcset))="docs/')
PLACES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""The places on the site of files outside docs/."""


def site_place(path: str) -> str:
    """The place on the site of a file or folder of the repository, whether or not the site has it.

    >>> site_place("docs/privacy.md"), site_place("README.md"), site_place("docs/decisions")
    ('privacy.md', 'index.md', 'decisions/README.md')
    """
    place = PLACES.get(path) or path.removeprefix("docs/")
    return place if posixpath.splitext(place)[1] else posixpath.join(place, "README.md")


def source_of(page: str) -> str:
    """The file of the repository that a page shows; for a generated page the path that it would have.

    >>> source_of("index.md"), source_of("privacy.md")
    ('README.md', 'docs/privacy.md')
    """
    return next((path for path, place in PLACES.items() if place == page), f"docs/{page}")


def relinked(markdown: str, page: str, pages: Collection[str]) -> str:
    """Return the page's `markdown` with links between pages instead of links between files.

    A link to a file that is not on the site becomes plain text. The pictures of README.md are in docs/.

    >>> relinked("[a](docs/a.md#x), [b](setup.py), [c](https://c)", "index.md", {"a.md"})
    '[a](a.md#x), b, [c](https://c)'
    >>> relinked('<img src="docs/images/a.png">', "index.md", ())
    '<img src="images/a.png">'
    """
    folder = posixpath.dirname(source_of(page))

    def changed(match: re.Match[str]) -> str:
        path, mark, part = match["target"].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        place = site_place(posixpath.normpath(posixpath.join(folder, path)))
        if place not in pages:
            return match["text"]
        return f"[{match['text']}]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{mark}{part})"

    linked = _LINK.sub(changed, markdown)
    return _IMAGE.sub(r'\g<name>="', linked) if page == "index.md" else linked
