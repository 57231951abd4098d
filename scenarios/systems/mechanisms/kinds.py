"""What each mechanism of scenario `mechanisms` protects, from whom and how, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scenarios.systems.mechanisms.arms import (
    ALDP,
    ALDP_RAW,
    DP_FEDAVG,
    DP_SGD,
    FEDERATEDSCOPE,
    LABEL_DP,
    LDP,
    LINEAR,
    MEDIAN,
    NBAFL,
    ROW_NOISE,
    RPFL,
    SECURE_SUM,
    SERVER_ONLY,
    WEAK_DP,
)

PEERS, SERVER = "peer-to-peer", "server"
DATA_SET, RECORD, LABEL, NOTHING = "a whole data set", "one record", "one label", "nothing provable"
UPDATE = "only the update"


@dataclass(frozen=True)
class Kind:
    """A mechanism in words: its title, where it runs, what it protects, from whom, and a remark."""

    title: str
    system: str
    protects: str
    whom: str
    neighbours: str
    remark: str


EVERYBODY = "everybody"
LINES: Mapping[str, Kind] = {
    LDP: Kind(
        *("ldp", PEERS, DATA_SET, EVERYBODY, "replace all of it; L2"),
        "each peer noises its update: many peers are needed, and no trust",
    ),
    ALDP: Kind(
        *("aldp", PEERS, DATA_SET, EVERYBODY, "replace all of it; L2"),
        "as ldp; its clipping radius follows the agreed models, which costs nothing",
    ),
    ALDP_RAW: Kind(
        *("aldp, raw norms", PEERS, DATA_SET, EVERYBODY, "replace all of it; L2"),
        "its radius follows a peer's own updates: the noise level shows them, and no epsilon covers that",
    ),
    LINEAR: Kind(
        *("aldp, linear-classic", PEERS, DATA_SET, EVERYBODY, "replace all of it; L2"),
        "the noise of an older system, radii of raw norms: even given these, too little from 300 on",
    ),
    DP_FEDAVG: Kind(
        *("dp-fedavg", SERVER, DATA_SET, "readers of the models, not the server", "add or remove it; L2"),
        "one noise for all: the server is trusted, and many users help most",
    ),
    NBAFL: Kind(
        *("nbafl, the paper", SERVER, DATA_SET, EVERYBODY, "replace all of it; L2"),
        "states epsilon for one record by a bound that training does not keep",
    ),
    DP_SGD: Kind(
        *("dp-sgd", PEERS, RECORD, EVERYBODY, "add or remove it; L2 of its gradient"),
        "what records have in common is learned: the one to begin with",
    ),
    ROW_NOISE: Kind(
        *("row-noise", SERVER, RECORD, EVERYBODY, "replace its features; L2"),
        "features only, not the label; noised once, then used freely",
    ),
    RPFL: Kind(
        *("rpfl, its theorem", SERVER, RECORD, EVERYBODY, "replace its features; L2"),
        "as row-noise, with far less noise than the stated epsilon needs",
    ),
    LABEL_DP: Kind(
        *("label-dp", SERVER, LABEL, EVERYBODY, "replace it; pure, delta 0"),
        "features are not protected; drawn once, then used freely",
    ),
    FEDERATEDSCOPE: Kind(
        *("nbafl, FederatedScope", SERVER, NOTHING, "nobody provably", "none: nothing is clipped"),
        "noise on uploads of any size proves nothing",
    ),
}
"""The mechanisms that state an epsilon in the order of the table, by what they protect."""

OTHERS: Mapping[str, Kind] = {
    SECURE_SUM: Kind(
        *("none: secure sum alone", PEERS, UPDATE, "the other peers", "no epsilon"),
        "the sum and the models are as they are; three peers or more",
    ),
    SERVER_ONLY: Kind(
        *("fedavg", SERVER, "nothing", "nobody", "no epsilon"),
        "the server reads every update",
    ),
    WEAK_DP: Kind(
        *("weak DP", SERVER, "nothing", "nobody", "no epsilon"),
        "made against lying clients: clip and a little noise",
    ),
    MEDIAN: Kind(
        *("coordinate median", SERVER, "nothing", "nobody", "no epsilon"),
        "made against lying clients: withstands fewer than half",
    ),
}
"""Arms that state no epsilon and are therefore on no axis."""


def lines_of(protects: str) -> tuple[str, ...]:
    """The mechanisms that protect `protects`."""
    return tuple(name for name, kind in LINES.items() if kind.protects == protects)
