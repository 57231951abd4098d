"""Flower's side: `VENV/bin/python flower_program.py FOLDER [secagg]`; the last line printed is JSON.

Five clients in Flower's simulation. What a site sends is counted as the size of its serialised replies, which
a deployed SuperNode would send by gRPC; headers and polls for work come on top of that.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.serde import message_to_proto
from flwr.server import LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.simulation import run_simulation
from work import Site, initial, read_case, score

FOLDER, IS_SECURE = Path(sys.argv[1]).resolve(), "secagg" in sys.argv[2:]
CASE = read_case(FOLDER)
NAMES, FIRST = zip(*initial(FOLDER).items(), strict=True)
SENT, ENDS = FOLDER / "sent.txt", []
CLIP = 1024.0 if CASE["case"] == "survival" else 8.0  # Flower's own is 8; counts of a day are larger
KEPT: dict[str, Any] = {}


class Client(NumPyClient):
    """A site as a client. All have the same weight, 1."""

    def __init__(self, number: int) -> None:
        self._site = Site(FOLDER, number)

    def fit(self, parameters: list[Any], config: dict[str, Any]) -> tuple[list[Any], int, dict[str, Any]]:
        """Train once."""
        part = self._site.part(dict(zip(NAMES, parameters, strict=True)), int(config["round"]))
        return [part[name] for name in NAMES], 1, {}


def counted(message: Any, context: Any, call_next: Any) -> Any:
    """Add the size of a reply to the file of sizes."""
    reply = call_next(message, context)
    with SENT.open("a") as file:
        file.write(f"{context.node_config['partition-id']} {message_to_proto(reply).ByteSize()}\n")
    return reply


class Mean(FedAvg):
    """FedAvg that keeps its model and the time at which a round ended."""

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """Keep the mean. Raises RuntimeError if a client failed."""
        if failures or len(results) != CASE["sites"]:
            raise RuntimeError(f"round {server_round}: {len(results)} answers, {failures}")
        found = super().aggregate_fit(server_round, results, failures)
        ENDS.append(time.monotonic())
        KEPT["model"] = dict(zip(NAMES, parameters_to_ndarrays(found[0]), strict=True))
        return found


server = ServerApp()


@server.main()
def main(grid: Any, context: Any) -> None:
    """Run all rounds, without evaluation at the clients."""
    strategy = Mean(
        fraction_fit=1.0,
        fraction_evaluate=0.0,
        min_fit_clients=CASE["sites"],
        min_available_clients=CASE["sites"],
        initial_parameters=ndarrays_to_parameters(list(FIRST)),
        on_fit_config_fn=lambda number: {"round": number},
    )
    legacy = LegacyContext(context=context, config=ServerConfig(CASE["rounds"]), strategy=strategy)
    secure = SecAggPlusWorkflow(CASE["sites"], CASE["sites"] - 1, max_weight=1.0, clipping_range=CLIP)
    DefaultWorkflow(fit_workflow=secure if IS_SECURE else None)(grid, legacy)


def main_program() -> None:
    """Run the simulation and print what it took."""
    SENT.unlink(missing_ok=True)
    client = ClientApp(
        client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client(),
        mods=[counted, secaggplus_mod] if IS_SECURE else [counted],
    )
    begun = time.monotonic()
    run_simulation(server, client, CASE["sites"], backend_config={"client_resources": {"num_cpus": 1}})
    whole_s = time.monotonic() - begun
    sent = np.zeros(CASE["sites"])
    for number, size in np.loadtxt(SENT, dtype=np.int64, ndmin=2):
        sent[number] += size
    told = {
        "version": f"flwr {version('flwr')}",
        "score": score(FOLDER, KEPT["model"]),
        "whole_s": whole_s,
        "round_s": list(np.diff(ENDS)),
        "sent": list(sent),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main_program()
