"""The hooks that mkdocs calls while it builds the site: generated pages, pages outside docs/, links."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website import beside, commands, data_sets, links, machines, python_page, reference

ROOT = Path(__file__).resolve().parents[1]
MADE: dict[str, Callable[[], str]] = {
    "reference/configuration.md": reference.configuration,
    "reference/commands.md": commands.page,
    "reference/files.md": reference.files,
    "reference/python.md": python_page.page,
    "reference/data-sets.md": data_sets.page,
    "explanation/beside.md": lambda: beside.page(ROOT / "docs" / "results" / "beside.json"),
    "explanation/protocol.md": machines.page,
    "explanation/threats.md": lambda: section(ROOT / "ARCHITECTURE.md", "Threat model"),
}
_SEARCH = 'data-md-component="search" role="dialog"'
WANTED = frozenset({"data.md", "models.md", "page.md", "operating.md", "tls.md"})
"""Pages that appear in the navigation as soon as their files exist."""


def section(path: Path, title: str) -> str:
    """One section of a file as a page. Raises LookupError if the file has no such section."""
    _, found, rest = path.read_text("utf-8").partition(f"\n## {title}\n")
    if not found:
        raise LookupError(f"{path} has no section {title!r}")
    return f"# {title}\n{rest.partition(chr(10) + '## ')[0]}"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Remove wanted pages without a file from the navigation."""
    config.nav = [_written(entry, Path(config.docs_dir)) for entry in config.nav or []]
    return config


def _written(entry: Any, folder: Path) -> Any:
    match entry:
        case dict():
            return {
                title: [_written(one, folder) for one in inside if not _is_missing(one, folder)]
                if isinstance(inside, list)
                else inside
                for title, inside in entry.items()
            }
    return entry


def _is_missing(entry: Any, folder: Path) -> bool:
    pages = [entry] if isinstance(entry, str) else [page for page in entry.values() if isinstance(page, str)]
    return any(page in WANTED and not (folder / page).exists() for page in pages)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/ and the generated ones."""
    for path, place in links.PLACES.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text("utf-8")))
    for place, make in MADE.items():
        files.append(File.generated(config, place, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files into links between pages."""
    place = page.file.src_uri
    return (
        markdown if place in MADE and place != "explanation/threats.md" else _relinked(markdown, place, files)
    )


def _relinked(markdown: str, place: str, files: Files) -> str:
    if place == "explanation/threats.md":  # its text comes from a file in the repository's root
        markdown = markdown.replace("](docs/", "](../").replace("](README.md", "](../../README.md")
    return links.relinked(markdown, place, set(files.src_uris))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the theme's search dialog: without a name a screen reader would only say `dialog`."""
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')


@event_priority(-100)  # after the search has written its index
def on_post_build(config: MkDocsConfig) -> None:
    """Write the search's index as a script, too: a page that is opened from a file may fetch nothing."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text('utf-8')}", "utf-8")
