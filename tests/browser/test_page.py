"""The page in a real browser: its contents, its layouts, and its accessibility."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from benchmarks.page.server import (
    Served,
    job_view,
    made_up_curves,
    node_view,
    rounds,
    step_view,
    tracker_view,
)
from node.observe.journal import Remark
from node.observe.views import NodeView, Presence, TrackerView
from node.relay.relaying import CarriedMember, RelayView
from node.runtime.record.own_figures import OwnBook, OwnFigures
from node.storage.records import SwarmFigure
from node.training.figures.class_figures import ClassFigure, ClassFigures, Tenth
from node.training.figures.headline import Alone
from tests.browser.pages import PHONE, Window

TOKEN = "fe" * 32
NODE, TRACKER, STEPS = node_view(peers=8, ended=40), tracker_view(), step_view(ended=7)


def of_rare_events() -> NodeView:
    """A node whose model says no to every row; every fifth round has the metric of all."""
    of_all = SwarmFigure("auc", 0.61, 0.5, None, 0.58, 540, 3, 34)
    rounds = tuple(
        replace(
            one,
            metric="auc",
            value=0.5 + one.round / 400,
            baseline=0.5,
            metrics={"balanced-accuracy": 0.5},
            only_class="no",
            flaws=("worse than guessing",),
            swarm=of_all if one.round % 5 == 0 else None,
        )
        for one in NODE.history
    )
    return replace(NODE, history=rounds, accuracy_of="validation")


def of_a_relay(view: NodeView | TrackerView) -> NodeView | TrackerView:
    """A tracker or a node that carries for one member."""
    member = CarriedMember(key="ab" * 8, swarm="cd" * 8, carriers=2, carried_bytes=72_000_000)
    relay = RelayView((member,), 1, 1, 3, 72_000_000, 1200, 0, {"to a member that is away": 4})
    return replace(view, relay=relay)


SHOWN = {
    "node": NODE,
    "tracker": TRACKER,
    "relay": of_a_relay(TRACKER),
    "steps": STEPS,
    "rare events": of_rare_events(),
    "job": job_view(),
}
GRAVE = {"serious", "critical"}


def grave(page: Page) -> list[str]:
    """Returns the violations that axe calls serious or critical."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]


SIDEWAYS = """[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth)
    .map(box => box.getAttribute('aria-labelledby'))"""
"""The tables that scroll sideways."""

DRAWN = """
window.drawn = [];
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const at = this.getTransform().transformPoint({ x, y }), wide = this.measureText(text).width;
  const left = at.x - { right: wide, center: wide / 2 }[this.textAlign] || 0;
  const box = this.canvas.closest('[id]').id;
  const upright = this.textAlign === 'right', whole = this.canvas.width;
  window.drawn.push({ box, text, left, right: left + wide, whole, upright });
  fill.apply(this, arguments);
};
"""
"""Records each text that is drawn into a chart, and where it begins and ends."""


def connection(page: Page):
    return page.locator("#connection")


OWN = OwnFigures(
    Alone("accuracy", 0.7123, 0.5),
    ClassFigures(
        (
            ClassFigure("no", 90, 20, 0.95, 21, ()),
            ClassFigure("yes", 10, 4, None, 3, tuple(place / 50 for place in range(51))),
        ),
        (Tenth(0.1, 0.05, 12), Tenth(0.7, 0.6, 12)),
        "yes",
    ),
    ("comment", "ward"),
)


# -- what it shows -------------------------------------------------------------------------------------


