"""The README's pictures: `python -m website.pictures` runs the demo and writes docs/images/*.png.

It runs `python -m scenarios run swarm`, and takes pictures of one node's page while the swarm learns and of
the report afterwards, each in a light and a dark scheme. It needs Chromium (MURMURATION_CHROMIUM names one).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
SCHEMES = ("light", "dark")
WINDOW: ViewportSize = {"width": 1200, "height": 800}
AT_ROUND = 12
"""The round, of the demo's 20, at which the picture is taken: curves have a shape, the swarm still runs."""
MOST_BYTES = 150_000
WITHIN_S = 120.0
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
_SHOWS = """(round) => Number(document.querySelector("#rounds th")?.textContent.replace(",", "")) >= round"""


def main() -> int:
    """Write the four pictures; return the exit status."""
    chromium = os.environ.get("MURMURATION_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        print("error: there is no Chromium; install one, or set MURMURATION_CHROMIUM", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        _take(browser, Path(folder) / "swarm")
        browser.close()
    return 0


def _take(browser: Browser, out: Path) -> None:
    """Run the demo in `out`, and take pictures of its first peer's page and of its report."""
    command = [sys.executable, "-m", "scenarios", "run", "swarm", "--out", str(out)]
    with subprocess.Popen(command, cwd=FOLDER.parents[1], stdout=subprocess.DEVNULL) as demo:
        pages = _opened(browser, _page_address(out / "peers" / "0" / "log.txt", demo))
        for scheme, page in pages.items():
            page.wait_for_function(_SHOWS, arg=AT_ROUND)
            _save(page, f"page-{scheme}")
        if demo.wait() != 0:
            raise RuntimeError(f"the demo ended with exit status {demo.returncode}")
    for scheme, page in _opened(browser, (out / "report.html").as_uri()).items():
        page.wait_for_selector("svg.main-svg")
        _save(page, f"report-{scheme}")


def _opened(browser: Browser, address: str) -> dict[str, Page]:
    """Open the page at an address once for each colour scheme."""
    pages = {}
    for scheme in SCHEMES:
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport=WINDOW, reduced_motion="reduce"
        )
        context.set_default_timeout(1000 * WITHIN_S)
        pages[scheme] = context.new_page()
        pages[scheme].goto(address)
    return pages


def _page_address(log: Path, demo: subprocess.Popen[bytes]) -> str:
    """The address of a node's page, from its log. Raises RuntimeError if the demo ends or prints none."""
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until and demo.poll() is None:
        found = re.search(r"^page: (\S+)$", log.read_text("utf-8") if log.exists() else "", re.MULTILINE)
        if found:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"{log} names no page")


def _save(page: Page, name: str) -> None:
    """Save a picture of the window, in at most 256 colours. Raises RuntimeError if it is too large."""
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    path = FOLDER / f"{name}.png"
    picture.quantize(colors=256, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise RuntimeError(f"{path} has {path.stat().st_size} bytes; allowed are {MOST_BYTES}")


if __name__ == "__main__":
    sys.exit(main())
