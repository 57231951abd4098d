"""`python -m node.predict`: predicts new rows with a model that a swarm agreed on."""

from __future__ import annotations

from node.cli.command import command
from node.predict.options import PredictOptions
from node.system.errors import one_line

_DESCRIPTION = "Predicts with the model of a run; measures the model if the data has the target."
_EPILOG = """\
example:
  python -m node.predict --model runs/ward-1f2e3d4c --data new.csv --out predictions.csv

A model file names the class to load: like a task file, accept it only from people you trust.
exit status: 0 done, 1 failed at run time, 2 bad arguments, model or data."""


def _starting(options: PredictOptions) -> str | None:
    told = one_line(f"predictions for {options.data} with the model in {options.model}")
    return None if options.json else told


def _run(options: PredictOptions) -> int:
    from node.predict.write import predict  # noqa: PLC0415 - loads torch, seconds

    print(predict(options))
    return 0


main = command("node.predict", PredictOptions, _DESCRIPTION, _EPILOG, starting=_starting, run=_run)
main.start(__name__)
