"""When a node writes the models of its rounds."""

from __future__ import annotations

from node.runtime.record.history import SAVE_EVERY_S
from node.training.model_file import read_about
from protocol.wire.messages import Ready
from tests.box.box import Box, BoxNode, Watcher

ROUNDS = 30


class Writes(Watcher):
    """Notes when the file of a node's agreed model is replaced, and its generation."""

    def __init__(self, node: BoxNode) -> None:
        self._path = node.folder / "model.safetensors"
        self._last = 0
        self.seen: list[tuple[float, int]] = []

    def look(self, box: Box) -> None:
        inode = self._path.stat().st_ino if self._path.exists() else 0
        if inode != self._last:
            self._last = inode
            self.seen.append((box.loop.time(), read_about(self._path)["generation"]))


def test_models_are_written_beside_short_rounds_at_most_every_five_seconds_and_at_the_end(make_box) -> None:
    box = make_box(3, ROUNDS)
    box.network.slowest_s = 0.5
    writes = Writes(box.nodes[0])
    box.watchers.append(writes)
    box.start_all()
    box.run_to_the_end()
    *during, (_, last) = writes.seen
    assert last == ROUNDS
    assert during[0][1] == 1
    lasted_s = box.loop.time() - during[0][0]
    assert 1 < len(during) <= lasted_s / SAVE_EVERY_S + 2, "it is seen a little later than it is written"


def test_a_node_that_waits_has_written_the_model_of_its_last_round(make_box) -> None:
    box = make_box(3, ROUNDS, "aggregation.min_participants=3", "aggregation.weak=false")
    first, *others = box.nodes
    box.start_all()
    box.run(lambda: first.has_aggregated(2))
    for node in others:
        node.kill()
    box.run_for(2 * SAVE_EVERY_S)
    assert first.engine is not None
    assert read_about(first.folder / "model.safetensors")["generation"] == first.engine._state.base.generation


def test_layers_of_its_own_are_on_disk_when_the_round_has_its_line(make_box) -> None:
    box = make_box(3, 8, "train.parameters=layers.2.*", "train.local=layers.0.*")
    node = box.nodes[1]
    box.start_all()
    node.before_message(node.kill, "out", Ready, fits=lambda _: len(node.history) == 3)
    box.run(lambda: node.is_over)
    about = read_about(node.folder / "private.safetensors")
    assert about["base_digest"] == node.history[-1]["base_digest"]