def test_a_node_shows_its_round_its_peers_its_rounds_and_its_privacy(window: Window):
    with Served(NODE) as served:
        page = window.open(served.url)
        expect(page).to_have_title("digits · " + served.endpoint + " · Murmuration")
        expect(page.locator("#now-title")).to_have_text("Round 41 of 41")
        expect(page.locator("#now-steps [aria-current=step]")).to_contain_text("Exchange shares")
        expect(page.locator("#now-sentence")).to_contain_text("waiting for 10.0.0.3:9001")
        expect(page.locator("#now-waiting")).to_be_hidden()
        expect(page.locator("#now-left")).to_contain_text("at most")
        expect(page.locator("#peers tr")).to_have_count(8)
        expect(page.locator("#peers tr").nth(3)).to_contain_text("Not reachable")
        expect(page.locator("#peers tr").nth(3)).to_contain_text("connection refused")
        expect(page.locator("#rounds tr").first).to_contain_text("40")
        expect(page.locator("#rounds-sum")).to_have_text("36 aggregated, 4 on its own")
        expect(page.locator("#privacy-sentence")).to_contain_text("Epsilon 1.25 of 4 is spent, 2.75 remain")
        expect(page.locator("#privacy-sentence")).to_contain_text("for one record (row)")
        expect(page.locator("#remarks .warning").last).to_contain_text("Warning: 12 of 4810 coordinates")
        expect(page.locator("#accuracy-plot canvas")).to_be_visible()
        expect(page.locator("#accuracy-plot")).to_have_attribute(
            "aria-label",
            "Accuracy from 20.4 % after round 1 to 81.8 % after round 40. "
            "Each round stands in the table of rounds.",
        )
        expect(page.locator("#accuracy-caption")).to_contain_text(
            "It stays on this node. Always the largest class: 10.0 %."
        )
        expect(page.locator("#only-class")).to_be_hidden()
        expect(page.locator("#rounds-head th").nth(3)).to_have_text("Accuracy")
        expect(page.locator("#accuracy-plot .u-series", has_text="All peers")).to_be_hidden()
        assert "All peers" not in page.locator("#figures").inner_text()
        for role in ("banner", "main"):
            expect(page.get_by_role(role)).to_have_count(1)
        expect(page.get_by_role("meter", name="Share of the privacy budget")).to_have_attribute(
            "aria-valuenow", "31"
        )
        for table in page.get_by_role("table").all():
            assert table.locator("caption").count() == 1 or "u-legend" in (table.get_attribute("class") or "")


def test_a_model_of_rare_events_is_shown_by_its_auc_beside_that_of_all(window: Window):
    with Served(of_rare_events()) as served:
        page = window.open(served.url)
        expect(page.locator("#accuracy-title")).to_have_text("AUC")
        expect(page.locator("#accuracy-plot")).to_have_attribute(
            "aria-label",
            "AUC from 0.502 after round 1 to 0.600 after round 40. Each round stands in the table of rounds.",
        )
        expect(page.locator("#accuracy-caption")).to_contain_text(
            "only inside the sum of all peers. Guessing: 0.500."
        )
        expect(page.locator("#only-class")).to_have_text(
            "The model says “no” to every row: it does not tell the classes apart; worse than guessing."
        )
        figures = page.locator("#figures")
        expect(figures).to_contain_text("on the validation rows; balanced accuracy 50.0 %")
        expect(figures).to_contain_text("0.610")
        expect(figures).to_contain_text("AUC on 540 rows of 3 members; mine 0.580")
        expect(page.locator("#rounds-head th").nth(3)).to_have_text("AUC")
        expect(page.locator("#rounds tr").first).to_contain_text("0.600")
        legend = page.locator("#accuracy-plot .u-legend")
        expect(legend).to_contain_text("All peers")
        expect(legend).to_contain_text("A constant answer")


def test_a_metric_of_all_rows_with_noise_says_about_and_how_far_off(window: Window):
    found = SwarmFigure("accuracy", 0.61, 0.5, None, 0.58, 540, 3, 34, noised=True, error=0.021)
    last = replace(NODE.history[-1], swarm=found)
    with Served(replace(NODE, history=(*NODE.history[:-1], last))) as served:
        figures = window.open(served.url).locator("#figures")
        expect(figures).to_contain_text("about 61.0 %")
        expect(figures).to_contain_text("accuracy on about 540 rows of 3 members, noise ±2.1 %; mine 58.0 %")


