"""A browser window that records what the page does, and judges it at the end."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from tests.patience import ENOUGH_S

WITHIN_MS = 1000 * ENOUGH_S
expect.set_options(timeout=WITHIN_MS)
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1200, "height": 800}


class Window:
    """A context with one page; keeps its error messages and requests."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[Page] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.may_lose_the_node = False
        """Whether the test stops the node: Chromium then logs an error, whatever the page does.

        A node that is gone when the error is heard, as all are at the end of a test, is no fault of the page.
        """

        self.may_be_refused = False
        """Whether the test asks for what is refused: Chromium logs such an answer as an error, too."""

    def open(self, url: str, scheme: str = "light", size: dict[str, int] = DESK) -> Page:
        """Opens the page at `url` and waits until it has drawn the node's data."""
        page = self.raw(url, scheme, size)
        expect(page.locator("#connection")).to_have_attribute("data-state", "live")
        expect(page.locator("#figures dd").first).not_to_be_empty()
        return page

    def raw(self, url: str, scheme: str = "light", size: dict[str, int] = DESK) -> Page:
        """Opens the page at `url` without waiting."""
        context = self._browser.new_context(color_scheme=scheme, viewport=size)
        context.set_default_timeout(WITHIN_MS)
        page = context.new_page()
        self._contexts.append(page)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._asked)
        page.goto(url)
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        lost = message.text.startswith("Failed to load resource") or "net::ERR_" in message.text
        may_be_lost = lost and (self.may_lose_the_node or not _answers(message.location["url"]))
        is_refusal = self.may_be_refused and "responded with a status of 4" in message.text
        if message.type in ("error", "warning") and not may_be_lost and not is_refusal:
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)

    def close(self) -> None:
        """Fails if the page logged an error or requested anything from elsewhere."""
        for page in self._contexts:
            page.context.close()
        assert not self.complaints, self.complaints
        elsewhere = [url for url in self.requests if urlsplit(url).hostname not in ("127.0.0.1", None)]
        assert not elsewhere, elsewhere


def _answers(url: str) -> bool:
    """Whether anybody listens at the address of `url`; no address is no excuse."""
    place = urlsplit(url)
    if place.hostname is None or place.port is None:
        return True
    try:
        socket.create_connection((place.hostname, place.port), 5).close()
    except ConnectionRefusedError:
        return False
    return True
