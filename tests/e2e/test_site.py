"""The site is built as `make docs` builds it: no broken link, and nothing in it is loaded from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.e2e.processes import ROOT
from website.outside import loads_from_elsewhere


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (built.returncode, built.stderr) == (0, "")
    pages = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    assert {
        "index.html",
        "tutorial.html",
        "reference/configuration.html",
        "explanation/protocol.html",
    } <= pages
    assert not [page for page in pages if "parts-" in page]
    assert not list(loads_from_elsewhere(tmp_path))
    protocol = (tmp_path / "explanation/protocol.html").read_text("utf-8")
    assert 'aria-label="The steps of the additive machine' in protocol
    assert 'class="mermaid"' not in protocol