def test_numbers_have_no_accuracy(window: Window):
    rounds = tuple(
        replace(
            one,
            accuracy=None,
            metric="r2",
            value=-0.5 + one.round / 40,
            baseline=0.0,
            metrics={"mae": 1234.5},
        )
        for one in NODE.history
    )
    with Served(replace(NODE, history=rounds)) as served:
        page = window.open(served.url)
        expect(page.locator("#accuracy-title")).to_have_text("R²")
        expect(page.locator("#figures")).to_contain_text("MAE 1235")
        expect(page.locator("#accuracy-caption")).to_contain_text("Always the mean: 0.000.")
        assert "Accuracy" not in page.locator("main").inner_text()


def test_a_node_says_why_no_group_forms_and_whom_a_model_went_on_without(window: Window):
    why = (
        "waiting for 10.0.0.3:9001, who made the last model; goes on without them after 3 more failed rounds"
    )
    gone = replace(NODE.history[-1], without=("10.0.0.3:9001", "a1b2c3d4"))
    shown = replace(NODE, waiting=why, electors_missing=1, history=(*NODE.history[:-1], gone))
    with Served(shown) as served:
        page = window.open(served.url)
        expect(page.locator("#now-waiting")).to_have_text(why.replace("waiting", "Waiting", 1))
        last = page.locator("#rounds tr").first
        expect(last).to_contain_text("Aggregated without 10.0.0.3:9001, a1b2c3d4, gone for good")
        assert not grave(page)
        expect(window.open(served.url, "dark", PHONE).locator("#now-waiting")).to_be_visible()


def test_a_node_without_privacy_says_so(window: Window):
    with Served(replace(NODE, privacy=None)) as served:
        page = window.open(served.url)
        expect(page.locator("#privacy-sentence")).to_contain_text("No differential privacy is on")
        expect(page.locator("#privacy-gauge")).to_be_hidden()


def test_a_node_whose_members_share_noise_says_whom_its_epsilon_rests_on(window: Window):
    with Served(STEPS) as served:
        page = window.open(served.url)
        said = page.locator("#privacy-sentence")
        expect(said).to_contain_text("Epsilon 1.25 of 3 is spent")
        expect(said).to_contain_text("if at least 6 other members are honest.")
        trust = page.locator("#privacy-trust")
        expect(trust).to_contain_text(
            "Each record (row) in your data is protected with epsilon 3 as long as at least 6 of the other "
            "members are honest: they add their noise and tell nobody. With 4 it is 3.9, with 2 it is 6. If "
            "all others work together, only your own noise is left: epsilon 20."
        )
        expect(trust).to_contain_text("A member that adds no noise counts as dishonest, and nobody can tell.")
        levels = page.locator("#privacy-levels tr")
        expect(levels).to_have_count(4)
        for place, told in enumerate(
            (
                ("6, as declared", "1.25", "3"),
                ("4", "1.6", "3.9"),
                ("2", "2.5", "6"),
                ("none", "8.2", "20"),
            )
        ):
            expect(levels.nth(place).locator("th, td")).to_have_text(list(told))
        expect(page.locator("#privacy-facts")).to_contain_text("76; the model has had 74 steps")
        expect(page.locator("#figures")).to_contain_text("of 3; 8.2 if all others collude")
        assert "trust" not in page.locator("#about dt").all_inner_texts(), "it stands in the privacy card"
        served.show(replace(STEPS, privacy=None, about={"task": "digits"}))
        expect(page.locator("#privacy-honest")).to_be_hidden()
        expect(trust).to_be_hidden()


def test_a_node_whose_rounds_are_several_steps_counts_both(window: Window):
    with Served(STEPS) as served:
        page = window.open(served.url)
        expect(page.locator("#now-title")).to_have_text("Round 8 of 20, step 75 of 195")
        expect(page.locator("#accuracy-plot")).to_have_attribute(
            "aria-label",
            "Accuracy from 20.4 % after step 10 to 50.7 % after step 70. "
            "Each round stands in the table of rounds.",
        )
        expect(page.locator("#accuracy-plot .u-legend tr").first).to_have_text(re.compile(r"^Step\s*70$"))
        expect(page.locator("#rounds-head th").last).to_have_text("If all collude")
        failed = page.locator("#rounds tr").nth(2)
        expect(failed.locator("td").first).to_have_text("10 steps, 1 sum failed; missing 6d3c0ff1")
        expect(page.locator("#rounds tr").first.locator("td").first).to_have_text("10 steps")
        expect(failed.locator("td").last).to_have_text("1.48")
        served.show(replace(STEPS, round=20, generation=195))
        expect(page.locator("#now-title")).to_have_text("20 of 20 rounds are over")
        served.show(NODE)
        expect(page.locator("#now-title")).to_have_text("Round 41 of 41")
        expect(page.locator("#accuracy-plot .u-legend tr").first).to_contain_text("Round")


