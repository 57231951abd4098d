"""The files that a node writes for people and programs: models, history, summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from node.runtime.record.figures import Record, Summary
from node.storage.records import Traffic
from node.storage.vector_files import Floats
from node.storage.whole_files import own_file, replace_file
from node.system.disk import DISK, Disk
from node.training.model_file import Card, Tensors, read_tensors, write_model
from protocol.wire.messages import Base

LEARNER = "learner"
"""The folder, in a run's, of what a learner writes in its own format."""


class Folder:
    """Reads and writes the artifacts in a node's --out."""

    def __init__(
        self,
        path: Path,
        card: Card | None,
        disk: Disk = DISK,
        save: Callable[[Floats, Path], None] | None = None,
    ) -> None:
        """`card`: the metadata of the model files that is the same in every round; None: there are none.

        `save` writes the agreed base (d,) into a folder, in the format of a learner's framework.
        """
        self.path = path
        self._card = card
        self._disk = disk
        self._save = save

    @property
    def keeps_own(self) -> bool:
        """Whether the model files have tensors that are no one else's: then they are the only copy."""
        return self._card is not None and bool(self._card.own)

    def history(self) -> list[Record]:
        """Returns the rounds so far, without a last line that a crash cut off."""
        return [record for line in lines_of(self.path) if (record := Record.from_line(line)) is not None]

    def append(self, record: Record) -> None:
        """Appends a line of history."""
        path = self.path / "history.jsonl"
        with own_file(path, "a+b") as file:
            end = file.tell()
            file.seek(max(0, end - 1))
            cut_off = end > 0 and file.read(1) != b"\n"
            line = json.dumps(record.as_json(), allow_nan=False)
            file.write((("\n" if cut_off else "") + line + "\n").encode())

    def models(
        self,
        tensors_of: Callable[[Floats], Tensors],
        base: Base,
        vectors: tuple[Floats, Floats],
        privacy: Mapping[str, object] | None,
        finished: bool | None = None,
    ) -> None:
        """Writes model.safetensors, the agreed base, and private.safetensors, the working model.

        The working model is never served. `vectors` holds their vectors, (d,) each; `tensors_of` makes a
        whole model from one. `privacy` is the ledger. `finished`: as in `Card.filled`.
        """
        if self._card is None:
            return
        for name, vector in zip(("model", "private"), vectors, strict=True):
            path = self.path / f"{name}.safetensors"
            write_model(path, tensors_of(vector), self._card.filled(name, base, privacy, finished))
        if self._save is not None:
            self._save(vectors[0], self.path / LEARNER)

    def private(self) -> Tensors:
        """Returns the tensors of private.safetensors, empty if there is none. Raises UserError."""
        path = self.path / "private.safetensors"
        return read_tensors(path) if path.exists() else {}

    def summary(self, summary: Summary) -> None:
        """Writes summary.json, replacing it in one step."""
        text = json.dumps(summary.as_json(), indent=1, allow_nan=False)
        replace_file(self.path / "summary.json", (text.encode() + b"\n",), durable=True, disk=self._disk)


def lines_of(folder: Path) -> list[bytes]:
    """Returns the lines of the history in a run's folder."""
    try:
        return (folder / "history.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []


def total_of(history: Sequence[Record]) -> Traffic:
    """Returns the cost of the rounds in `history`: seconds of training and aggregation, and bytes."""
    return Traffic(
        sum(line.train_s + line.aggregate_s for line in history),
        sum(line.bytes_sent for line in history),
        sum(line.bytes_received for line in history),
    )
