"""Metrics for Prometheus: /metrics of a node and of a tracker, each with its own registry.

Events are counted when they happen; state (peers, bytes, the ledger) is read at each request. The metrics
leave out accuracy and loss, because a monitoring system more often belongs to someone else than a log does.
"""

from __future__ import annotations

import math
import re
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Generic, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from node.net.incoming.routes import Shared
from node.observe.access import Access
from node.observe.views import NodeView, TrackerView
from node.relay.relaying import RelayView
from node.runtime.record.events import NodeEvent, RoundEnded
from node.runtime.record.fields import scraped
from node.runtime.record.figures import Record
from node.system.distribution import installed_version
from protocol.actions import Reason
from protocol.swarm.inspection import Contact
from protocol.wire.messages import Group, Message, Refused

PHASES = ("joining", "idle", "group", "shares", "sums", "following", "catching up", "closing")
TIMED = ("train", "group", "shares", "sums")
BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
WHYS = 40
"""How many reasons for dropping get their own series: strangers choose what they send."""
PLAIN, OPEN = "text/plain", "application/openmetrics-text"
_VARYING = re.compile(r"\b[0-9a-f]{8,}\b|\d+")

V = TypeVar("V", NodeView, TrackerView)
Families = Callable[[V], Iterable[Metric]]


def new_registry() -> CollectorRegistry:
    """Makes a registry, not the library's global one, with the version and the process's own metrics."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    build = Info("murmuration_build", "The installed version.", registry=registry)
    build.info({"version": installed_version() or "unknown"})
    return registry


class Figures(Generic[V]):
    """Answers /metrics. `view` returns the current state; `families` makes metrics from it."""

    def __init__(
        self,
        registry: CollectorRegistry,
        view: Callable[[], Awaitable[V]],
        families: Families[V],
        access: Access,
    ) -> None:
        self._registry = registry
        self._view: Callable[[], Awaitable[V]] = view
        self._access = access
        self._seen: _Seen[V] = _Seen(families)
        self._looked = Shared(self._look)
        self._texts = {kind: Shared(partial(self._text, kind)) for kind in (PLAIN, OPEN)}
        registry.register(self._seen)

    @property
    def routes(self) -> list[web.RouteDef]:
        """GET /metrics, for everyone who may see the page."""
        return [web.get("/metrics", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        self._access.check(request)
        body, kind = await self._texts[_kind(request.headers.get("Accept", ""))].get()
        return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": "no-store"})

    async def _look(self) -> None:
        self._seen.view = await self._view()

    async def _text(self, kind: str) -> tuple[bytes, str]:
        """Returns all metrics in one of the two formats, and its content type."""
        await self._looked.get()
        encode, name = choose_encoder(kind)
        return encode(self._registry), name


def _kind(accepts: str) -> str:
    """Returns one of two formats, whatever the client accepts, so that all requests share two texts."""
    names = {part.partition(";")[0].strip() for part in accepts.split(",")}
    return OPEN if OPEN in names else PLAIN


class _Seen(Collector, Generic[V]):
    """The metrics of the last view; none before there is one."""

    def __init__(self, families: Families[V]) -> None:
        self._families: Families[V] = families
        self.view: V | None = None

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics; the registry calls this."""
        if self.view is not None:
            yield from self._families(self.view)