def test_a_job_counts_its_sums_says_what_they_are_for_and_what_follows_if_a_member_is_missing(window: Window):
    job = job_view(ended=7)
    missing = replace(job, waiting="waiting for ward b; the job stops", waiting_since=1000.0)
    late = replace(job.history[-1], outcome="fallback", reason="late-member", participants=0)
    with Served(missing) as served:
        page = window.open(served.url)
        expect(page.locator("#now-title")).to_have_text("Sum 8: curves")
        expect(page.locator("#now-waiting")).to_contain_text(
            "Waiting for ward b; the job stops (since 1 Jan 1970"
        )
        expect(page.locator("#rounds-sum")).to_have_text("7 done, 0 did not come")
        expect(page.locator("#rounds tr").first.locator("th, td").nth(1)).to_have_text("Curves")
        expect(page.locator("#rounds-head th").first).to_have_text("Sum")
        expect(page.locator("#privacy-sentence")).to_contain_text(
            "All the others together can compute yours."
        )
        expect(page.locator("#accuracy-plot .u-legend tr").first).to_have_text(re.compile(r"^Sum\s*7$"))
        served.show(replace(job, phase="following", waiting_for=(), history=(*job.history[:-1], late)))
        expect(page.locator("#now-sentence")).to_contain_text("its rows count from the next job on")
        expect(page.locator("#rounds tr").first).to_contain_text("Curves: by the others")
        served.source.ended = True
        served.show(job)
        expect(page.locator("#now-title")).to_have_text("Unfinished: 7 sums are done")
        served.show(replace(job, over=True))
        expect(page.locator("#now-title")).to_have_text("7 sums are done")


def test_each_column_has_its_curve_the_most_important_first_and_many_are_folded(window: Window):
    found = made_up_curves(14, ("a", "b"))
    with Served(replace(NODE, curves=found)) as served:
        page = window.open(served.url)
        curves = page.locator("#curves svg")
        expect(curves).to_have_count(12)
        told = re.compile(r"^column 0: from .0\.223 at from None to 22\.5 to .3\.76 at missing\.$")
        expect(curves.first).to_have_attribute("aria-label", told)
        expect(page.locator("#curves-sentence")).to_contain_text("the odds of “a” against the other classes")
        page.locator("#curves-output").select_option("b")
        expect(page.locator("#curves-sentence")).to_contain_text("the odds of “b”")
        page.locator("#curves-rest summary").click()
        expect(curves).to_have_count(14)
        page.locator("#curves-values summary").click()
        expect(page.locator("#curves-table tr").first).to_contain_text("column 0")
        bare = replace(found.columns[0], bands=())
        served.show(replace(NODE, curves=replace(found, scale="number", columns=(bare,))))
        expect(page.locator("#curves-sentence")).to_contain_text("No bands are known")
        expect(curves).to_have_count(1)
        served.show(replace(NODE, curves=None))
        expect(page.locator("#curves")).to_be_hidden()


def test_a_tracker_shows_who_is_here_and_nothing_that_comes_from_data(window: Window):
    with Served(TRACKER) as served:
        page = window.open(served.url)
        expect(page.locator("#swarms")).to_contain_text("5 peers here, 2 ready; a group needs 3")
        expect(page.locator("#swarms")).to_contain_text("waits for 1 more peer. 6 groups formed")
        expect(page.locator("#swarms tbody tr")).to_have_count(5)
        assert page.locator("canvas").count() == 0
        served.show(replace(TRACKER, swarms=(), peers=0))
        expect(page.locator("#swarms")).to_have_text("No peer is here.")
        served.show(TRACKER)
        expect(page.locator("#swarms tbody tr")).to_have_count(5)


