import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from scenarios.frame.report import Ended, figure, flatten, render, script_json
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
    command="python -m scenarios run swarm --seed 3",
    versions={"python": "3.11"},
    started="2024-05-06T07:08:09+00:00",
    seconds=12.34,
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


def test_nothing_is_loaded_from_anywhere(page: Page) -> None:
    assert not [(tag, attrs) for tag, attrs in page.tags if LOADING & attrs.keys()]
    assert not [tag for tag, _ in page.tags if tag in {"link", "iframe", "img", "object", "embed", "base"}]
    style = "".join(page.inside["style"])
    assert "url(" not in style
    assert "@import" not in style


def test_the_browser_is_told_to_load_nothing(page: Page) -> None:
    policies = [
        attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies
    assert policies[0] is not None
    assert policies[0].startswith("default-src 'none';")
    assert "http" not in policies[0]


def test_every_plot_has_its_place_and_its_data(page: Page, results: SwarmResults) -> None:
    places = {attrs["id"] for tag, attrs in page.tags if tag == "div" and attrs.get("class") == "plot"}
    drawn = json.loads(page.inside["script"][0])
    assert {f"chart-{chart['key']}" for chart in drawn} == places
    assert {chart["key"] for chart in drawn} == {
        "comparison",
        "headline",
        "seconds",
        "bytes-sent",
        "outcomes",
    }
    assert all(chart["traces"] for chart in drawn)
    accuracy = next(chart for chart in drawn if chart["key"] == "headline")
    peers = [f"peer {peer.peer}" for peer in results.peers]
    assert [trace["name"] for trace in accuracy["traces"]] == [*peers, "the best constant answer"]


def test_plots_come_first_then_claims_then_configuration(page: Page, results: SwarmResults) -> None:
    headings = [heading.strip() for heading in page.inside["h2"]]
    plots = len(charts(results))
    assert headings[plots:] == ["Claims", "Figures", "Run it again", "Configuration"]


def test_the_plotting_library_is_inside(page: Page) -> None:
    assert any("Plotly" in script and len(script) > 1_000_000 for script in page.inside["script"])


def test_light_dark_and_phone(page: Page) -> None:
    style = "".join(page.inside["style"])
    assert "prefers-color-scheme: dark" in style
    assert "max-width: 760px" in style
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags


def test_every_colour_that_a_plot_names_is_in_the_style_sheet(page: Page, results: SwarmResults) -> None:
    style = "".join(page.inside["style"])
    named = set(re.findall(r"var\((--[\w-]+)\)", json.dumps([chart.traces for chart in charts(results)])))
    assert named
    assert all(style.count(f"{name}:") == 2 for name in named)


def test_claims_are_ticked_or_crossed_with_their_numbers() -> None:
    judged = (Judged("kept", Verdict(True, {"a": 1})), Judged("broken", Verdict(False, {"gap": 0.123456})))
    html = render(ENDED, (), (), judged)
    assert "1 of 2 hold" in html
    assert "aria-label='does not hold'>✗" in html
    assert "gap 0.1235" in html


def test_text_cannot_become_markup() -> None:
    nasty = "</script><script>alert(1)</script>"
    chart = Chart("key", nasty, nasty, ({"name": nasty},), {})
    html = render(
        ENDED, (chart,), (Table(nasty, (nasty,), ((nasty,),)),), (Judged(nasty, Verdict(True, {})),)
    )
    assert nasty not in html
    assert "Five peers &amp; &lt;more&gt;." in html


def test_json_in_a_script_cannot_end_it_and_reads_back() -> None:
    assert "<" not in script_json({"a": "</script>"})
    assert json.loads(script_json({"a": "</script>"})) == {"a": "</script>"}


def test_the_configuration_is_flat_with_dotted_keys() -> None:
    assert flatten({"a": {"b": 1, "c": None}, "d": "x", "e": {}}) == {
        "a.b": "1",
        "a.c": "null",
        "d": "x",
        "e": "{}",
    }


@pytest.mark.parametrize(("value", "said"), [(None, "none"), (3, "3"), (0.123456, "0.1235"), ("x", "x")])
def test_figures_for_people(value: float | int | str | None, said: str) -> None:
    assert figure(value) == said


def test_a_long_configuration_is_folded_part_by_part() -> None:
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
