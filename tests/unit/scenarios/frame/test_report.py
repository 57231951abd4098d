import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from scenarios.frame.report import Ended, Provenance, figure, flatten, render, script_json
from scenarios.frame.spec import Chart, Judged, Table, Verdict, judge
from scenarios.swarms.results import SwarmResults
from scenarios.systems.swarm.charts import charts
from scenarios.systems.swarm.claims import CLAIMS, tables

ENDED = Ended(
    name="swarm",
    source="Murmuration",
    headline="Five peers & <more>.",
    note="",
    configuration={"seed": 3, "task": {"train": {"rounds": 20}}},
    provenance=Provenance(
        command="python -m scenarios run swarm --seed 3",
        versions={"python": "3.11"},
        started="2024-05-06T07:08:09+00:00",
        seconds=12.34,
    ),
)
LOADING = {"src", "href", "srcset", "data", "poster", "action", "background"}


class Page(HTMLParser):
    """Tags with their attributes, the text of every script and style, and the order of the headings."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "h2": []}
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in self.inside:
            self.inside[self._open[-1]].append(data)


@pytest.fixture
def page(results: SwarmResults) -> Page:
    return Page(render(ENDED, charts(results), tables(results), judge(CLAIMS, results)))


def test_nothing_is_loaded_from_anywhere_and_it_is_for_light_dark_and_phone(page: Page) -> None:
    assert not [(tag, attrs) for tag, attrs in page.tags if LOADING & attrs.keys()]
    assert not [tag for tag, _ in page.tags if tag in {"link", "iframe", "img", "object", "embed", "base"}]
    style = "".join(page.inside["style"])
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = [one["content"] for _, one in page.tags if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert any("Plotly" in script and len(script) > 1_000_000 for script in page.inside["script"])
    assert "prefers-color-scheme: dark" in style
    assert "max-width: 760px" in style
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags


def test_plots_come_first_and_have_their_data_then_claims_then_configuration(page, results):
    places = {attrs["id"] for tag, attrs in page.tags if tag == "div" and attrs.get("class") == "plot"}
    drawn = {chart["key"]: chart for chart in json.loads(page.inside["script"][0])}
    assert {f"chart-{key}" for key in drawn} == places
    assert {*drawn} == {"comparison", "headline", "seconds", "bytes-sent", "outcomes"}
    assert all(chart["traces"] for chart in drawn.values())
    peers = [f"peer {peer.peer}" for peer in results.peers]
    assert [one["name"] for one in drawn["headline"]["traces"]] == [*peers, "the best constant answer"]
    headings = [heading.strip() for heading in page.inside["h2"]]
    assert headings[len(drawn) :] == ["Claims", "Figures", "Run it again", "Configuration"]
    named = set(re.findall(r"var\((--[\w-]+)\)", json.dumps([one["traces"] for one in drawn.values()])))
    assert named
    assert all("".join(page.inside["style"]).count(f"{name}:") == 2 for name in named)


def test_claims_are_ticked_or_crossed_and_text_cannot_become_markup():
    judged = (Judged("kept", Verdict(True, {"a": 1})), Judged("broken", Verdict(False, {"gap": 0.123456})))
    html = render(ENDED, (), (), judged)
    assert "1 of 2 hold" in html
    assert "aria-label='does not hold'>✗" in html
    assert "gap 0.1235" in html
    nasty = "</script><script>alert(1)</script>"
    table = Table(nasty, (nasty,), ((nasty,),))
    chart = Chart("key", nasty, nasty, ({"name": nasty},), {}, under=table)
    html = render(ENDED, (chart,), (table,), (Judged(nasty, Verdict(True, {})),))
    assert nasty not in html
    assert html.index("id='chart-key'") < html.index("<div class='under'>") < html.index("Claims")
    assert "<" not in script_json({"a": nasty})
    assert json.loads(script_json({"a": nasty})) == {"a": nasty}
    assert "Five peers &amp; &lt;more&gt;." in html


def test_the_configuration_is_flat_and_a_long_one_folded_part_by_part():
    flat = flatten({"a": {"b": 1, "c": None}, "d": "x", "e": {}})
    assert flat == {"a.b": "1", "a.c": "null", "d": "x", "e": "{}"}
    arms = {f"arm-{number}": {"rounds": number, "clip": 0.5} for number in range(40)}
    ended = replace(ENDED, configuration={"seed": 3, "arms": arms})
    page = render(ended, (), (), ())
    assert "<dt>seed</dt><dd>3</dd>" in page
    assert page.count("<details>") == 1 + 40
    assert "<summary>arm-39</summary><dl><div><dt>rounds</dt><dd>39</dd></div>" in page
    few = {"seed": 3, "arms": dict(list(arms.items())[:4])}
    short = render(replace(ENDED, configuration=few), (), (), ())
    assert "<details>" not in short
    assert "<dt>arms.arm-3.rounds</dt>" in short


@pytest.mark.parametrize(("value", "said"), [(None, "none"), (3, "3"), (0.123456, "0.1235"), ("x", "x")])
def test_figures_for_people(value: float | int | str | None, said: str) -> None:
    assert figure(value) == said