def test_members_behind_a_relay_are_shown_as_here_or_away(window: Window):
    here = Presence("relay.example", None, "")
    cases = [
        ("reachable", here, ["Here", "by the relay relay.example"]),
        ("unreachable", Presence("", 1000.0, "it broke"), ["Away", "away since", "1970", ": it broke"]),
        ("not met", Presence("", None, ""), ["Not seen yet", "not seen since this node started"]),
        ("left", here, ["Has left"]),
    ]
    peers = tuple(
        replace(NODE.peers[0], contact=contact, presence=presence) for contact, presence, _ in cases
    )
    with Served(replace(NODE, peers=peers)) as served:
        rows = window.open(served.url).locator("#peers tr")
        for number, (_, _, texts) in enumerate(cases):
            for text in texts:
                expect(rows.nth(number)).to_contain_text(text)


@pytest.mark.parametrize("view", [TRACKER, NODE], ids=["tracker", "node"])
def test_a_relay_shows_who_is_connected_and_how_much_it_carries(window: Window, view: NodeView | TrackerView):
    with Served(view) as served:
        page = window.open(served.url)
        expect(page.locator("#relay")).to_have_count(0)
        served.show(of_a_relay(view))
        expect(page.locator("#relay")).to_be_visible()
        expect(page.locator("#relay-facts")).to_contain_text("72.0 MB")
        expect(page.locator("#relay-facts")).to_contain_text("in 1,200 frames")
        expect(page.locator("#relay-members tr")).to_have_count(1)
        expect(page.locator("#relay-members tr").first).to_contain_text("abababab")


def narrow(low: float, high: float) -> NodeView:
    """Returns a view whose accuracy and loss lie between two values."""
    lines = tuple(
        replace(
            one,
            accuracy=min(1.0, low + (high - low) * place / 7),
            loss=low + (high - low) * place / 7,
            train_loss=None,
        )
        for place, one in enumerate(rounds(8))
    )
    return replace(NODE, history=lines)


@pytest.mark.parametrize(
    ("low", "high", "width"),
    [(0.9701, 0.9723, 390), (0.1, 0.9, 1200), (0.98, 0.98, 1200), (123456.0, 987654.0, 390)],
)
def test_the_labels_of_an_axis_differ_and_are_whole(window: Window, low: float, high: float, width: int):
    with Served(narrow(low, high)) as served:
        page = window.raw("about:blank", size={"width": width, "height": 800})
        page.add_init_script(DRAWN)
        page.goto(served.url)
        expect(page.locator("#rounds tr")).to_have_count(8)
        page.wait_for_function("window.drawn.some(({ box }) => box === 'loss-plot')")
        drawn = page.evaluate("window.drawn")
    for box in ("accuracy-plot", "loss-plot"):
        of_box = [one for one in drawn if one["box"] == box]
        assert not [one for one in of_box if one["left"] < 0 or one["right"] > one["whole"]]
        last: list[str] = []  # the chart may be drawn more than once: the last time counts
        for one in of_box:
            last = [*last, one["text"]] if one["upright"] else []
        assert len(last) >= 2
        assert len(set(last)) == len(last), last


def test_before_the_first_round_nothing_is_blank(window: Window):
    begun = replace(NODE, history=(), round=0, generation=0, peers=(), remarks=(), privacy=None)
    with Served(begun) as served:
        page = window.open(served.url)
        expect(page.locator("#figures dd").first).to_contain_text("not yet")
        assert "\u2013" not in page.locator("#figures").inner_text()
        for name in ("accuracy", "loss"):
            said = page.locator(f"#{name}-plot").evaluate("box => getComputedStyle(box, '::before').content")
            assert said == '"The curve begins when the first round is over."'
        expect(page.locator("#rounds-none")).to_be_visible()
        expect(page.locator("#peers-none")).to_have_text("Nobody is known yet.")
        expect(page.locator("#model-download")).to_be_hidden()
        for heading in page.locator("section.card:visible, figure:visible").all():
            assert len(heading.inner_text().split("\n")) > 1, heading.inner_text()
        assert grave(page) == []
        served.show(NODE)
        expect(page.locator("#rounds-none")).to_be_hidden()
        expect(page.locator("#accuracy-plot")).not_to_have_class(re.compile("empty"))