class RoundFigures:
    """Counts a node's rounds as they end."""

    def __init__(self, registry: CollectorRegistry, kind: type[Record] = Record) -> None:
        """`kind`: whose fields say which of them are metrics."""
        self._rounds = Counter(
            "murmuration_rounds",
            "Rounds since the start of the process, by outcome.",
            ["outcome", "reason"],
            registry=registry,
        )
        self._seconds = Histogram(
            "murmuration_phase_seconds",
            "Seconds that a round spent in a phase.",
            ["phase"],
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._told = {
            name: (Counter if one.is_counter else Gauge)(one.name, one.about, registry=registry)
            for name, one in scraped(kind).items()
        }
        self._rounds.labels("aggregated", "none")  # from the start: the first increase shows
        for reason in Reason:
            self._rounds.labels("fallback", str(reason))
        for phase in TIMED:
            self._seconds.labels(phase)

    def handle(self, event: NodeEvent) -> None:
        """Counts a round when it ends."""
        if not isinstance(event, RoundEnded):
            return
        record = event.record
        self._rounds.labels(record.outcome, record.reason or "none").inc()
        for phase, traffic in record.phases.items():
            self._seconds.labels(phase).observe(traffic.s)
        for name, metric in self._told.items():
            (metric.inc if isinstance(metric, Counter) else metric.set)(getattr(record, name))


def node_families(view: NodeView) -> Iterator[Metric]:
    """Yields the metrics of a node's view."""
    yield _gauge("murmuration_round", "The last round that ended.", view.round)
    yield _gauge("murmuration_round_last", "The last round of this run.", view.rounds)
    yield _gauge("murmuration_base_generation", "The generation of the agreed model.", view.generation)
    if view.sums:
        about = "Sums of a job that led to the agreed base, by what they were for."
        yield _labelled("murmuration_job_sums", about, "purpose", view.sums)
        yield _gauge("murmuration_job_over", "1 once no sum of the job follows.", int(view.over))
    yield _labelled(
        "murmuration_phase",
        "1 for what the node is doing now, 0 for the rest.",
        "phase",
        {phase.replace(" ", "_"): int(view.phase == phase) for phase in PHASES},
    )
    yield _gauge(
        "murmuration_electors_missing",
        "How many more peers a strong model needs, at least; 0 if there is a quorum.",
        view.electors_missing,
    )
    contacts = Tally(peer.contact for peer in view.peers if not peer.is_tracker)
    yield _labelled(
        "murmuration_peers",
        "Peers that this node knows, by state of contact.",
        "contact",
        {str(contact).replace(" ", "_"): contacts[contact] for contact in Contact},
    )
    yield _network(view)
    yield _dropped(view.dropped)
    if view.privacy is not None:
        yield from _privacy(view.privacy)
    if view.relay is not None:
        yield from _relay(view.relay)


def _network(view: NodeView) -> CounterMetricFamily:
    family = CounterMetricFamily(
        "murmuration_network_bytes",
        "Bytes of messages since the start of the process.",
        labels=["phase", "direction"],
    )
    for direction, count in (("sent", view.sent), ("received", view.received)):
        for phase in ("group", "shares", "sums"):
            family.add_metric([phase, direction], count.get(phase, 0))
    return family


def _privacy(facts: Mapping[str, object]) -> Iterator[Metric]:
    for name, about in (
        ("epsilon_spent", "Epsilon that the offers of this run have cost."),
        ("epsilon_remaining", "Epsilon that is left of the budget."),
        ("epsilon_budget", "Epsilon of the whole run."),
        ("delta", "The delta at which epsilon is stated."),
        ("epsilon_alone", "Epsilon spent if all others work together; only where members share noise."),
    ):
        value = _bound(facts[name]) if name in facts else None
        if value is not None:
            yield _gauge(f"murmuration_privacy_{name}", about, value)
    apart = facts.get("apart")
    if isinstance(apart, list):
        yield _labelled(
            "murmuration_privacy_epsilon_apart",
            "Epsilon that this key has spent for another unit, which epsilon_spent does not count.",
            "unit",
            {f"{one['unit']} ({one['neighbours']})": _bound(one["epsilon"]) or 0.0 for one in apart},
        )


def _bound(epsilon: object) -> float | None:
    """Returns a figure of the ledger; infinite where it has no bound."""
    return math.inf if epsilon is None else float(epsilon) if isinstance(epsilon, int | float) else None


class TrackerTally:
    """Counts the groups and refusals that a tracker sends."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._last: Group | None = None
        self._groups = Counter("murmuration_tracker_groups", "Groups that were closed.", registry=registry)
        self._refused = Counter("murmuration_tracker_refused", "Peers that were refused.", registry=registry)

    def said(self, messages: Iterable[Message]) -> None:
        """Counts messages; a group, which goes to each of its members, counts once."""
        for message in messages:
            if isinstance(message, Refused):
                self._refused.inc()
            elif isinstance(message, Group) and message is not self._last:
                self._last = message
                self._groups.inc()


def tracker_families(view: TrackerView) -> Iterator[Metric]:
    """Yields the metrics of a tracker's view."""
    yield _gauge("murmuration_tracker_peers", "Peers that are announced.", view.peers)
    yield _gauge("murmuration_tracker_swarms", "Swarms with announced peers.", len(view.swarms))
    ready = sum(swarm.ready for swarm in view.swarms)
    yield _gauge("murmuration_tracker_ready", "Peers that wait for a group.", ready)
    yield _dropped(view.dropped)
    if view.relay is not None:
        yield from _relay(view.relay)


def _relay(relay: RelayView) -> Iterator[Metric]:
    """Yields what a relay carries; no series names a member."""
    yield _gauge("murmuration_relay_members", "Members that are connected.", relay.connected)
    yield _gauge("murmuration_relay_swarms", "Swarms with connected members.", relay.swarms)
    yield _gauge("murmuration_relay_rooms", "Rooms that are open for invitations.", relay.rooms)
    yield _gauge("murmuration_relay_waiting_bytes", "Memory of frames that wait.", relay.waiting_bytes)
    for name, about, value in (
        ("carried_bytes", "Bytes of frames that were carried.", relay.carried_bytes),
        ("carried_frames", "Frames that were carried.", relay.carried_frames),
    ):
        yield CounterMetricFamily(f"murmuration_relay_{name}", about, value=value)
    dropped = CounterMetricFamily(
        "murmuration_relay_dropped_frames", "Frames that were not carried, by reason.", labels=["why"]
    )
    for why, count in relay.dropped.items():
        dropped.add_metric([why], count)
    yield dropped


def _dropped(dropped: Mapping[str, int]) -> CounterMetricFamily:
    """Counts by reason, with numbers and keys replaced, so that nobody can create series without end."""
    tally: Tally[str] = Tally()
    for why, count in dropped.items():
        name = _VARYING.sub("N", why)
        tally[name if name in tally or len(tally) < WHYS else "others"] += count
    family = CounterMetricFamily(
        "murmuration_dropped_messages", "Messages that broke a rule, and were dropped.", labels=["why"]
    )
    for why, count in tally.items():
        family.add_metric([why], count)
    return family


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)


def _labelled(name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
