"""The files for people and programs: whole lines, whole files, and no data in them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open

from node.runtime.record.artifacts import Folder, total_of
from node.runtime.record.figures import Record
from node.storage.records import Traffic
from node.system.errors import UserError
from node.training.model_file import Card
from node.training.trainer import split_vector
from protocol.wire.messages import Base
from tests.unit.node.observe.test_lines import RECORD, SUMMARY

SHAPES = [("layer.weight", (2, 3)), ("layer.bias", (2,))]
TASK = {"task": {"name": "t"}, "model": {"class": "a:B"}}
CARD = Card(TASK, 2, (3,), ("norm.running_mean",))
BASE = Base(4, bytes(32), 3, bytes(32))


METRICS = {"accuracy": 0.9, "auc": 0.87654321, "balanced-accuracy": None}
PHASES = {"train": Traffic(0.5), "group": Traffic(0.1, 4, 5)}
BYTES = {"bytes_sent": 10, "bytes_received": 20}


def record(round: int) -> Record:
    told = {"loss": 0.123456789, "metrics": METRICS, "baseline": 0.654321987, "phases": PHASES}
    return replace(RECORD, round=round, **told, **BYTES)


def test_history_is_a_line_for_each_round_and_one_that_a_crash_cut_off_does_not_spoil_the_next(tmp_path):
    folder = Folder(tmp_path, CARD)
    folder.append(record(1))
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"round": 2, "outc')
    folder.append(record(2))
    folder.append(record(3))
    lines, texts = folder.history(), (tmp_path / "history.jsonl").read_text().splitlines()
    assert ([line.round for line in lines], len(texts)) == ([1, 2, 3], 4)
    written = json.loads(texts[0])
    assert written["phases"]["group"] == {"s": 0.1, "bytes_sent": 4, "bytes_received": 5}
    assert written["loss"] == 0.123457
    assert written["metrics"] == {"accuracy": 0.9, "auc": 0.876543, "balanced-accuracy": None}
    assert [written[name] for name in ("metric", "value", "baseline")] == ["accuracy", 0.9, 0.654322]
    rounded = {"loss": 0.123457, "metrics": written["metrics"], "baseline": 0.654322}
    assert lines[0] == replace(record(1), **rounded)


def test_totals_over_earlier_starts():
    assert total_of([]) == Traffic(0, 0, 0)
    assert total_of([record(1), record(2)]) == Traffic(1.5, 20, 40)


def whole(vector):
    return {**split_vector(vector, SHAPES), "norm.num_batches_tracked": np.array(7)}


def test_models_are_named_tensors_and_say_what_they_hold_and_what_they_cost(tmp_path):
    base, working = np.arange(8, dtype=np.float32), np.ones(8, dtype=np.float32)
    Folder(tmp_path, CARD).models(whole, BASE, (base, working), {"epsilon_spent": 1.5})
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        assert np.array_equal(file.get_tensor("layer.weight"), base[:6].reshape(2, 3))
        assert file.get_tensor("norm.num_batches_tracked") == 7
        assert json.loads(file.metadata()["murmuration"]) == {
            "holds": "model",
            "base_digest": "00" * 32,
            "generation": 4,
            "participants": 3,
            "privacy": {"epsilon_spent": 1.5},
            "task": TASK,
            "classes": 2,
            "row": [3],
            "own": ["norm.running_mean"],
            "calibration": None,
        }
        assert len(file.metadata()) == 1, "several keys have no order, and equal models would differ in bytes"
    with safe_open(tmp_path / "private.safetensors", "np") as file:
        assert np.array_equal(file.get_tensor("layer.bias"), working[6:])
    assert np.array_equal(Folder(tmp_path, CARD).private()["layer.bias"], working[6:])


def test_equal_models_are_equal_files(tmp_path):
    vectors = (np.arange(8, dtype=np.float32), np.ones(8, dtype=np.float32))
    for name, ledger in (("a", {"z": 1, "a": 2}), ("b", {"a": 2, "z": 1})):
        (tmp_path / name).mkdir()
        Folder(tmp_path / name, CARD).models(whole, BASE, vectors, ledger)
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("a", "b"))
    assert one == other


def test_a_working_model_that_is_not_there_or_damaged(tmp_path):
    folder = Folder(tmp_path, CARD)
    assert folder.private() == {}
    (tmp_path / "private.safetensors").write_bytes(b"no model")
    with pytest.raises(UserError, match=r"private.safetensors cannot be read: .*; start with another"):
        folder.private()


def test_the_summary_is_replaced_whole(tmp_path):
    Folder(tmp_path, CARD).summary(replace(SUMMARY, metrics={"auc": 1 / 3}, metric="auc", value=1 / 3))
    written = json.loads((tmp_path / "summary.json").read_text())
    assert (written["aggregated"], written["metrics"]) == (2, {"auc": 0.333333})
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