def test_a_missing_peer_is_among_the_warnings_at_once_and_until_it_is_back(window: Window):
    here = replace(NODE.peers[0], endpoint="10.0.0.9:9001", contact="reachable", why="")
    gone = replace(here, contact="unreachable", why="connection refused")
    with Served(replace(NODE, peers=(here,), remarks=())) as served:
        page = window.open(served.url)
        expect(page.locator("#remarks")).to_have_text("Nothing so far.")
        served.show(replace(NODE, peers=(gone,), remarks=()))
        warning = page.locator("#remarks .warning")
        expect(warning).to_have_text("nowWarning: 10.0.0.9:9001 cannot be reached: connection refused")
        served.show(replace(NODE, peers=(here,), remarks=()))
        expect(page.locator("#remarks")).to_have_text("Nothing so far.")


def shows_own_rows(page: Page) -> None:
    own = page.locator("#own")
    expect(own.locator("#own-alone")).to_contain_text(
        "Accuracy: 81.8 % together, 71.2 % alone after 50 % of the training, 10.0 % by a constant answer."
    )
    expect(own.locator("tbody#own-classes tr")).to_have_count(2)
    expect(own.locator("tbody#own-classes tr").nth(0)).to_have_text("no902095.0 %21")
    expect(own.locator("tbody#own-classes tr").nth(1)).to_contain_text("yes104")
    expect(own.locator("#roc-plot")).to_have_attribute("aria-label", re.compile("false alarms: yes 10 %"))
    expect(own.locator("#calibration-plot")).to_have_attribute(
        "aria-label", "Said, and so: 10 %, 5 %; 70 %, 60 %."
    )
    expect(own.locator("#own-left-out")).to_contain_text("2 columns of your file: comment, ward.")
    expect(page.locator("#figures")).to_contain_text("Alone71.2 %")


def test_what_the_own_rows_show_stands_above_peers_and_traffic(window: Window):
    with Served(replace(NODE, own=OWN)) as served:
        page = window.open(served.url)
        shows_own_rows(page)
        expect(page.locator("#own-mark")).to_be_hidden()
        titles = page.locator("section h2").all_inner_texts()
        order = ["Your own rows", "Rounds", "Privacy", "Peers", "Traffic since the start", "About this node"]
        told = [title.replace("?", "").strip() for title in titles]
        assert [title for title in told if title in order] == order
        assert grave(page) == []


def test_with_privacy_this_machine_asks_for_it_and_marks_it(window: Window):
    book = OwnBook(secret=True, unread=OWN.left_out)
    with Served(replace(NODE, own_here=True, history=rounds(39)), own=book) as served:
        page = window.open(served.url)
        expect(page.locator("#own-left-out")).to_contain_text("comment, ward")
        book.compared(OWN.alone)
        book.measured(lambda: OWN.classes)
        served.show(replace(NODE, own_here=True))
        shows_own_rows(page)
        expect(page.locator("#own-mark")).to_contain_text("Not covered by epsilon: do not pass on.")
        expect(page.locator("#figures")).to_contain_text("not covered by epsilon: do not pass on")


def test_the_last_word_of_a_run_is_who_took_part_and_not_who_is_left(window: Window):
    window.may_lose_the_node = True
    left = tuple(replace(peer, contact="left") for peer in NODE.peers)
    over = replace(NODE, peers=left, round=NODE.rounds, history=rounds(40))
    with Served(over) as served:
        page = window.open(served.url)
        expect(page.locator("#figures")).to_contain_text("4others took part in the last common round (40)")
        expect(page.locator("#peers-sum")).to_have_text(
            "4 others took part in the last common round (40): 5 members with this node"
        )
        assert "reachable" not in page.locator("#figures").inner_text()
        expect(page.locator("#remarks .warning")).to_have_count(1)
    alone = tuple(replace(one, participants=0) for one in over.history)
    with Served(replace(over, history=alone)) as served:
        page = window.open(served.url)
        expect(page.locator("#peers-sum")).to_have_text(
            "0 others took part, of 8 known: this node learned alone"
        )


