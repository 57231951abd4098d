"""What TensorBoard and MLflow themselves read of what was written for them, where they are installed."""

from dataclasses import replace

import pytest

from node.observe.reporters.choose import reporting
from node.options import ReportTo
from node.runtime.record import events
from tests.unit.node.observe.test_lines import RECORD, SUMMARY

KEY = "ab" * 32
RUN = "digits-abababab"
ROUNDS = [events.RoundEnded(replace(RECORD, round=number, accuracy=number / 8), 4) for number in (1, 2, 3, 4)]
POINTS = [(1, 0.125), (2, 0.25), (3, 0.375), (4, 0.5)]
quiet = pytest.mark.filterwarnings("default")  # the libraries' own warnings are not ours to mend


def report(name, folder, told):
    warned = []
    with reporting((ReportTo(name, folder),), "digits", KEY, warned.append) as observers:
        for event in told:
            observers[0].handle(event)
    assert warned == []


@quiet
def test_tensorboard_reads_every_round(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed: pip install '.[tensorboard]'",
    )
    started = events.Started({"task": "digits"})
    report("tensorboard", tmp_path, [started, *ROUNDS[:2]])
    report("tensorboard", tmp_path, [started, *ROUNDS[2:], events.Finished(SUMMARY)])
    read = reader.EventAccumulator(str(tmp_path / RUN))
    read.Reload()
    assert [(point.step, point.value) for point in read.Scalars("accuracy")] == POINTS
    assert "metrics/accuracy" in read.Tags()["scalars"]


@quiet
def test_mlflow_reads_every_round_and_a_resumed_node_goes_on_in_its_run(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed: pip install '.[mlflow]'")
    started = events.Started({"task": "digits", "data": "d" * 9000})
    report("mlflow", tmp_path, [started, *ROUNDS[:2]])
    report("mlflow", tmp_path, [started, *ROUNDS[2:], events.Finished(SUMMARY)])
    from mlflow.tracking import MlflowClient  # noqa: PLC0415 - where it is installed

    client = MlflowClient(tmp_path.as_uri())
    experiment = client.get_experiment_by_name("digits")
    (run,) = client.search_runs([experiment.experiment_id])
    points = client.get_metric_history(run.info.run_id, "accuracy")
    assert sorted((point.step, point.value) for point in points) == POINTS
    assert (run.info.run_name, run.info.status) == (RUN, "FINISHED")
    assert run.data.tags["task"] == "digits"
