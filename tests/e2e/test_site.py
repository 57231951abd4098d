"""The site builds as `make docs` builds it: no broken link, and nothing loads from elsewhere."""

from __future__ import annotations

from tests.sites import build_site
from website.outside import loads_from_elsewhere


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path):
    built = build_site(tmp_path)

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
    assert '<title id="steps-of-an-additive-session-title">' in protocol
    assert 'class="mermaid"' not in protocol
