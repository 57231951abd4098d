"""Three owners who use no terminal: from their files to one model, by the pages of their desks."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from node.invitation.key import own_key
from node.storage.swarm_file import read_swarm
from node.storage.vouches import keep_vouch
from protocol.crypto.node_key import NodeKey
from protocol.invitation.roster import Member, vouch_for
from tests.browser.pages import DESK, PHONE, Window
from tests.browser.test_desk import flawless
from tests.e2e.processes import Nursery, Process, free_endpoint
from tests.own_data import ward
from tests.run_folders import summary

NARROW = {**PHONE, "width": 390}
SIZES = (DESK, NARROW, DESK)


@pytest.fixture
def relay(nursery: Nursery, tmp_path: Path) -> str:
    """A relay on this machine; returns its address with its word."""
    endpoint, key = free_endpoint(), tmp_path / "relay.key"
    started = nursery.tracker("--relay", "--listen", endpoint, "--key", str(key))
    started.line("to invite, give people this address")
    return f"{endpoint}#{key.with_name(f'{key.name}.word').read_text().strip()}"


@pytest.fixture
def desks(nursery: Nursery, tmp_path: Path) -> list[Process]:
    """A desk for each of three owners, in the folder with its rows."""
    started = []
    for number, name in enumerate("abc"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.csv").write_text(ward(200 + 50 * number, number))
        started.append(nursery.command("node.desk", (), folder))
    return started


Examine = Callable[[Page], None]


def unexamined(page: Page) -> None:
    """The screens of the third owner are the second one's."""


def says_yes(page: Page, question: str, examine: Examine = flawless) -> None:
    expect(page.locator("#question")).to_contain_text(question)
    examine(page)
    page.get_by_role("button", name="Yes").click()


def look_around(page: Page, tmp_path: Path) -> None:
    """Once it has learned: members, rounds, report, predictions."""
    expect(page.locator("#run-sentence")).to_contain_text("It is over: 2 of 2 rounds")
    expect(page.locator("#members tr")).to_have_count(3)
    page.get_by_role("button", name="Write the report").click()
    expect(page.locator("#report-lines")).to_contain_text("report.html")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#predicted tr")).to_have_count(5)
    flawless(page)
    page.get_by_role("button", name="Remove: Ward C").click()
    expect(page.locator("#members tr").nth(2)).to_contain_text("removed by you")
    page.get_by_role("button", name="Learn with it again: Ward C").click()
    expect(page.locator("#members tr").nth(2)).not_to_contain_text("removed by you")
    page.get_by_role("link", name="Watch the rounds").click()
    expect(page.locator("#rounds tr")).to_have_count(2)


def lets_others_in(page: Page, own: Path, sponsor: Path) -> None:
    """One more is invited, and a newcomer accepted for whom another member gives its word."""
    page.locator("#later-name").fill("Ward B")
    page.get_by_role("button", name="Make a code").click()
    expect(page.locator("#last-line")).to_contain_text('two members would be called "Ward B"')
    page.locator("#later-name").fill("Ward D")
    page.get_by_role("button", name="Make a code").click()
    seat = page.locator("#seats li")
    expect(seat).to_contain_text("Ward D")
    expect(seat.locator("code")).not_to_be_empty()
    flawless(page)
    page.get_by_role("button", name="Stop").click()
    newcomer = Member("Ward E", NodeKey(bytes(32)).public)
    keep_vouch(own, vouch_for(own_key(sponsor), read_swarm(sponsor).roster, newcomer))
    row = page.locator("#members tr", has_text="Ward E")
    expect(row).to_contain_text("Ward A vouches for it: not accepted yet")
    flawless(page)
    row.get_by_role("button", name="Accept: Ward E").click()
    expect(row).not_to_contain_text("not accepted yet")
    expect(row.get_by_role("button", name="Remove: Ward E")).to_be_visible()
    flawless(page)


