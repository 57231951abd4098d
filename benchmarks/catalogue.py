"""All benchmarks by name, without loading them. A new one needs a module with a Benchmark, and an entry."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.spec import Benchmark


@dataclass(frozen=True)
class Entry:
    """A benchmark. `summary`: what it measures; `value`: where the Benchmark is, as "package.module:NAME"."""

    name: str
    summary: str
    value: str

    def load(self) -> Benchmark:
        """Load and return the benchmark."""
        found: Benchmark = resolve_name(self.value)
        return found


_ENTRIES = (
    Entry(
        "additive",
        "the additive model on fresh splits of public tables, with privacy and without, beside other models",
        "benchmarks.additive.benchmark:ADDITIVE",
    ),
    Entry(
        "aggregators",
        "robust aggregators against a plain sort and one distance matrix",
        "benchmarks.aggregators:AGGREGATORS",
    ),
    Entry(
        "allocation",
        "RPFL's budget beside a convex solver's, and for many clients",
        "benchmarks.allocation.benchmark:ALLOCATION",
    ),
    Entry(
        "audit",
        "lower bounds on every mechanism's epsilon, and the share of planted faults that are refuted",
        "benchmarks.audit.benchmark:AUDIT",
    ),
    Entry(
        "beside",
        "the same jobs here, under Flower and under NVIDIA FLARE: accuracy, seconds, bytes",
        "benchmarks.beside.benchmark:BESIDE",
    ),
    Entry(
        "calibration",
        "noise of the classic and of the exact calibration at the same stated budget, and their speed",
        "benchmarks.calibration:CALIBRATION",
    ),
    Entry(
        "clients",
        "clients a second: local training in blocks against one client after another, and memory",
        "benchmarks.clients.benchmark:CLIENTS",
    ),
    Entry(
        "defaults",
        "tasks as node.init proposes them, learned by three sites, beside scikit-learn on all their rows",
        "benchmarks.defaults.benchmark:DEFAULTS",
    ),
    Entry(
        "floor",
        "a masked round's arithmetic alone, without any message",
        "benchmarks.floor:FLOOR",
    ),
    Entry(
        "gradients",
        "CPU time of a sum of clipped gradients beside a plain step, vmap and Opacus",
        "benchmarks.gradients.benchmark:GRADIENTS",
    ),
    Entry(
        "jobs",
        "an additive model, boosted trees and statistics by exact sums, with five real peers",
        "benchmarks.jobs:JOBS",
    ),
    Entry(
        "memory",
        "peak of resident memory above rest: a member of a session, and a whole node",
        "benchmarks.memory.benchmark:MEMORY",
    ),
    Entry(
        "messages",
        "ms of CPU that a node spends on the messages of a round, without training, by parts",
        "benchmarks.messages:MESSAGES",
    ),
    Entry(
        "noise",
        "GB/s of Gaussian noise on a grid beside torch's and numpy's own, and the memory it takes",
        "benchmarks.noise.benchmark:NOISE",
    ),
    Entry(
        "page",
        "the page: first paint, news, many rounds, and what watching costs a round",
        "benchmarks.page.benchmark:PAGE",
    ),
    Entry(
        "persons",
        "AUC and time of steps that promise epsilon to a person, beside a row and beside composition",
        "benchmarks.persons.benchmark:PERSONS",
    ),
    Entry(
        "rates",
        "shared private steps on public data: the defaults' origin, on held-out training rows",
        "benchmarks.rates.benchmark:RATES",
    ),
    Entry(
        "relay",
        "a relay's CPU for a GB and for a frame, and its memory and pace while readers are stuck",
        "benchmarks.relay.benchmark:RELAY",
    ),
    Entry(
        "rounds",
        "seconds and bytes of a round, by phase, with real peers on this machine",
        "benchmarks.rounds:ROUNDS",
    ),
    Entry(
        "secagg",
        "secure sums with real peers on this machine, and gloo's all_reduce beside them",
        "benchmarks.secagg.benchmark:SECAGG",
    ),
    Entry(
        "shares",
        "errors of the sum for each share kind, and GB/s of encoding, masking and decoding on one core",
        "benchmarks.shares:SHARES",
    ),
    Entry(
        "siege",
        "what thousands of strangers at one node's door cost its swarm, and what they leave behind",
        "benchmarks.siege.benchmark:SIEGE",
    ),
    Entry(
        "spoilers",
        "sums of a swarm while one or two members spoil one step of every sum, in virtual time",
        "benchmarks.spoilers:SPOILERS",
    ),
    Entry(
        "starting",
        "the time of each command to its help text and first line; of a node, cold and warm; of the demo",
        "benchmarks.starting:STARTING",
    ),
    Entry(
        "steps",
        "seconds and bytes of a step with shared noise, in runs and one by one, with real peers",
        "benchmarks.steps:STEPS",
    ),
    Entry(
        "targets",
        "counts, a rare class's probabilities, odd cells and texts, learned by three sites, beside all rows",
        "benchmarks.targets.benchmark:TARGETS",
    ),
    Entry(
        "tls",
        "what TLS adds to a masked round, with real peers on this machine",
        "benchmarks.tls:TLS",
    ),
    Entry(
        "training",
        "seconds of a whole training on MNIST with shared noise, with ten real peers",
        "benchmarks.training:TRAINING",
    ),
    Entry(
        "walk",
        "three hospitals' exports, learned with privacy by real nodes, beside central DP-SGD on all rows",
        "benchmarks.walk.benchmark:WALK",
    ),
)
BENCHMARKS = {entry.name: entry for entry in _ENTRIES}
