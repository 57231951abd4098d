"""Event files for TensorBoard: `tensorboard --logdir DIR` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """Writes event files into DIR/RUN; a node that resumes goes on in the same folder."""

    def __init__(self, folder: Path, run: str) -> None:
        self._writer = SummaryWriter(str(folder / run))

    def describe(self, lines: Mapping[str, str]) -> None:
        """Writes the lines as one text."""
        self._writer.add_text("about", "\n".join(f"- **{name}**: {text}" for name, text in lines.items()))

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Writes a point for each figure, at the round's number; a dot in a name begins a group."""
        for name, value in figures.items():
            self._writer.add_scalar(name.replace(".", "/"), value, number)
        self._writer.flush()

    def finish(self, figures: Mapping[str, float]) -> None:
        """Writes nothing: the last round has these figures."""

    def close(self) -> None:
        """Closes the event file."""
        self._writer.close()
