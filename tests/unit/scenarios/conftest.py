"""Made-up results of a swarm: histories as nodes write them, read back through the real readers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.swarms.baselines import Baselines, Curve, PrivateCurve
from scenarios.swarms.history import read_history, read_summary
from scenarios.swarms.nodes import PeerRun
from scenarios.swarms.results import SwarmResults
from tests.unit.node.observe.test_lines import SUMMARY

PEERS, ROUNDS = 5, 20
GUESSING = 0.1
DIGEST = "ab" * 32
MakeResults = Callable[..., SwarmResults]


def accuracy_after(number: int, limit: float = 0.965, tempo: float = 0.45) -> float:
    return limit * (1 - 0.9 * (1 - tempo) ** number)


def spent_after(number: int, peer: int) -> float:
    """Peer 3 spends most: all of its budget of 8."""
    return 8.0 * number / ROUNDS * (1 - 0.01 * abs(peer - 3))


def ledger(mechanism: str, epsilon: float) -> dict[str, object]:
    """Makes a ledger as in summary.json."""
    return {
        "mechanism": mechanism,
        "epsilon_spent": epsilon,
        "epsilon_budget": 8.0,
        "epsilon_remaining": 8.0 - epsilon,
        "epsilon_stated": 8.0,
        "delta": 1e-5,
        "accountant": "closed form",
        "unit": f"the unit of {mechanism}",
        "neighbours": "replace",
        "norm": "L2",
        "outside": "the radius" if mechanism == "aldp" else "",
        "protects": f"what {mechanism} protects",
    }


def line(
    number: int, peer: int, outcome: str = "aggregated", digest: str = DIGEST, private: bool = False
) -> dict[str, object]:
    sent = {"group": 900, "shares": 1400 + 20 * peer, "sums": 18_400 * (PEERS - 1)}
    phases: dict[str, object] = {
        name: {"s": 0.01 * (position + 1), "bytes_sent": size, "bytes_received": size + 7}
        for position, (name, size) in enumerate(sent.items())
    }
    return {
        "round": number,
        "outcome": outcome,
        "reason": None if outcome == "aggregated" else "sums-timeout",
        "participants": PEERS,
        "loss": 0.3,
        "accuracy": accuracy_after(number),
        "metric": "accuracy",
        "value": accuracy_after(number),
        "baseline": GUESSING,
        "epsilon": spent_after(number, peer) if private else None,
        "delta": 1e-5 if private else None,
        "bytes_sent": sum(sent.values()),
        "bytes_received": sum(sent.values()) + 21,
        "train_s": 0.12,
        "aggregate_s": 0.06,
        "base_digest": digest,
        "phases": {"train": {"s": 0.12 + 0.01 * peer}, **phases},
    }


def write_peer(
    folder: Path, peer: int, fallbacks: frozenset[tuple[int, int]], digest: str, mechanism: str | None
) -> None:
    private = mechanism is not None
    lines = [
        line(number, peer, "fallback" if (peer, number) in fallbacks else "aggregated", digest, private)
        for number in range(1, ROUNDS + 1)
    ]
    fell_back = sum(entry["outcome"] == "fallback" for entry in lines)
    summary = {
        **SUMMARY.as_json(),
        "rounds": ROUNDS,
        "aggregated": ROUNDS - fell_back,
        "fallbacks": fell_back,
        "accuracy": lines[-1]["accuracy"],
        **{name: lines[-1][name] for name in ("metric", "value", "baseline")},
        "epsilon": lines[-1]["epsilon"],
        "delta": lines[-1]["delta"],
        "base_digest": digest,
        "bytes_sent": 1_500_000,
        "bytes_received": 1_500_100,
        "seconds": 6.5,
        "privacy": ledger(mechanism, spent_after(ROUNDS, peer)) if mechanism is not None else None,
    }
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    (folder / "summary.json").write_text(json.dumps(summary))


def read_peer(folder: Path, peer: int) -> PeerRun:
    summary = read_summary(folder / "summary.json")
    assert summary is not None
    return PeerRun(peer, read_history(folder / "history.jsonl"), summary)


@pytest.fixture
def make_results(tmp_path_factory: pytest.TempPathFactory) -> MakeResults:
    def make(
        fallbacks: frozenset[tuple[int, int]] = frozenset(),
        digests: dict[int, str] | None = None,
        alone: float = 0.72,
        pooled: float = 0.97,
        mechanism: str | None = None,
        replays: tuple[PrivateCurve, ...] = (),
    ) -> SwarmResults:
        peers_at = tmp_path_factory.mktemp("results") / "peers"
        for peer in range(PEERS):
            digest = (digests or {}).get(peer, DIGEST)
            write_peer(peers_at / str(peer), peer, fallbacks, digest, mechanism)
        peers = tuple(read_peer(peers_at / str(peer), peer) for peer in range(PEERS))
        limits = [alone + 0.06 * (peer - 2) for peer in range(PEERS)]
        curves = [curve(f"alone {peer}", limit) for peer, limit in enumerate(limits)]
        return SwarmResults(ROUNDS, peers, Baselines(tuple(curves), curve("pooled", pooled)), replays, 8.0)

    return make


def curve(name: str, limit: float) -> Curve:
    values = tuple(accuracy_after(number, limit, 0.8) for number in range(1, ROUNDS + 1))
    return Curve(name, 287, values, GUESSING, 1.5)


@pytest.fixture
def results(make_results: MakeResults) -> SwarmResults:
    return make_results()
