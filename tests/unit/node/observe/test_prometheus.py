"""Metrics for Prometheus, read back with the library's own parsers."""

import math
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import prometheus_client
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from benchmarks.page.server import node_view, tracker_view
from node.observe.access import Access
from node.observe.prometheus import (
    WHYS,
    Figures,
    RoundFigures,
    TrackerTally,
    new_registry,
    node_families,
    tracker_families,
)
from node.observe.views import Peer, Swarm
from node.relay.relaying import CarriedMember, RelayView
from node.runtime.record.events import RoundEnded
from node.storage.records import Traffic
from protocol.wire.messages import Refused
from tests.parts import group, members
from tests.unit.node.links import deaf, started
from tests.unit.node.observe.test_lines import LEDGER, RECORD

TOKEN = "ef" * 32
LOSS = 0.7654321

VIEW = replace(
    node_view(peers=0, ended=0),
    round=3,
    rounds=20,
    phase="sums",
    generation=2,
    sent={"group": 10, "sums": 30},
    received={"shares": 7},
    dropped={"a frame of 17 bytes": 2, "a frame of 18 bytes": 3, "unusable mask key 0123abcd": 1},
    peers=(
        Peer("127.0.0.1:1", "ab", "reachable", 3, False, False, False, ""),
        Peer("127.0.0.1:2", None, "not met", None, False, False, False, ""),
        Peer("127.0.0.1:3", None, "reachable", None, False, True, False, ""),
    ),
    privacy=LEDGER,
)
SWARMS = (Swarm("digits", "ab", (), 2, 3, 5), Swarm("ward", "cd", (), 1, 3, 0))
TRACKER = replace(tracker_view(), swarms=SWARMS, peers=4)


@asynccontextmanager
async def served(registry, view, families, token=None):
    """Serves the metrics of `view`; returns the address."""

    async def seen():
        return view

    routes = Figures(registry, seen, families, Access("127.0.0.1", token, "")).routes
    async with started(deaf(), routes) as endpoint:
        yield f"http://{endpoint}/metrics"


async def figures(registry, view, families):
    """Returns the values of the metrics of `view`, and their text."""
    async with served(registry, view, families) as where:
        status, kind, text = await got(where)
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    return samples(text), text


async def got(where, **headers):
    async with aiohttp.ClientSession() as client, client.get(where, headers=headers) as answer:
        return answer.status, answer.headers.get("Content-Type", ""), await answer.text()


