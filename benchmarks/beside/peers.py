"""The jobs done here: five real peers, each a process with a listener of its own on loopback."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.torch import load_file, save_file

from benchmarks.beside.programs import work
from benchmarks.jobs import run_peers
from benchmarks.rounds import quiet
from node.task.load import load_task
from scenarios.data.dataset import FederatedDataset
from scenarios.swarms.nodes import SwarmPlan, run_swarm

_STATISTICS = """
[task]
name = "survival"

[privacy]
mechanism = "none"

[statistics]
survival = [{ time = "days", event = "died", grid = 1 }]

[data.schema]
kind = "table"
target = { name = "died", kind = "classes", values = ["no", "yes"] }
columns = [{ name = "days", kind = "number", mean = 200.0, std = 100.0, low = 0.0, high = 365.0 }]
"""


@dataclass(frozen=True)
class Outcome:
    """A run: `work.score`, seconds of all and of each round, bytes that each site sent; the version."""

    score: float
    whole_s: float
    round_s: tuple[float, ...]
    sent: tuple[float, ...]
    version: str = ""


def run_here(folder: Path) -> Outcome:
    """Do the folder's job with real peers. Raises UserError if one fails."""
    return _statistics(folder) if work.read_case(folder)["case"] == work.SURVIVAL else _learning(folder)


def _learning(folder: Path) -> Outcome:
    case = work.read_case(folder)
    model = work.load_model(folder)
    weights = folder / "initial.safetensors"
    save_file(model.state_dict(), weights)
    named = f"{type(model).__module__}:{type(model).__name__}"
    changes = (
        f"model.class={named}",
        "model.args={}",
        f"model.weights={weights}",
        f"aggregation.min_participants={case['sites']}",
        f"train.learning_rate={work.RATES[case['case']]}",
        f"train.batch_size={work.BATCH}",
        "train.momentum=0",
        "train.epochs=1",
        f"task.seed={case['seed']}",
    )
    test = work.read_arrays(folder / "test.npz")
    sites = [work.read_arrays(folder / f"site{site}.npz") for site in range(case["sites"])]
    rows = tuple(
        FederatedDataset(site["x"], site["y"], test["x"], test["y"], None, 10, "digits") for site in sites
    )
    with tempfile.TemporaryDirectory() as runs:
        plan = SwarmPlan(load_task("digits", changes), case["sites"], case["rounds"], Path(runs), rows)
        begun = time.monotonic()
        peers = run_swarm(plan, quiet)
        whole_s = time.monotonic() - begun
        stored = load_file(plan.peer_folder(0) / "model.safetensors")
    model.load_state_dict(stored)
    return Outcome(
        work.score(folder, work.trained(model)),
        whole_s,
        tuple(sum(phase.s for phase in one.phases.values()) for one in peers[0].rounds[1:]),
        tuple(peer.summary.bytes_sent for peer in peers),
    )


def _statistics(folder: Path) -> Outcome:
    case = work.read_case(folder)
    task = folder / "survival.toml"
    task.write_text(_STATISTICS, "utf-8")
    files = [_write_table(folder, site) for site in range(case["sites"])]
    whole_s, ended = run_peers(folder, files, ("node.stats", str(task)), "--write")
    told = json.loads((folder / "report0.json").read_text("utf-8"))
    pooled = work.pooled_curve(folder)
    (_, curve), *_ = told["survival"][0]["curves"]
    at = np.asarray(curve["times"], np.int64)
    apart = float(abs(np.asarray(curve["survival"]) - pooled[at]).max())
    return Outcome(apart, whole_s, (), tuple(peer.summary["bytes_sent"] for peer in ended))


def _write_table(folder: Path, site: int) -> Path:
    rows = work.read_arrays(folder / f"site{site}.npz")
    lines = [f"{day},{('no', 'yes')[died]}" for day, died in zip(rows["days"], rows["died"], strict=True)]
    file = folder / f"site{site}.csv"
    file.write_text("\n".join(["days,died", *lines, ""]), "utf-8")
    return file
