"""A report is the page as one file, which loads nothing and stays small enough to be mailed."""

import json
import re
from base64 import b64decode
from dataclasses import replace
from html import unescape

import pytest

from benchmarks.page.server import node_view, rounds
from node.observe.page import PARTS
from node.report.single_file import MAX_BYTES, single_file
from node.system.errors import UserError

AT = 1_790_000_000.0
EVIL = "</script><script>alert(1)</script>"


def kept(text: str) -> dict:
    (found,) = re.findall(r'<script type="application/json" id="kept">(.*?)</script>', text)
    return json.loads(found)


def imports(text: str) -> dict[str, str]:
    (found,) = re.findall(r'<script type="importmap">(.*?)</script>', text)
    return json.loads(found)["imports"]


def test_nothing_is_loaded_from_anywhere_and_what_others_said_cannot_end_the_script():
    text = single_file([node_view()], AT)
    named = re.findall(r'(?:href|src)="([^"#]+)"', text)
    assert named
    assert all(address.startswith("data:") for address in named)
    assert "default-src 'none'" in unescape(text)
    assert 'from "./' not in text
    view = replace(node_view(), about={"task": EVIL}, folder=EVIL)
    text = single_file([view], AT)
    assert EVIL not in text
    assert kept(text)["runs"][0]["about"]["task"] == EVIL


def test_each_module_is_inside_and_finds_those_that_it_imports():
    modules = imports(single_file([node_view()], AT))
    sources = {name: b64decode(address.partition("base64,")[2]).decode() for name, address in modules.items()}
    plain = {part.removesuffix(".js") for part in PARTS if re.fullmatch(r"\w+\.js", part)}
    assert set(sources) == {f"murmuration/{name}" for name in plain - {"page"}}
    for source in sources.values():
        assert set(re.findall(r'from "([^"]+)"', source)) <= set(sources)


def test_one_run_has_no_comparison_and_several_have_one():
    one = kept(single_file([node_view(ended=4)], AT))
    two = kept(single_file([node_view(ended=4), node_view(ended=9)], AT))
    assert (one["comparison"], len(one["runs"]), one["at"]) == (None, 1, AT)
    assert [run["round"] for run in two["comparison"]["runs"]] == [4, 9]
    assert [len(run["history"]) for run in two["runs"]] == [4, 9]


@pytest.mark.parametrize(("runs", "count", "aggregated", "own"), [(1, 5000, 4444, 555), (8, 1000, 888, 111)])
def test_the_longest_histories_fit_and_say_what_is_left_out(runs, count, aggregated, own):
    followed = replace(rounds(1)[0], outcome="fallback", reason="budget-spent")
    view = replace(node_view(ended=count), history=(*rounds(count - 1), followed))
    text = single_file([view] * runs, AT)
    assert len(text.encode()) < MAX_BYTES
    for run in kept(text)["runs"]:
        assert 50 < len(run["history"]) < count
        assert run["history"][-1]["reason"] == "budget-spent"
        rest = f"{own} on its own, 1 followed"
        assert run["whole"] == {"rounds": count, "aggregated": aggregated, "rest": rest}


def test_what_does_not_fit_is_refused():
    view = replace(node_view(), about={"task": "x" * MAX_BYTES})
    with pytest.raises(UserError, match="allowed: less than 1500000; give fewer folders"):
        single_file([view], AT)