@pytest.mark.sampled
@pytest.mark.slow  # three nodes learn, and each browser's page is examined at every screen
def test_three_owners_come_from_their_files_to_one_model(
    window: Window, relay: str, desks: list[Process], tmp_path: Path
) -> None:
    window.may_be_refused = True
    addresses = [desk.line("open this address").split()[-1] for desk in desks]
    pages = [window.raw(address, size=size) for address, size in zip(addresses, SIZES, strict=True)]
    inviter, *joiners = pages

    inviter.get_by_role("link", name="Choose a file").click()
    inviter.locator("#target").select_option("outcome")
    inviter.locator("#peers").fill("3")
    inviter.get_by_text("More", exact=True).click()
    inviter.locator("#rounds").fill("2")
    inviter.locator("#privacy").select_option("none")
    inviter.locator("#come-and-go").select_option("yes")
    inviter.get_by_role("button", name="See how it is read").click()
    inviter.get_by_role("button", name="Propose a task").click()
    inviter.get_by_role("link", name="Invite", exact=True).click()
    inviter.locator("#relay").fill(relay.partition("#")[0])
    inviter.locator("#me").fill("Ward A")
    inviter.locator("#names").fill("Ward B\nWard C\n")
    inviter.get_by_role("button", name="Go on").click()
    expect(inviter.locator("#invite-why")).to_contain_text("--relay")
    inviter.locator("#relay").fill(relay)
    flawless(inviter)
    inviter.get_by_role("button", name="Go on").click()
    says_yes(inviter, "Send the task with these lines?")
    seats = inviter.locator("#seats li")
    expect(seats).to_have_count(2)
    flawless(inviter)
    codes = seats.locator("code").all_inner_texts()
    inviter.get_by_role("button", name="Stop").click()
    expect(inviter.locator("#run-sentence")).to_have_text("Others are invited; Start lets them in.")
    inviter.get_by_role("button", name="Start").click()
    expect(inviter.get_by_role("button", name="Stop")).to_be_visible()
    assert seats.locator("code").all_inner_texts() == codes

    examines = (flawless, unexamined)
    for page, code, examine in zip(joiners, codes, examines, strict=True):
        joins(page, code, examine)
    expect(inviter.locator("#seats li.here")).to_have_count(2)
    shown = {page.locator("#own-words").inner_text().removeprefix("Your own words: ") for page in joiners}
    assert all(any(words in seat for words in shown) for seat in seats.all_inner_texts())
    says_yes(inviter, "Close the list and start?")
    for page, examine in zip(joiners, examines, strict=True):
        says_yes(page, "Learn with these, and with nobody else?", examine)

    look_around(inviter, tmp_path)
    for page, examine in zip(joiners, examines, strict=True):
        expect(page.locator("#run-sentence")).to_contain_text("It is over: 2 of 2 rounds")
        examine(page)
    lets_others_in(joiners[0], *(tmp_path / name / "runs" / "a" for name in "ba"))
    assert len({summary(tmp_path / name / "runs" / "a")["base_digest"] for name in "abc"}) == 1
    for desk in desks:
        desk.send(signal.SIGTERM)
        assert desk.status() == 0, desk.told()


def joins(page: Page, code: str, examine: Examine) -> None:
    """Joins by a code whose last word is completed from the list, after a slip and a look at the task."""
    page.get_by_role("link", name="Join by a code").click()
    rest, _, last = code.rpartition("-")
    page.locator("#code").fill(f"{rest}-{last}x")
    page.get_by_role("button", name="Look at the invitation").click()
    expect(page.locator("#join-why")).to_contain_text(f'the code has no word "{last}x"; did you mean')
    page.locator("#code").fill(f"{rest}-{last[:-1]}")
    page.locator("#code-words").get_by_role("button", name=last, exact=True).click()
    expect(page.locator("#code")).to_have_value(code)
    examine(page)
    page.get_by_role("button", name="Look at the invitation").click()
    expect(page.locator("#question")).to_contain_text("Join with")
    expect(page.locator("#context")).to_contain_text("Ward A invites you")
    page.get_by_role("link", name="Read the whole task").click()
    expect(page.locator("#marks-title")).to_have_text("What it tells about the inviter's data")
    expect(page.get_by_role("button", name="Check")).to_be_hidden()
    examine(page)
    page.go_back()
    says_yes(page, "Join with", examine)
    expect(page.locator("#own-words")).to_contain_text("Your own words")
