"""Made-up results of a swarm: histories as nodes write them, read back through the real readers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from scenarios.baselines import Baselines, Curve
from scenarios.history import read_history, read_summary
from scenarios.swarm import PeerRun
from scenarios.swarm_results import SwarmResults

PEERS, ROUNDS = 5, 20
DIGEST = "ab" * 32
MakeResults = Callable[..., SwarmResults]


def accuracy_after(number: int, limit: float = 0.965, tempo: float = 0.45) -> float:
    return limit * (1 - 0.9 * (1 - tempo) ** number)


def line(number: int, peer: int, outcome: str = "aggregated", digest: str = DIGEST) -> dict[str, object]:
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
        "epsilon": None,
        "delta": None,
        "bytes_sent": sum(sent.values()),
        "bytes_received": sum(sent.values()) + 21,
        "train_s": 0.12,
        "aggregate_s": 0.06,
        "base_digest": digest,
        "phases": {"train": {"s": 0.12 + 0.01 * peer}, **phases},
    }


def write_peer(folder: Path, peer: int, fallbacks: frozenset[tuple[int, int]], digest: str) -> None:
    lines = [
        line(number, peer, "fallback" if (peer, number) in fallbacks else "aggregated", digest)
        for number in range(1, ROUNDS + 1)
    ]
    fell_back = sum(entry["outcome"] == "fallback" for entry in lines)
    summary = {
        "rounds": ROUNDS,
        "aggregated": ROUNDS - fell_back,
        "fallbacks": fell_back,
        "accuracy": lines[-1]["accuracy"],
        "epsilon": None,
        "delta": None,
        "base_digest": digest,
        "bytes_sent": 1_500_000,
        "bytes_received": 1_500_100,
        "seconds": 6.5,
    }
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    (folder / "summary.json").write_text(json.dumps(summary))


def read_peer(folder: Path, peer: int) -> PeerRun:
    summary = read_summary(folder / "summary.json")
    assert summary is not None
    return PeerRun(peer, read_history(folder / "history.jsonl"), summary)


@pytest.fixture
def make_results(tmp_path: Path) -> MakeResults:
    def make(
        fallbacks: frozenset[tuple[int, int]] = frozenset(),
        digests: dict[int, str] | None = None,
        alone: float = 0.72,
        pooled: float = 0.97,
    ) -> SwarmResults:
        for peer in range(PEERS):
            digest = (digests or {}).get(peer, DIGEST)
            write_peer(tmp_path / "peers" / str(peer), peer, fallbacks, digest)
        peers = tuple(read_peer(tmp_path / "peers" / str(peer), peer) for peer in range(PEERS))
        limits = [alone + 0.06 * (peer - 2) for peer in range(PEERS)]
        curves = [curve(f"alone {peer}", limit) for peer, limit in enumerate(limits)]
        return SwarmResults(ROUNDS, peers, Baselines(tuple(curves), curve("pooled", pooled)), 8.0)

    return make


def curve(name: str, limit: float) -> Curve:
    return Curve(name, 287, tuple(accuracy_after(number, limit, 0.8) for number in range(1, ROUNDS + 1)), 1.5)


@pytest.fixture
def results(make_results: MakeResults) -> SwarmResults:
    return make_results()
