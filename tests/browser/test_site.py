"""The documentation site, built and in a real browser: whole, accessible, and its drawings are legible."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from tests.browser.pages import PHONE, Window
from tests.browser.test_page import grave
from tests.sites import build_site
from tests.workers import common_folder, held
from website.machines import MACHINES
from website.outside import loads_from_elsewhere

pytestmark = pytest.mark.sampled  # the site takes a quarter of a minute to build

PROTOCOL = "explanation/protocol.html"
PAGES = (
    "index.html",
    "tutorial.html",
    "reference/configuration.html",
    PROTOCOL,
    "operating.html",
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *said: object) -> None:
        """Suppresses the log of requests."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the site, if no other worker has; returns its folder."""
    common = common_folder(tmp_path_factory)
    folder = common / "site"
    with held(common / "site.lock"):
        if not folder.exists():
            built = tmp_path_factory.mktemp("site")
            ended = build_site(built)
            assert (ended.returncode, ended.stderr) == (0, "")
            built.rename(folder)
    return folder


@pytest.fixture(scope="module")
def site(built: Path) -> Iterator[str]:
    """Serves the built site; returns its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(built: Path):
    """As `make docs` builds it: a broken link is an error. This needs no browser."""
    pages = {str(path.relative_to(built)) for path in built.rglob("*.html")}
    assert set(PAGES) <= pages
    assert not [page for page in pages if "parts-" in page]
    assert not list(loads_from_elsewhere(built))
    protocol = (built / PROTOCOL).read_text("utf-8")
    assert '<title id="steps-of-an-additive-session-title">' in protocol
    assert 'class="mermaid"' not in protocol


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_grave_on_a_page_and_a_phone_scrolls_it_one_way_alone(
    window: Window, site: str, name: str
):
    page = window.raw(site + name)
    assert grave(page) == []
    if name in ("index.html", PROTOCOL):
        page.emulate_media(color_scheme="dark")
        assert grave(page) == []
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_words_of_a_drawing_are_whole_and_meet_no_others(window: Window, site: str):
    """The box of each word lies within its drawing and crosses no other word's."""
    page = window.raw(site + PROTOCOL)
    drawings = page.locator(".machine svg").all()
    assert len(drawings) == sum(len(machine.tables) for machine in MACHINES)
    for drawing in drawings:
        whole, *words = drawing.evaluate(
            "svg => [svg, ...svg.querySelectorAll('text')].map(part => part.getBoundingClientRect())"
            ".map(box => [box.left, box.top, box.right, box.bottom])"
        )
        for number, (left, top, right, bottom) in enumerate(words):
            assert whole[0] <= left < right <= whole[2], drawing.inner_html()
            assert whole[1] <= top < bottom <= whole[3], drawing.inner_html()
            for other in words[:number]:
                apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
                assert apart, drawing.inner_html()


def test_a_drawing_is_reached_and_scrolled_by_the_keyboard_and_has_a_name_and_words(
    window: Window, site: str
):
    page = window.raw(site + PROTOCOL, size=PHONE)
    drawing = page.get_by_role("group", name="Steps of a masked session: drawing")
    drawing.focus()
    assert drawing.evaluate("box => getComputedStyle(box).outlineStyle") != "none"
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")
    picture = page.get_by_role("img", name="Steps of a masked session")
    assert "votes, all n votes: rounds" in picture.locator("desc").text_content()


def test_the_search_finds_a_page_where_the_site_is_opened_from_a_file(browser: Browser, built: Path):
    """A browser fetches nothing for such a page and starts no worker."""
    page = browser.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((built / "reference/configuration.html").as_uri())
    page.get_by_role("textbox", name="Search").press_sequentially("amnesty")
    found = page.locator(".md-search-result__item a").first
    found.wait_for()
    address = urlsplit(found.get_attribute("href"))
    assert (address.scheme, Path(address.path).is_file()) == ("file", True)
    page.close()
    assert said == []


def test_on_the_served_site_the_first_tab_leads_to_the_content_and_the_search_finds_a_page(
    window: Window, site: str
):
    page = window.raw(site + PROTOCOL)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#states-and-messages")
    page = window.raw(site)
    page.get_by_role("textbox", name="Search").press_sequentially("amnesty")
    page.locator(".md-search-result__item a").first.wait_for()
