"""The HTML of a report that stands alone: what all of them have around their content.

A report loads nothing, and its content security policy forbids it to. Colours, type and plain elements are
those of a node's page, in light and dark.
"""

from __future__ import annotations

from html import escape
from importlib import resources


def html_page(
    *, title: str, overline: str, heading: str, lead: str, style: str, policy: str, main: str, mark: str = ""
) -> str:
    """Returns the page. `lead`, below the heading, and `main`, its content, are HTML; other texts are plain.

    `style`: CSS after the common one. `policy`: the content security policy. `mark`: a comment, by which the
    program knows the file as its own.
    """
    return _PAGE.format(
        mark=f"{mark}\n" if mark else "",
        policy=escape(policy),
        title=escape(title),
        style=asset_text("node", "tokens.css") + style,
        overline=escape(overline),
        heading=escape(heading),
        lead=lead,
        main=main,
    )


def asset_text(package: str, name: str) -> str:
    """Returns a file in the folder `assets` of a package."""
    return resources.files(package).joinpath("assets", name).read_text("utf-8")


_PAGE = """<!DOCTYPE html>
{mark}<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header>
<p class="overline">{overline}</p>
<h1>{heading}</h1>
{lead}
</header>
<main>
{main}
</main>
</body>
</html>
"""
