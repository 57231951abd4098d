"""Runs from their folders in a real browser: side by side, as single files, and while one of them runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from benchmarks.page.server import Served, node_view, rounds
from node.observe.comparison import compared
from node.report.single_file import single_file
from tests.browser.pages import DESK, PHONE, Window
from tests.browser.test_page import SIDEWAYS, grave

NARROW = {**PHONE, "width": 390}
AT = 1_790_000_000.0
RUNS = [
    replace(
        node_view(peers=3, ended=24), folder="runs/monday/a", ended=True, rounds=24, base_digest="01" * 32
    ),
    replace(node_view(peers=3, ended=9), folder="runs/tuesday/b", silent_since=AT, base_digest="23" * 32),
    replace(node_view(peers=3, ended=2), folder="runs/tuesday/c", privacy=None, base_digest="01" * 32),
]
WITHOUT = replace(node_view(ended=0), folder="runs/new", history=(), privacy=None, base_digest="45" * 32)


def compare(window: Window, url: str, scheme: str = "light", size: dict[str, int] = DESK) -> Page:
    page = window.raw(url, scheme, size)
    expect(page.locator("#runs-table tr").first).to_be_visible()
    return page


def report(tmp_path: Path, *views) -> str:
    path = tmp_path / "report.html"
    path.write_text(single_file(views, AT))
    return path.as_uri()


def test_runs_stand_side_by_side(window: Window):
    with Served(compared(RUNS)) as served:
        page = compare(window, served.url)
        expect(page).to_have_title(f"3 runs of digits · {served.endpoint} · Murmuration")
        lines = page.locator("#runs-table tr")
        expect(lines).to_have_count(3)
        expect(lines.nth(0)).to_contain_text("monday/a")
        expect(lines.nth(0)).to_contain_text("24 of 24, over")
        expect(lines.nth(1)).to_contain_text("9 of 40, silent since")
        expect(lines.nth(2)).to_contain_text("2 of 40, runs")
        expect(lines.nth(2)).to_contain_text("no privacy")
        assert lines.nth(1).locator("a").get_attribute("href") == "2/"
        expect(page.locator("#same-model")).to_have_text(
            "The same model, bit for bit: monday/a and tuesday/c."
        )
        expect(page.locator("#value-title")).to_have_text("Accuracy")
        label = page.locator("#value-plot").get_attribute("aria-label")
        assert label.startswith("monday/a: 73.8 %; tuesday/b: 55.0 %")
        expect(page.locator("#epsilon-plot canvas")).to_be_visible()
        expect(page.locator("#value-plot .u-legend")).to_contain_text("tuesday/c")


def test_runs_with_another_headline_say_which(window: Window):
    lines = tuple(replace(one, metric="auc", value=0.5 + one.round / 100) for one in rounds(4))
    others = [replace(RUNS[0], history=lines), replace(RUNS[1], history=lines)]
    with Served(compared(others)) as served:
        page = compare(window, served.url)
        expect(page.locator("#value-title")).to_have_text("AUC")
        expect(page.locator("#runs-table tr").first).to_contain_text("0.540 AUC")
        assert "monday/a: 0.540" in page.locator("#value-plot").get_attribute("aria-label")


def test_no_column_is_cut_off_on_a_small_screen(window: Window):
    lines = tuple(replace(one, metric="balanced-accuracy", value=one.value) for one in rounds(4))
    long = [
        replace(RUNS[place], history=lines, folder=f"runs/ward-of-the-clinic-{place}/a-long-name-of-a-folder")
        for place in (0, 1, 2)
    ]
    with Served(compared(long)) as served:
        page = compare(window, served.url, size={"width": 1280, "height": 800})
        expect(page.locator("#runs-table tr").first).to_contain_text("Balanced accuracy")
        assert page.evaluate(SIDEWAYS) == []


def test_a_run_before_its_first_round_leaves_nothing_blank(window: Window):
    with Served(compared([WITHOUT, RUNS[0]])) as served:
        page = compare(window, served.url)
        expect(page.locator("#runs-table tr").first).to_contain_text("none yet")
        assert "new: no round yet" in page.locator("#value-plot").get_attribute("aria-label")


def test_a_report_is_the_page_without_a_node(window: Window, tmp_path: Path):
    page = window.raw(report(tmp_path, RUNS[0]))
    expect(page).to_have_title("digits · runs/monday/a · Murmuration")
    expect(page.locator("#connection")).to_contain_text("A report of 21 Sept 2026")
    expect(page.locator("#now-title")).to_have_text("24 of 24 rounds are over")
    expect(page.locator("#now-sentence")).to_have_text("The run is over.")
    expect(page.locator("#accuracy-plot canvas")).to_be_visible()
    expect(page.locator("#rounds tr").first).to_contain_text("24")
    expect(page.locator("#model-download")).to_be_hidden()
    page.get_by_role("button", name="What does “epsilon” mean?").first.click()
    expect(page.locator("#term")).to_contain_text("differential privacy")


def test_a_report_of_several_leads_to_each_and_back(window: Window, tmp_path: Path):
    page = compare(window, report(tmp_path, *RUNS))
    expect(page.locator("#links")).to_be_hidden()
    page.get_by_role("link", name="tuesday/b").click()
    expect(page.locator("#identity")).to_contain_text("runs/tuesday/b")
    expect(page.locator("#now-sentence")).to_contain_text("The node has written nothing since")
    expect(page.locator("#rounds-sum")).to_have_text("8 aggregated, 1 on its own")
    page.get_by_role("link", name="All runs").click()
    expect(page.locator("#runs-table tr")).to_have_count(3)
    page.go_back()
    expect(page.locator("#identity")).to_contain_text("runs/tuesday/b")


def test_a_thinned_report_counts_all_rounds_and_says_what_it_shows(window: Window, tmp_path: Path):
    page = window.raw(report(tmp_path, replace(RUNS[0], history=rounds(5000))))
    expect(page.locator("#rounds-sum")).to_have_text("4,445 aggregated, 555 on its own")
    expect(page.locator("#rounds-left-out")).to_contain_text("of 5,000 rounds are shown, evenly spaced")


@pytest.mark.sampled("phone")
@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", NARROW)], ids=["desk", "phone"])
def test_axe_finds_nothing_grave_in_runs_and_none_scrolls_sideways(
    window: Window, tmp_path: Path, scheme: str, size: dict[str, int]
):
    window.may_lose_the_node = True  # the report comes after the server
    with Served(compared([*RUNS, WITHOUT])) as served:
        page = compare(window, served.url, scheme, size)
        assert grave(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert size is DESK or page.evaluate(SIDEWAYS) == []
    page = compare(window, report(tmp_path, *RUNS), scheme, size)
    assert grave(page) == []
    page.get_by_role("link", name="monday/a").click()
    expect(page.locator("#rounds tr").first).to_be_visible()
    assert grave(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
