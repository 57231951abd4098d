"""Flower: an existing client, unchanged, in a swarm without a server.

    [model]
    learner = "node.learners.flower:flower_client"
    args = { client = "my_project.client_app:client_fn", config = { local-epochs = 1 } }

`client_fn` gets a Context: its node_config has `partition-id` and `num-partitions`, from --shard I/N, and its
run_config is `args.run_config`. What a server's strategy would send as the config of a round is `args.config`
with `server_round` and, as newer versions call it, `server-round`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from node.learners.extras import extra
from node.learners.learner import LearnerSetting, Vector
from node.learners.pieces import cut, joined, write_arrays
from node.system.errors import ConfigError, UserError, shown
from node.task.import_path import import_object

_KEYS = ("client", "name", "config", "run_config")


class FlowerLearner:
    """Calls a client as Flower does: get_parameters, fit, evaluate. Its arrays are joined to a vector."""

    def __init__(self, client: Any, name: str, config: Mapping[str, Any] | None = None) -> None:
        """`client`: a NumPyClient, or what its `to_client` returns. `config`: for fit and evaluate.

        Raises ConfigError if flwr is not installed, or for something else than a client.
        """
        self._flwr = _flwr()
        made = client.to_client() if isinstance(client, self._flwr.client.NumPyClient) else client
        if not isinstance(made, self._flwr.client.Client):
            raise ConfigError(
                f"{type(client).__name__} is no client of Flower; allowed: a NumPyClient or Client"
            )
        self.name, self._client, self._config = name, made, dict(config or {})
        common = self._flwr.common
        found = _succeeded(made.get_parameters(common.GetParametersIns(config={})), "get_parameters")
        self._like: list[NDArray[Any]] = common.parameters_to_ndarrays(found.parameters)
        self._rows: int | None = None

    @property
    def rows(self) -> int:
        """The num_examples of the client's fit; before the first one, it is called once to know them."""
        if self._rows is None:
            self.train(self.vector(), 1)
        return self._rows or 0

    def vector(self) -> Vector:
        """Returns the client's own parameters (d,)."""
        return joined(self._like)

    def train(self, vector: Vector, round: int) -> Vector:
        """Returns the parameters (d,) after the client's `fit`."""
        asked = self._flwr.common.FitIns(self._parameters(vector), self._of_round(round))
        fitted = _succeeded(self._client.fit(asked), "fit")
        self._rows = int(fitted.num_examples)
        return joined(self._flwr.common.parameters_to_ndarrays(fitted.parameters))

    def evaluate(self, vector: Vector) -> Mapping[str, float]:
        """Returns the metrics of the client's `evaluate` that are numbers, and then its loss."""
        asked = self._flwr.common.EvaluateIns(self._parameters(vector), self._of_round(0))
        found = _succeeded(self._client.evaluate(asked), "evaluate")
        if not found.num_examples:
            return {}
        numbers = {
            name: float(value) for name, value in found.metrics.items() if isinstance(value, int | float)
        }
        return {**numbers, "loss": float(found.loss)}

    def save(self, vector: Vector, folder: Path) -> None:
        """Writes the list of arrays as Flower's strategies do, as an npz."""
        arrays = {f"arr_{at}": part for at, part in enumerate(cut(vector, self._like))}
        write_arrays(folder / "parameters.npz", arrays)

    def _parameters(self, vector: Vector) -> Any:
        return self._flwr.common.ndarrays_to_parameters(cut(vector, self._like))

    def _of_round(self, round: int) -> dict[str, Any]:
        return {"server_round": round, "server-round": round, **self._config}


def flower_client(setting: LearnerSetting) -> FlowerLearner:
    """Returns the learner of the client that `args.client` names, in place of Flower's ClientApp."""
    args = setting.args
    unknown = [name for name in args if name not in _KEYS]
    if unknown or not isinstance(args.get("client"), str):
        raise ConfigError(
            f"model.args = {shown(dict(args))} do not suit a client of Flower; allowed: client = "
            f"'package.module:client_fn', and {', '.join(_KEYS[1:])}"
        )
    flwr, make = _flwr(), import_object(args["client"])
    part, parts = setting.shard or (0, 1)
    given = {
        "run_id": 0,
        "node_id": part,
        "node_config": {"partition-id": part, "num-partitions": parts},
        "state": flwr.common.RecordDict(),
        "run_config": dict(args.get("run_config", {})),
    }
    if not callable(make):
        raise ConfigError(
            f"model.args.client = {shown(args['client'])} cannot be called; allowed: a client_fn"
        )
    client = make(flwr.common.Context(**given))
    return FlowerLearner(client, args.get("name", args["client"]), args.get("config"))


def _succeeded(result: Any, method: str) -> Any:
    """Returns the result of a client's method; raises UserError if its status says that it failed."""
    if result.status.code.value:
        raise UserError(f"{method} failed: {result.status.message}")
    return result


def _flwr() -> Any:
    for part in ("flwr.client", "flwr.common"):
        extra(part, "flower")
    return extra("flwr", "flower")
