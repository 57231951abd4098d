"""`scenarios data NAME`: sees that a data set is there, downloads it, and makes the files that are read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from node.system.errors import UserError
from scenarios.data.dataset import Damaged
from scenarios.data.disk import megabytes, refused
from scenarios.data.downloads import fetch, held, say
from scenarios.data.published import PUBLISHED, Recipe
from scenarios.data.sources import Source, source


def get(name: str, folder: Path, console: Console) -> None:
    """Make sure that `folder` has the data set `name`. Raises ConfigError, UserError."""
    found, published = source(name), PUBLISHED.get(name)
    origin = found.origin
    licence = f"{origin.licence.name} {origin.licence.address}".strip()
    say(console, f"{name}: {found.summary}; {origin.publisher}, {origin.address}")
    say(console, f"licence: {licence}; cite: {origin.citation}")
    with refused(f"data folder {folder} cannot be used"):
        if published is None:
            say(console, f"{name}: {found.remedy}")
        elif not published.recipes:
            asyncio.run(fetch(published, folder, console))
        elif not _is_made(found, folder, console):
            asyncio.run(fetch(published, folder, console))
            for recipe in published.recipes:
                _make(recipe, folder / published.folder, folder, console)
            _read(found, folder)


def _is_made(found: Source[Any], folder: Path, console: Console) -> bool:
    """Whether the files that are read are there and whole; prints what it found."""
    if not all((folder / name).exists() for name in found.files):
        return False
    try:
        found.read(folder, np.random.default_rng(0))
    except Damaged as error:
        say(console, f"{error}: it is made again")
        return False
    paths = " and ".join(str(folder / name) for name in found.files)
    say(console, f"{paths}: there; no checksum is known, the structure is whole")
    return True


def _make(recipe: Recipe, raw: Path, folder: Path, console: Console) -> None:
    """Make the files of `recipe`, each completely or not at all. Raises UserError."""
    targets = [folder / name for name in recipe.files]
    partials = [target.with_name(f"{target.name}.partial") for target in targets]
    with refused(f"{targets[0].parent} cannot be written"), held(raw):
        targets[0].parent.mkdir(parents=True, exist_ok=True)
        try:
            recipe.make(raw, *partials)
        except Damaged as error:
            raise UserError(f"{error}; remove that file and run the command again") from None
        for partial, target in zip(partials, targets, strict=True):
            partial.replace(target)
            say(console, f"{target}: {megabytes(target.stat().st_size)}, made by {recipe.words}")


def _read(found: Source[Any], folder: Path) -> None:
    """Read a data set that was just made. Raises UserError."""
    try:
        found.read(folder, np.random.default_rng(0))
    except Damaged as error:
        raise UserError(f"data set {found.name}: {error}, as made from the publisher's file") from None
