"""A run, or several, as one HTML file: the same page as `node.show` serves, with all that it loads inside.

    page.html           --> its <link> and <script src> are replaced by the contents of what they name
    ./words.js and so on --> an import map of data: addresses, so that the modules stay as they are
    the views            --> JSON in a script element, which page.js finds and shows

The content security policy of the file forbids it to load anything, so it can be mailed and opened anywhere.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from node.observe.comparison import compared, thinned
from node.observe.page import FRONT, KINDS, PARTS, asset
from node.observe.views import NodeView, document, script_json
from node.system.errors import UserError
from protocol.actions import FOLLOWED

MAX_BYTES = 1_500_000
"""The largest size of a report, so that it can be mailed."""
MARK = "<!-- a report of murmuration -->"
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_LEAST_ROUNDS = 2
_IMPORT = re.compile(r'from "\./(\w+)\.js"')
_STYLE = re.compile(r'<link rel="stylesheet" href="page/([^"]+)">')
_ICON = re.compile(r'href="page/(icon\.svg)"')
_SCRIPT = re.compile(r'<script src="page/([^"]+)"( defer| type="module")></script>')


def single_file(views: Sequence[NodeView], at: float) -> str:
    """Returns the HTML of one run, or of the comparison of several and of each run.

    `at`: when it is made, in Unix seconds. Long histories are thinned out until the file has less than
    MAX_BYTES; the page says so. Raises UserError if even two rounds of each run do not fit.
    """
    most = max((len(view.history) for view in views), default=0)
    while len(made := _page(views, at, most).encode()) >= MAX_BYTES:
        if most <= _LEAST_ROUNDS:
            raise UserError(
                f"the report would have {len(made)} bytes; allowed: less than {MAX_BYTES}; give fewer folders"
            )
        most = max(_LEAST_ROUNDS, min(most - 1, most * MAX_BYTES * 9 // (len(made) * 10)))
    return made.decode()


def _page(views: Sequence[NodeView], at: float, most: int) -> str:
    kept = {
        "at": at,
        "runs": [_kept(view, most) for view in views],
        "comparison": document(compared(views)) if len(views) > 1 else None,
    }
    text = asset(FRONT).decode()
    text = text.replace("<!DOCTYPE html>\n", f"<!DOCTYPE html>\n{MARK}\n", 1)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
    text = text.replace('<meta charset="utf-8">\n', f'<meta charset="utf-8">\n{policy}\n', 1)
    data = f'<script type="application/json" id="kept">{script_json(kept)}</script>\n'
    text = text.replace("</body>", f"{data}</body>", 1)
    text = _STYLE.sub(lambda found: f"<style>\n{asset(found[1]).decode()}</style>", text)
    text = _ICON.sub(lambda found: f'href="{_address(asset(found[1]), found[1])}"', text)
    return _SCRIPT.sub(lambda found: _inlined(found[1]), text)


def _kept(view: NodeView, most: int) -> dict[str, object]:
    """Returns a run's view with at most `most` rounds, and with how all of its rounds ended."""
    endings = Counter(one.outcome for one in view.history)
    followed = sum(one.reason in FOLLOWED for one in view.history)
    alone = len(view.history) - endings["aggregated"] - followed
    rest = f"{alone} {'did not come' if view.exact else 'on its own'}" + (
        f", {followed} followed" if followed else ""
    )
    whole = {"rounds": len(view.history), "aggregated": endings["aggregated"], "rest": rest}
    shown = replace(view, history=thinned(view.history, most), relay=None)  # whom it carries for is theirs
    return {**document(shown), "whole": whole}


def _inlined(name: str) -> str:
    """Returns the script element of a script of the page, that of the main module after its import map."""
    source = asset(name).decode()
    if not name.endswith("page.js"):
        return f"<script>{source}</script>"
    modules = {
        _bare(part.removesuffix(".js")): _address(_with_bare_imports(asset(part).decode()).encode(), part)
        for part in PARTS
        if re.fullmatch(r"\w+\.js", part) and part != name
    }
    imports = f'<script type="importmap">{script_json({"imports": modules})}</script>'
    return f'{imports}\n<script type="module">{_with_bare_imports(source)}</script>'


def _with_bare_imports(source: str) -> str:
    """Rewrites a module's imports to names of the import map: a data: address has no relative addresses."""
    return _IMPORT.sub(lambda found: f'from "{_bare(found[1])}"', source)


def _bare(name: str) -> str:
    return f"murmuration/{name}"


def _address(content: bytes, name: str) -> str:
    return f"data:{KINDS[name.rpartition('.')[2]]};base64,{b64encode(content).decode()}"