def samples(text, parser=parse):
    """Returns values by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in parser(text)
        for sample in family.samples
    }


async def test_a_nodes_figures():
    registry = new_registry()
    told = RoundFigures(registry)
    phases = {"train": Traffic(0.5), "sums": Traffic(2.0, 30, 7)}
    told.handle(RoundEnded(replace(RECORD, phases=phases, clipped=4), 20))
    fallback = {"outcome": "fallback", "reason": "sums-timeout", "participants": 0}
    told.handle(RoundEnded(replace(RECORD, clipped=1, steps_failed=2, **fallback), 20))
    found, _ = await figures(registry, VIEW, node_families)
    expected = {
        ("rounds_total", "aggregated", "none"): 1,
        ("rounds_total", "fallback", "sums-timeout"): 1,
        ("rounds_total", "caught", "fallback"): 0,
        ("clipped_coordinates_total",): 5,
        ("round_participants",): 0,
        ("sums_failed_total",): 2,
        ("phase_seconds_count", "sums"): 1,
        ("phase_seconds_sum", "sums"): 2.0,
        ("phase_seconds_bucket", "1.0", "sums"): 0,
        ("phase_seconds_bucket", "3.0", "sums"): 1,
        ("phase_seconds_count", "shares"): 0,
        ("round",): 3,
        ("round_last",): 20,
        ("base_generation",): 2,
        ("electors_missing",): 0,
        ("phase", "sums"): 1,
        ("phase", "catching_up"): 0,
        ("peers", "reachable"): 1,  # a tracker is no peer
        ("peers", "not_met"): 1,
        ("peers", "left"): 0,
        ("network_bytes_total", "group", "sent"): 10,
        ("network_bytes_total", "received", "shares"): 7,
        ("network_bytes_total", "received", "sums"): 0,
        ("dropped_messages_total", "a frame of N bytes"): 5,
        ("dropped_messages_total", "unusable mask key N"): 1,
        **{
            (f"privacy_epsilon_{what}",): LEDGER[f"epsilon_{what}"]
            for what in ("spent", "remaining", "budget")
        },
        ("privacy_delta",): LEDGER["delta"],
    }
    names = {("murmuration_" + name, *labels): value for (name, *labels), value in expected.items()}
    assert {name: found[name] for name in names} == pytest.approx(names)
    assert ("murmuration_privacy_epsilon_alone",) not in found
    assert ("process_cpu_seconds_total",) in found
    shared = replace(VIEW, privacy={**LEDGER, "epsilon_alone": 7.5}, electors_missing=2)
    found, _ = await figures(new_registry(), shared, node_families)
    assert found["murmuration_privacy_epsilon_alone",] == 7.5
    assert found["murmuration_electors_missing",] == 2
    other = {"unit": "one data set", "neighbours": "replace", "epsilon": 2.5}
    unbound = {**LEDGER, "epsilon_spent": None, "epsilon_remaining": 0.0, "apart": [other]}
    found, _ = await figures(new_registry(), replace(VIEW, privacy=unbound), node_families)
    assert found["murmuration_privacy_epsilon_spent",] == math.inf
    assert found["murmuration_privacy_epsilon_apart", "one data set (replace)"] == 2.5
    _, text = await figures(new_registry(), replace(VIEW, privacy=None), node_families)
    assert "epsilon" not in text
    assert "_job_" not in text
    job = replace(VIEW, sums={"cells": 4, "curves": 2}, over=True)
    found, _ = await figures(new_registry(), job, node_families)
    assert (found["murmuration_job_sums", "cells"], found["murmuration_job_sums", "curves"]) == (4, 2)
    assert found["murmuration_job_over",] == 1


async def test_no_accuracy_and_no_loss_is_among_them():
    registry = new_registry()
    record = replace(RECORD, loss=LOSS, train_loss=LOSS, accuracy=LOSS)
    RoundFigures(registry).handle(RoundEnded(record, 20))
    _, text = await figures(registry, VIEW, node_families)
    assert str(LOSS) not in text
    assert not re.search("accuracy|loss", text)


async def test_a_trackers_figures():
    registry = new_registry()
    tally = TrackerTally(registry)
    one, other = group(members(3)), group(members(3), attempt=1)
    for message in (one, one, one, other, other, other):
        tally.said((message,))
    tally.said((Refused(b"n" * 16, "no"),))
    found, _ = await figures(registry, TRACKER, tracker_families)
    assert found["murmuration_tracker_groups_total",] == 2
    assert found["murmuration_tracker_refused_total",] == 1
    assert found["murmuration_tracker_peers",] == 4
    assert found["murmuration_tracker_swarms",] == 2
    assert found["murmuration_tracker_ready",] == 3
    assert not [name for name, *_ in found if re.search("accuracy|loss|round|epsilon", name)]


@pytest.mark.parametrize(
    ("view", "families"), [(TRACKER, tracker_families), (VIEW, node_families)], ids=["tracker", "node"]
)
async def test_a_relays_figures_name_no_member(view, families):
    member = CarriedMember(key="ab" * 8, swarm="cd" * 8, carriers=2, carried_bytes=70)
    relay = RelayView((member,), 1, 1, 3, 70, 2, 512, {"to a member that is away": 4})
    found, text = await figures(new_registry(), replace(view, relay=relay), families)
    assert found["murmuration_relay_members",] == 1
    assert found["murmuration_relay_swarms",] == 1
    assert found["murmuration_relay_rooms",] == 3
    assert found["murmuration_relay_waiting_bytes",] == 512
    assert found["murmuration_relay_carried_bytes_total",] == 70
    assert found["murmuration_relay_carried_frames_total",] == 2
    assert found["murmuration_relay_dropped_frames_total", "to a member that is away"] == 4
    assert member.key not in text
    assert member.swarm not in text


async def test_the_other_format_for_who_asks_for_it():
    async with served(new_registry(), VIEW, node_families) as where:
        status, kind, text = await got(where, Accept="application/openmetrics-text; version=1.0.0")
    assert (status, kind.split(";")[0]) == (200, "application/openmetrics-text")
    assert samples(text, parse_open)["murmuration_round",] == 3


async def test_off_this_machine_the_token_is_asked_for_and_whoever_names_another_host_is_sent_away():
    async with served(new_registry(), VIEW, node_families, TOKEN) as where:
        assert (await got(where))[0] == 401
        assert (await got(where, Authorization=f"Bearer {TOKEN[:-1]}0"))[0] == 401
        assert (await got(where, Authorization=f"Bearer {TOKEN}"))[0] == 200
        assert (await got(where, Host="evil.example"))[0] == 421


def test_each_node_counts_for_itself():
    one, other = new_registry(), new_registry()
    RoundFigures(one).handle(RoundEnded(RECORD, 20))
    RoundFigures(other)
    name, labels = "murmuration_rounds_total", {"outcome": "aggregated", "reason": "none"}
    assert [registry.get_sample_value(name, labels) for registry in (one, other)] == [1, 0]
    assert prometheus_client.REGISTRY.get_sample_value(name, labels) is None


def test_names_follow_the_conventions_and_are_documented():
    registry = new_registry()
    RoundFigures(registry)
    TrackerTally(registry)
    tracker = replace(TRACKER, relay=RelayView((), 0, 0, 0, 0, 0, 0, {}))
    families = [*registry.collect(), *node_families(VIEW), *tracker_families(tracker)]
    ours = [family for family in families if not family.name.startswith("process_")]
    assert len(ours) > 20
    page = (Path(__file__).resolve().parents[4] / "docs" / "operating.md").read_text("utf-8")
    for family in ours:
        name = family.name + ("_total" if family.type == "counter" else "")
        assert name.replace("murmuration_privacy_epsilon_", "_") in page
        assert re.fullmatch(r"murmuration_[a-z_]+", family.name)
        assert family.documentation.endswith(".")
        assert family.type in {"counter", "gauge", "histogram", "info"}


def test_strangers_can_not_make_ever_new_series():
    words = [f"{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(3 * WHYS)]
    view = replace(VIEW, dropped=dict.fromkeys(words, 1))
    (family,) = (one for one in node_families(view) if one.name == "murmuration_dropped_messages")
    assert len(family.samples) == WHYS + 1
    assert sum(sample.value for sample in family.samples) == 3 * WHYS
