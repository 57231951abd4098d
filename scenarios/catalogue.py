"""All scenarios, before any is loaded. A new one is a file with a Scenario value, and its entry here."""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from scenarios.frame.spec import Scenario


class Listed(TypedDict):
    """What a catalogued study says in the words of its entry."""

    name: str
    source: str
    summary: str


@dataclass(frozen=True)
class Entry:
    """What a scenario is called, whose system it replays, and what it shows, in a line each.

    value: where the Scenario is, "package.module:NAME". Its code loads torch, which takes seconds.
    swarms: whether its runs are swarms of processes and nothing else.
    """

    name: str
    source: str
    summary: str
    value: str
    swarms: bool = False

    @property
    def listed(self) -> Listed:
        """The words of the study: `Study(**SCENARIOS["swarm"].listed, ...)`."""
        return {"name": self.name, "source": self.source, "summary": self.summary}

    def load(self) -> Scenario[Any, Any]:
        """The scenario."""
        found: Scenario[Any, Any] = resolve_name(self.value)
        return found


_ENTRIES = (
    Entry(
        name="swarm",
        source="Murmuration",
        summary="Real peers on loopback learn handwritten digits together, against each alone and pooled "
        "data.",
        value="scenarios.systems.swarm.claims:SWARM",
        swarms=True,
    ),
    Entry(
        name="mechanisms",
        source="all of the systems replayed here, side by side",
        summary="Every mechanism on one axis of stated epsilon, and what each protects, from whom.",
        value="scenarios.systems.mechanisms.claims:MECHANISMS",
    ),
    Entry(
        name="distributed-dp",
        source="Kairouz et al. 2021, arXiv 2102.06387; Tramer & Boneh 2021, arXiv 2011.11660; Murmuration",
        summary="Private steps whose noise peers share, beside a trusted server's and each node's own noise.",
        value="scenarios.systems.distributed_dp.claims:DISTRIBUTED_DP",
    ),
    Entry(
        name="tables",
        source="Murmuration; Wood & Fasiolo 2017; Chen & Guestrin 2016",
        summary="Additive models, trees and statistics of three sites, beside networks and pooled rows.",
        value="scenarios.systems.tables.claims:TABLES",
    ),
    Entry(
        name="aldp",
        source="DISCO (EPFL), its documentation of privacy",
        summary="Adaptive local noise in a swarm over epsilon, radius and peers; the error of float shares.",
        value="scenarios.systems.aldp.claims:ALDP",
    ),
    Entry(
        name="nbafl",
        source="Wei et al. 2020, IEEE TIFS 15; FederatedScope, page on differential privacy",
        summary="Noise before aggregation: a table's nine cells as its code and the paper have them.",
        value="scenarios.systems.nbafl.claims:NBAFL",
    ),
    Entry(
        name="dp-fedavg",
        source="McMahan et al. 2018, arXiv 1710.06963; Practicing Federated Learning, chapter 15.2",
        summary="User-level privacy with a server: noise, users, clip and estimator, and a book's settings.",
        value="scenarios.systems.dp_fedavg.claims:DP_FEDAVG",
    ),
    Entry(
        name="rpfl",
        source="Shi, Hu, Wang, Zhu & Han, Distributionally Robust Federated Learning for DP Data (RPFL)",
        summary="attackers, nine defences and RPFL on Adult and loans: accuracy, backdoors, membership",
        value="scenarios.systems.rpfl.study:RPFL",
    ),
    Entry(
        name="label-dp",
        source="MindSpore Federated r0.1, vertical learning with label privacy; Ghazi et al. 2021",
        summary="Two parties with one network: flipped labels, drawn once or afresh, and noisy signs.",
        value="scenarios.systems.label_dp.claims:LABEL_DP",
    ),
    Entry(
        name="attacks",
        source="DISCO, its documentation of privacy; RPFL's threat model; Geiping et al. 2020, Melis et al. "
        "2019, Carlini et al. 2022",
        summary="What a curious server or peer learns, and what a secure sum and noise prevent.",
        value="scenarios.systems.attacks.claims:ATTACKS_SCENARIO",
    ),
)
SCENARIOS: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
