"""A Chromium for these tests; a page may log no errors and load nothing from elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.pages import Window
from tests.e2e.conftest import _warm, make_swarm, nursery

__all__ = ["_warm", "make_swarm", "nursery"]

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-breakpad",
    ),
)


def chromium() -> str | None:
    """Returns the path of Chromium: the system's, or the one that MURMURATION_CHROMIUM names."""
    named = (
        os.environ.get("MURMURATION_CHROMIUM"),
        shutil.which("chromium"),
        shutil.which("chromium-browser"),
    )
    return next((path for path in named if path), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Starts a browser for one module: while it runs, tests in other folders cannot run an event loop."""
    path = chromium()
    if path is None:
        pytest.skip(
            "there is no Chromium here: apt-get install chromium, or name one in MURMURATION_CHROMIUM"
        )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[Window]:
    """Opens a fresh window for each test; at its end the page must have logged no errors."""
    opened = Window(browser)
    yield opened
    opened.close()
