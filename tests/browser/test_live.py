"""The page of running nodes and of a tracker, through a restart."""

from __future__ import annotations

import re
import signal

from playwright.sync_api import Page, expect

from tests.browser.pages import Window
from tests.e2e.processes import free_endpoint

ROUNDS = 10_000


def shows_round(page: Page, least: int) -> None:
    """Waits until the page shows that this many rounds are over."""
    page.wait_for_function(
        "least => Number(document.querySelector('#now-title').textContent.match(/Round ([0-9,]+)/)?.[1]"
        ".replace(',', '')) > least",
        arg=least,
    )


def last_round(page: Page) -> int:
    found = re.search(r"Round ([0-9,]+) of", page.locator("#now-title").inner_text())
    assert found
    return int(found[1].replace(",", "")) - 1


def test_a_page_follows_its_node_through_a_restart(make_swarm, window: Window):
    window.may_lose_the_node = True
    swarm = make_swarm(3, ROUNDS)
    nodes = swarm.start_all()
    swarm.wait_status(0, lambda said: said["round"] >= 2)
    page = window.open(f"http://{swarm.endpoints[0]}/")
    shows_round(page, 3)
    expect(page.locator("#peers tr")).to_have_count(2)
    expect(page.locator("#peers .reachable")).to_have_count(2)
    expect(page.locator("#figures dd").first).to_contain_text("%")
    expect(page.locator("#rounds tr").first).to_contain_text("Aggregated")
    seen = last_round(page)

    nodes[0].send(signal.SIGKILL)
    expect(page.locator("#connection")).to_have_attribute("data-state", "lost")
    swarm.start(0)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")
    shows_round(page, seen + 1)
    expect(page.locator("#peers .reachable")).to_have_count(2)


def test_a_tracker_shows_its_peers_and_the_groups_that_it_formed(make_swarm, nursery, window: Window):
    endpoint = free_endpoint()
    nursery.tracker("--listen", endpoint)
    swarm = make_swarm(3, ROUNDS, tracker=endpoint)
    swarm.start_all()
    swarm.wait_status(0, lambda said: said["round"] >= 2)
    page = window.open(f"http://{endpoint}/")
    expect(page.locator("#swarms tbody tr")).to_have_count(3)
    page.wait_for_function("() => Number(document.querySelectorAll('#figures dd span')[4].textContent) > 3")
    assert swarm.status(0)["kind"] == "node"