@pytest.mark.parametrize("token", [None, TOKEN])
def test_the_owner_downloads_the_common_model(window: Window, tmp_path: Path, token: str | None):
    model = tmp_path / "model.safetensors"
    model.write_bytes(b"\x08safetensors" * 1000)
    with Served(replace(NODE, model_bytes=12_000), token, model) as served:
        page = window.open(f"{served.url}#token={token}" if token else served.url)
        button = page.locator("#model-download")
        expect(button).to_have_text("Download the common model (12.0 kB)")
        with page.expect_download() as waiting:
            button.click()
        assert waiting.value.suggested_filename == "digits-model.safetensors"
        assert Path(waiting.value.path()).read_bytes() == model.read_bytes()


def test_a_model_that_is_gone_is_told(window: Window, tmp_path: Path):
    window.may_lose_the_node = True  # Chromium logs a 404 on the console
    with Served(replace(NODE, model_bytes=12_000), None, tmp_path / "model.safetensors") as served:
        page = window.open(served.url)
        page.locator("#model-download").click()
        expect(page.locator("#model-why")).to_contain_text("The model cannot be had: there is no model yet")


TERMS = ("group", "additive shares", "fallback", "epsilon", "base")


def test_a_term_is_explained_behind_it(window: Window):
    with Served(NODE) as served:
        page = window.open(served.url, size={**PHONE, "width": 390})
        card = page.locator("#term")
        for term in TERMS:
            button = page.get_by_role("button", name=f"What does “{term}” mean?").first
            expect(card).to_be_hidden()
            button.focus()
            page.keyboard.press("Enter")
            expect(card).to_be_visible()
            expect(card.locator("strong")).to_have_text(term)
            box = card.bounding_box()
            assert box
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            if term == TERMS[0]:
                assert grave(page) == []
            page.keyboard.press("Escape")
            expect(card).to_be_hidden()
            expect(button).to_be_focused()


def test_what_others_say_is_text_and_no_markup(window: Window):
    evil = "<img src=x onerror=alert(1)>"
    peer = replace(NODE.peers[0], endpoint=evil, why=evil)
    with Served(
        replace(NODE, peers=(peer,), remarks=(Remark(1.0, True, evil),), about={"task": evil})
    ) as served:
        page = window.open(served.url)
        expect(page.locator("#peers")).to_contain_text(evil)
        expect(page.locator("#remarks")).to_contain_text(evil)
        assert page.locator("img").count() == 0


def test_the_live_region_is_quiet_while_much_happens(window: Window):
    with Served(replace(NODE, history=rounds(1), round=1, remarks=())) as served:
        page = window.raw("about:blank")
        page.clock.install()
        page.goto(served.url)
        announcer = page.locator("#announcer")
        page.clock.run_for(100)
        expect(connection(page)).to_have_attribute("data-state", "live")
        page.clock.run_for(100)
        expect(announcer).to_contain_text("Round 1:")
        for ended in (2, 3, 4):
            served.show(replace(NODE, history=rounds(ended), round=ended, remarks=()))
            expect_row(page, ended)
            expect(announcer).to_contain_text("Round 1:")
        page.clock.run_for(11_000)
        expect(announcer).to_contain_text("Round 4: Aggregated; test accuracy")


def expect_row(page: Page, number: int) -> None:
    """Expects the table to show this round first; advances the fixed clock so that frames are drawn."""
    for _ in range(600):
        page.clock.run_for(16)
        if page.locator("#rounds tr").first.inner_text().startswith(f"{number}\t"):
            return
        page.request.get(page.url + "page/icon.svg")
    raise AssertionError(f"round {number} never came")


def test_the_end_of_a_run_is_no_loss(window: Window):
    window.may_lose_the_node = True
    with Served(NODE) as served:
        page = window.open(served.url)
    expect(connection(page)).to_have_attribute("data-state", "ended")
    expect(page.locator("#now-sentence")).to_contain_text("The node ended before its run was over")


