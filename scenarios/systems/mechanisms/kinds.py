"""What each mechanism of scenario `mechanisms` protects, from whom and how, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

PEERS, SERVER = "peer-to-peer", "server"
DATA_SET, RECORD, LABEL, NOTHING = "a whole data set", "one record", "one label", "nothing provable"


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


def _data_set(title: str, remark: str) -> Kind:
    """A mechanism by which each party hides its whole data set."""
    return Kind(title, PEERS, DATA_SET, EVERYBODY, "replace all of it; L2", remark)


def _features(title: str, remark: str) -> Kind:
    """A mechanism that hides a record's features."""
    return Kind(title, SERVER, RECORD, EVERYBODY, "replace its features; L2", remark)


def _unprotected(title: str, remark: str) -> Kind:
    return Kind(title, SERVER, "nothing", "nobody", "no epsilon", remark)


LINES: Mapping[str, Kind] = {
    "ldp": _data_set("ldp", "each peer noises its update: many peers are needed, and no trust"),
    "aldp": _data_set("aldp", "as ldp; its clipping radius follows the agreed models, which costs nothing"),
    "aldp-raw": _data_set(
        "aldp, raw norms",
        "its radius follows a peer's own updates: the noise level shows them, and no epsilon covers that",
    ),
    "aldp-linear": _data_set(
        "aldp, linear-classic",
        "the noise of an older system, radii of raw norms: even given these, too little from 300 on",
    ),
    "dp-fedavg": Kind(
        *("dp-fedavg", SERVER, DATA_SET, "readers of the models, not the server", "add or remove it; L2"),
        "one noise for all: the server is trusted, and many users help most",
    ),
    "nbafl": replace(
        _data_set("nbafl, the paper", "states epsilon for one record by a bound that training does not keep"),
        system=SERVER,
    ),
    "dp-sgd": Kind(
        *("dp-sgd", PEERS, RECORD, EVERYBODY, "add or remove it; L2 of its gradient"),
        "what records have in common is learned: the one to begin with",
    ),
    "row-noise": _features("row-noise", "features only, not the label; noised once, then used freely"),
    "rpfl": _features("rpfl, its theorem", "as row-noise, with far less noise than the stated epsilon needs"),
    "label-dp": Kind(
        *("label-dp", SERVER, LABEL, EVERYBODY, "replace it; pure, delta 0"),
        "features are not protected; drawn once, then used freely",
    ),
    "nbafl-federatedscope": Kind(
        *("nbafl, FederatedScope", SERVER, NOTHING, "nobody provably", "none: nothing is clipped"),
        "noise on uploads of any size proves nothing",
    ),
}
"""The mechanisms that state an epsilon in the order of the table, by what they protect."""

OTHERS: Mapping[str, Kind] = {
    "secure-sum": Kind(
        *("none: secure sum alone", PEERS, "only the update", "the other peers", "no epsilon"),
        "the sum and the models are as they are; three peers or more",
    ),
    "fedavg": _unprotected("fedavg", "the server reads every update"),
    "weak-dp": _unprotected("weak DP", "made against lying clients: clip and a little noise"),
    "median": _unprotected("coordinate median", "made against lying clients: withstands fewer than half"),
}
"""Arms that state no epsilon and are therefore on no axis."""


def lines_of(protects: str) -> tuple[str, ...]:
    """The mechanisms that protect `protects`."""
    return tuple(name for name, kind in LINES.items() if kind.protects == protects)
