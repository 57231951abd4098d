"""The desk in a real browser: from a file to a checked task, and from a run to predictions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from benchmarks.page.server import job_view
from tests.browser.pages import DESK, PHONE, Window
from tests.browser.test_page import SIDEWAYS, grave
from tests.unit.node.desk.models import saved_model
from tests.unit.node.desk.served import TOKEN, Served
from tests.unit.node.desk.wards import ward_csv
from tests.unit.node.observe.folders import run_in

NARROW = {**PHONE, "width": 390}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ward_csv(tmp_path / "ward.csv")
    return tmp_path


@pytest.fixture
def served(folder) -> Iterator[Served]:
    with Served(folder) as desk:
        yield desk


def open_desk(window: Window, served: Served, scheme: str = "light", size: dict[str, int] = DESK) -> Page:
    page = window.raw(f"http://{served.endpoint}/#token={TOKEN}", scheme, size)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    return page


def flawless(page: Page) -> None:
    """The screen has no grave fault for those who use a screen reader, and nothing is cut off."""
    assert grave(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.sampled("phone")
@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", NARROW)], ids=["desk", "phone"])
def test_from_a_file_to_a_checked_task(window: Window, served: Served, folder: Path, scheme, size):
    page = open_desk(window, served, scheme, size)
    expect(page.locator("#swarms-none")).to_be_visible()
    expect(page.locator("#title")).to_have_text("Swarms")
    assert "token" not in page.url
    flawless(page)

    page.get_by_role("link", name="Choose a file").click()
    expect(page.locator("#rows tr")).to_have_count(5)
    expect(page.locator("#target")).to_have_value("outcome")
    page.locator("#peers").fill("3")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("checkbox", name="sex").check()
    flawless(page)
    page.get_by_role("button", name="See how it is read").click()
    expect(page.locator("#understood-columns tr")).to_have_count(5)
    expect(page.locator("#understood-columns tr").nth(0)).to_contain_text("target, 2 classes")
    command = "murmuration init --data ward.csv --target outcome --peers 3 --leave-out sex --out ward.toml"
    expect(page.locator("#terminal-command")).to_have_text(command)
    flawless(page)

    page.get_by_role("button", name="Propose a task").click()
    expect(page.locator("#title")).to_have_text("The task")
    expect(page.locator("#sentences")).to_contain_text("outcome (alive, died) from 2 columns")
    expect(page.locator("#sentences")).to_contain_text("epsilon")
    marks = page.locator("#marks > li")
    expect(page.locator("#marks-sentence")).to_contain_text(f"{marks.count()} lines of the task")
    age = marks.filter(has_text="age: mean")
    window.may_be_refused = True
    age.get_by_role("button").click()
    age.get_by_label("mean").fill("about fifty")
    age.get_by_role("button", name="Save").click()
    expect(age.get_by_role("alert")).to_contain_text("mean 'about fifty' is refused; allowed: a number")
    flawless(page)
    age.get_by_label("mean").fill("50")
    age.get_by_role("button", name="Save").click()
    expect(age).to_have_count(0)
    assert "mean = 50.0" in (folder / "ward.toml").read_text()

    page.get_by_role("button", name="Check").click()
    expect(page.locator("#findings .ok").first).to_be_visible()
    expect(page.locator("#check")).to_be_enabled()
    expect(page.locator("#findings .problem")).to_have_count(0)
    expect(page.locator("#findings")).to_contain_text("learning: ")
    expect(page.locator("#terminal-command")).to_have_text("murmuration check ward.toml --data ward.csv")
    flawless(page)

    page.get_by_role("link", name="All swarms").click()
    page.get_by_role("link", name="ward.toml").click()
    expect(marks.filter(has_text="age: mean")).to_have_count(0)


def test_what_is_refused_stands_where_it_was_asked_for(window: Window, served: Served, folder: Path):
    page = open_desk(window, served)
    (folder / "ward.toml").write_text("")
    page.get_by_role("link", name="Choose a file").click()
    page.locator("#target").select_option("age")
    page.get_by_text("More", exact=True).click()
    page.locator("#target-kind").select_option("count")
    page.locator("#peers").fill("0")
    page.evaluate("document.getElementById('data-form').noValidate = true")
    page.get_by_role("button", name="See how it is read").click()
    expect(page.locator("#look-why")).to_contain_text("--peers '0' is refused")
    page.locator("#peers").fill("3")
    page.locator("#target").select_option("outcome")
    page.locator("#target-kind").select_option("")
    page.get_by_role("button", name="See how it is read").click()
    page.get_by_role("button", name="Propose a task").click()
    expect(page.locator("#init-why")).to_contain_text("exists already")
    flawless(page)
    page.get_by_role("checkbox", name="replace it").check()
    page.get_by_role("button", name="Propose a task").click()
    expect(page.locator("#title")).to_have_text("The task")


@pytest.mark.sampled("desk")
@pytest.mark.parametrize(("scheme", "size"), [("dark", DESK), ("light", NARROW)], ids=["desk", "phone"])
def test_from_a_run_to_its_page_a_report_and_predictions(
    window: Window, served: Served, folder: Path, scheme, size
):
    run = run_in(folder / "runs" / "ward-1", job_view(ended=6), ended=True, over=True)
    shutil.copy(folder / "ward.csv", folder / "new.csv")
    page = open_desk(window, served, scheme, size)
    page.get_by_role("link", name="Choose a file").click()
    page.get_by_role("button", name="See how it is read").click()
    page.get_by_role("button", name="Propose a task").click()
    expect(page.locator("#title")).to_have_text("The task")
    saved_model(run, folder / "new.toml")

    page.get_by_role("link", name="All swarms").click()
    line = page.locator("#swarms tr")
    expect(line).to_contain_text("runs/ward-1")
    expect(line).to_contain_text("over")
    flawless(page)
    line.get_by_role("link").click()
    expect(page.locator("#run-sentence")).to_have_text("It is over: 6 sums.")
    expect(page.locator("#curves svg").first).to_be_visible()
    expect(page.locator("#model-sentence")).to_contain_text("the common model after 6 sums")
    page.get_by_role("button", name="Write the report").click()
    expect(page.locator("#report-lines")).to_contain_text("runs/ward-1/report.html")
    expect(page.locator("#terminal-command")).to_have_text("murmuration report runs/ward-1")
    page.locator("#predict-data").select_option("new.csv")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#predicted tr")).to_have_count(5)
    expect(page.locator("#predict-lines")).to_contain_text("predictions: 300 rows in new-predictions.csv")
    assert (folder / "new-predictions.csv").exists()
    assert page.evaluate(SIDEWAYS) == []
    flawless(page)

    page.get_by_role("link", name="Watch the rounds").click()
    expect(page.locator("#rounds tr")).to_have_count(6)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    page.get_by_role("link", name="All swarms").click()
    expect(page.locator("#swarms tr")).to_have_count(1)


def test_from_a_file_to_statistics_and_their_report(window: Window, served: Served, folder: Path):
    page = open_desk(window, served, "dark", NARROW)
    page.get_by_role("link", name="Choose a file").click()
    page.get_by_label("What for").select_option("statistics")
    expect(page.locator("#target")).to_be_hidden()
    page.get_by_label("The groups of table one").select_option("sex")
    page.locator("#formula").fill("outcome ~ age + height")
    window.may_be_refused = True
    page.get_by_role("button", name="See how it is read").click()
    expect(page.locator("#look-why")).to_contain_text("names 'height', which is no column of the task")
    page.locator("#formula").fill("outcome ~ age + lactate")
    page.get_by_label("Survival curves: the time").select_option("age")
    page.get_by_label("Survival curves: whether it happened then").select_option("outcome")
    flawless(page)
    page.get_by_role("button", name="See how it is read").click()
    page.get_by_role("button", name="Propose a task").click()
    expect(page.locator("#sentences")).to_contain_text("table one by sex")
    expect(page.locator("#sentences")).to_contain_text("outcome ~ age + lactate (binomial)")
    expect(page.locator("#sentences")).to_contain_text("outcome after age by sex, in steps of 1")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#findings")).to_contain_text("also those that the report hides")
    flawless(page)

    run = run_in(folder / "runs" / "ward-1", job_view(ended=6), ended=True, over=True)
    (run / "task-statistics.html").write_text("<h1>Statistics</h1>")
    (run / "task-statistics-table1.csv").write_text("Column,all,f,m\nn,300,151,149\nage,61,60,62\n")
    page.get_by_role("link", name="All swarms").click()
    page.locator("#swarms tr").get_by_role("link").click()
    expect(page.locator("#table-one tr")).to_have_count(2)
    expect(page.locator("#report-form")).to_be_hidden()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the report").click()
    assert Path(download.value.path()).read_text() == "<h1>Statistics</h1>"
    flawless(page)


def test_a_screen_takes_no_click_before_it_knows_what_it_shows(window: Window, served: Served):
    """Where the task came late, a click on Invite led to the first screen."""
    page, held = open_desk(window, served), []
    page.route("**/v1/task?*", lambda route: held.append(route))  # noqa: PLW0108 - it gets marks
    here = "#task?file=ward.toml&data=ward.csv"
    with page.expect_request("**/v1/task?*"):
        page.evaluate(f"location.hash = '{here}'")
    link = page.locator("#to-invite")
    link.scroll_into_view_if_needed()
    box = link.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.evaluate("location.hash") == here
    held[0].fulfill(json={"sentences": [], "lines": [], "marked": 0})
    link.click()
    expect(page.locator("#title")).to_have_text("Invite")
    assert page.evaluate("location.hash") == here.replace("task", "invite")


def test_a_screen_that_was_left_says_nothing_on_the_next_one(window: Window, served: Served):
    page, held = open_desk(window, served), []
    page.route("**/v1/task?*", lambda route: held.append(route))  # noqa: PLW0108 - it gets marks
    with page.expect_request("**/v1/task?*"):
        page.evaluate("location.hash = 'task?file=ward.toml'")
    page.get_by_role("link", name="All swarms").click()
    expect(page.locator("#title")).to_have_text("Swarms")
    window.may_be_refused = True
    with page.expect_response("**/v1/task?*"):
        held[0].fulfill(status=400, json={"error": "ward.toml cannot be read"})
    page.evaluate("fetch('/').then(() => 0)")  # what came before it was heard
    expect(page.locator("#failure")).to_be_hidden()


def test_a_step_of_a_screen_that_was_left_shows_no_command_on_the_next_one(window: Window, served: Served):
    page, held = open_desk(window, served), []
    page.route("**/v1/look", lambda route: held.append(route))  # noqa: PLW0108 - it gets marks
    page.evaluate("location.hash = 'data?file=ward.csv'")
    with page.expect_request("**/v1/look"):
        page.locator("#look").click()
    page.get_by_role("link", name="All swarms").click()
    expect(page.locator("#title")).to_have_text("Swarms")
    found = {"headline": "3 rows", "columns": [], "remarks": []}
    work = {"number": 1, "state": "done", "command": "murmuration init", "told": [], "result": found}
    with page.expect_response("**/v1/look"):
        held[0].fulfill(json={"work": work})
    page.evaluate("fetch('/').then(() => 0)")
    expect(page.locator("#terminal")).to_be_hidden()


def test_an_answer_about_a_file_that_is_no_longer_chosen_is_not_shown(window: Window, served: Served):
    Path("beds.csv").write_text("bed,free\n1,yes\n2,no\n")
    page, held = open_desk(window, served), []
    page.evaluate("location.hash = 'data?file=ward.csv'")
    expect(page.locator("#rows-head th")).to_have_count(5)
    page.route("**/v1/rows?file=beds.csv", lambda route: held.append(route))  # noqa: PLW0108 - it gets marks
    page.route("**/v1/look", lambda route: held.append(route))  # noqa: PLW0108 - it gets marks
    with page.expect_request("**/v1/rows?file=beds.csv"):
        page.locator("#data-file").select_option("beds.csv")
    with page.expect_request("**/v1/look"):
        page.locator("#look").click()
    with page.expect_response("**/v1/rows?file=ward.csv"):
        page.locator("#data-file").select_option("ward.csv")
    with page.expect_response("**/v1/rows?file=beds.csv"):
        held[0].fulfill(json={"columns": ["bed", "free"], "rows": [["1", "yes"]], "left_out": 0})
    found = {"headline": "2 rows", "columns": [], "remarks": []}
    work = {"number": 1, "state": "done", "command": "murmuration init", "told": [], "result": found}
    with page.expect_response("**/v1/look"):
        held[1].fulfill(json={"work": work})
    expect(page.locator("#look")).to_be_enabled()
    page.evaluate("fetch('/').then(() => 0)")
    expect(page.locator("#rows-head th")).to_have_count(5)
    expect(page.locator("#understood")).to_be_hidden()


def test_without_its_token_the_page_shows_nothing(window: Window, served: Served):
    window.may_be_refused = True
    page = window.raw(f"http://{served.endpoint}/")
    expect(page.locator("#unlock")).to_be_visible()
    expect(page.locator("#content")).to_be_empty()
    page.get_by_label("Token").fill("00" * 32)
    page.get_by_role("button", name="Show the page").click()
    expect(page.locator("#unlock-why")).to_have_text("This is not the token of this page")
    flawless(page)
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Show the page").click()
    expect(page.locator("#swarms-none")).to_be_visible()