# -- to whom -------------------------------------------------------------------------------------------


def test_without_the_token_nothing_is_shown_and_the_right_one_opens(window: Window):
    window.may_lose_the_node = True  # Chromium logs a 401 on the console
    with Served(NODE, TOKEN) as served:
        page = window.raw(served.url)
        expect(connection(page)).to_have_attribute("data-state", "locked")
        assert "digits" not in page.content()
        assert grave(page) == []
        page.get_by_label("Token").fill("00" * 32)
        page.get_by_role("button", name="Show the page").click()
        expect(page.locator("#unlock-why")).to_have_text("This is not the token of this node")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("digits")
        expect(page.locator("#unlock")).to_be_hidden()


def test_the_address_with_the_token_opens_and_does_not_keep_it(window: Window):
    with Served(NODE, TOKEN) as served:
        page = window.open(f"{served.url}#token={TOKEN}")
        assert page.url == served.url
        page.reload()
        expect(page.locator("h1")).to_have_text("digits")
        assert not [url for url in window.requests if TOKEN in url.partition("#")[0]]
        assert page.context.cookies() == []


# -- for everybody -------------------------------------------------------------------------------------


@pytest.mark.sampled("node")
@pytest.mark.parametrize("kind", SHOWN)
def test_axe_finds_nothing_grave(window: Window, kind: str):
    with Served(SHOWN[kind]) as served:
        page = window.open(served.url)
        assert grave(page) == []
        page.emulate_media(color_scheme="dark")
        assert grave(page) == []


def test_no_column_of_rounds_with_shared_noise_is_cut_off_on_a_small_screen(window: Window):
    long = {"metric": "balanced-accuracy", "value": 0.71, "train_s": 123.4, "aggregate_s": 1234.5}
    sizes = {"bytes_sent": 1_234_567_890, "bytes_received": 1_234_567_890}
    history = tuple(replace(one, **long, **sizes) for one in STEPS.history)
    with Served(replace(STEPS, history=history)) as served:
        page = window.open(served.url, size={"width": 1280, "height": 800})
        expect(page.locator("#rounds-head")).to_contain_text("If all collude")
        assert page.evaluate(SIDEWAYS) == []


@pytest.mark.sampled("node")
@pytest.mark.parametrize("kind", SHOWN)
def test_a_phone_scrolls_one_way_alone_and_a_table_is_a_row_of_cards_and_still_a_table(
    window: Window, kind: str
):
    with Served(SHOWN[kind]) as served:
        page = window.open(served.url, size={**PHONE, "width": 390})
        assert page.evaluate(SIDEWAYS) == []
        cell = page.locator(".wide tbody tr:visible > :is(td, th)").nth(1)
        label, left = cell.evaluate(
            "cell => [getComputedStyle(cell, '::before').content, cell.getBoundingClientRect().left]"
        )
        assert label == f'"{cell.get_attribute("data-label")}"'
        assert left < 60, "a card has its cells below each other"
        for table in page.get_by_role("table").all():
            assert table.get_by_role("row").count() == 0 or table.get_by_role("cell").count()
        assert grave(page) == []
        for width in (PHONE["width"], 390, 620):
            page.set_viewport_size({**PHONE, "width": width})  # the charts follow in one of the next frames
            page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)


def test_the_keyboard_reaches_all_and_one_sees_where_it_is(window: Window):
    with Served(NODE) as served:
        page = window.open(served.url)
        wanted = page.locator("a[href], button:enabled:visible, [tabindex='0']:visible").count()
        reached = []
        for _ in range(wanted):
            page.keyboard.press("Tab")
            place = "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
            reached.append((page.evaluate(place), page.evaluate("document.activeElement.outerHTML")))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline == "solid", reached[-1]
        assert len(set(reached)) == wanted
        assert "To the content" in reached[0][1]
        page.locator("#rounds-older").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#rounds-page")).to_have_text("Page 2 of 4")
        expect(page.locator("#rounds tr").first).to_contain_text("28")
