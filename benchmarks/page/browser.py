"""The page in Chromium: the time to its first paint, from an event to the screen, and of a click."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.page.server import Served, node_view, rounds
from benchmarks.spec import Figure, figure
from node.observe.views import NodeView
from node.system.errors import UserError

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
PAINT_AT_MOST_S = 1.0
NEWS_AT_MOST_S = 1.0
CLICK_AT_MOST_S = 0.1
TIMES, QUICK_TIMES = 12, 3

_PAINT = """() => performance.getEntriesByName("first-contentful-paint")[0].startTime / 1000"""
_SHOWS = """(round) => document.querySelector("#rounds th")?.textContent.replace(",", "") === String(round)"""
_WATCH = """() => {
  window.seen = {};
  window.blocked = [];
  const note = () => {
    const round = document.querySelector("#rounds th").textContent.replace(",", "");
    window.seen[round] ??= Date.now() / 1000;
  };
  new MutationObserver(note).observe(document.querySelector("#rounds"),
    { subtree: true, childList: true, characterData: true });
  const long = (list) => window.blocked.push(...list.getEntries().map((task) => task.duration / 1000));
  new PerformanceObserver(long).observe({ type: "longtask" });
}"""
_CLICK = """() => new Promise((done) => {
  const begun = performance.now();
  document.querySelector("#rounds-older").click();
  requestAnimationFrame(() => setTimeout(() => done((performance.now() - begun) / 1000)));
})"""


def browser_figures(peers: int, history: int, quick: bool) -> Iterator[Figure]:
    """Yield all figures that need a browser. Raises UserError if there is no Chromium."""
    path = os.environ.get("MURMURATION_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise UserError("page: there is no Chromium; apt-get install chromium, or set MURMURATION_CHROMIUM")
    times = QUICK_TIMES if quick else TIMES
    case = f"{peers} peers, {history} rounds"
    view = node_view(peers, history)
    with sync_playwright() as playwright, Served(view) as served:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        painted, shown = zip(*(_open_page(browser, served.url, history) for _ in range(times)), strict=True)
        yield figure("page", case, "first paint", "s", painted, PAINT_AT_MOST_S)
        yield figure("page", case, "all shown", "s", shown)
        yield from _running_figures(browser, served, view, times, case)
        browser.close()


def _open_page(browser: Browser, url: str, history: int) -> tuple[float, float]:
    """Open a new page; return the seconds until it first paints, and until it shows the last round."""
    context = browser.new_context()
    page = context.new_page()
    begun = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_function(_SHOWS, arg=history)
    shown = time.perf_counter() - begun
    painted = float(page.evaluate(_PAINT))
    context.close()
    return painted, shown


def _running_figures(
    browser: Browser, served: Served, view: NodeView, times: int, case: str
) -> Iterator[Figure]:
    """Let rounds end one after another, then turn the table's pages; yield how long the page takes."""
    page = browser.new_context().new_page()
    page.goto(served.url)
    page.wait_for_function(_SHOWS, arg=view.round)
    page.evaluate(_WATCH)
    numbers = range(view.round + 1, view.round + 1 + times)
    ended_at = {number: _show_round(page, served, view, number) for number in numbers}
    seen = page.evaluate("() => window.seen")
    news = [seen[str(number)] - at for number, at in ended_at.items()]
    yield figure("page", case, "from an event to the page", "s", news, NEWS_AT_MOST_S)
    clicks = [float(page.evaluate(_CLICK)) for _ in range(times)]
    yield figure("page", case, "a click", "s", clicks, CLICK_AT_MOST_S)
    blocked = page.evaluate("() => window.blocked")
    yield figure("page", case, "longest task of the page", "s", [max(blocked, default=0.0)], CLICK_AT_MOST_S)


def _show_round(page: Page, served: Served, view: NodeView, number: int) -> float:
    """Let all peers end round `number`; return when, in Unix seconds, after the page has shown it."""
    peers = tuple(replace(peer, round=number) for peer in view.peers)
    news = replace(view, round=number, history=rounds(number), peers=peers)
    at = time.time()
    served.show(news)
    page.wait_for_function(_SHOWS, arg=number)
    return at
