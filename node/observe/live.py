"""The live view on a terminal: what is going on now under the lines of what happened."""

from __future__ import annotations

import asyncio
from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from node.data.report import counted
from node.observe.reporting import Status, draining_text, summary_text
from node.runtime.artifacts import Record, Summary
from node.runtime.group_guarantees import Withstands
from protocol.actions import Notice, Reason
from protocol.wire.messages import Base

REFRESH_S = 0.25
SHOWN_ROUNDS = 8
_WORDS = {
    "joining": "meeting the others",
    "idle": "training",
    "group": "looking for a group",
    "shares": "exchanging shares",
    "sums": "exchanging sums",
    "following": "following the others (the privacy budget is spent)",
    "catching up": "fetching the agreed model",
    "closing": "making sure that everyone has the last model",
}


class LiveReporter:
    """A panel that is redrawn in place; notices scroll above it."""

    def __init__(self) -> None:
        self._console = Console()
        self._rounds: deque[tuple[Record, int]] = deque(maxlen=SHOWN_ROUNDS)

    def started(self, lines: dict[str, str]) -> None:
        """One line a fact."""
        for name, value in lines.items():
            # The terminal breaks a line that is too long: an address that is copied has no break in it.
            self._console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)

    def sums(self, group: Withstands) -> None:
        """A line above the panel."""
        self._console.print(Text.assemble(("sums: ", "bold"), group.text))

    def training(self, round: int) -> None:
        """The panel shows it."""

    def round_ended(self, record: Record, rounds: int) -> None:
        """One more row."""
        self._rounds.append((record, rounds))

    def caught_up(self, base: Base, how: str) -> None:
        """A line above the panel."""
        self._console.print(Text(f"caught up: base of generation {base.generation}, {how}", style="green"))

    def notice(self, notice: Notice, text: str) -> None:
        """A line above the panel."""
        self._console.print(Text(text, style="dim"))

    def rolled_back(self, text: str) -> None:
        """A warning."""
        self.warning(text)

    def draining(self, within_s: float) -> None:
        """A line above the panel."""
        self._console.print(Text(draining_text(within_s), style="yellow"))

    def warning(self, text: str) -> None:
        """A line above the panel."""
        self._console.print(Text(f"warning: {text}", style="yellow"))

    def finished(self, summary: Summary) -> None:
        """The summary's line."""
        self._console.print(Text(summary_text(summary), style="bold"))

    async def keep_showing(self, status: Status) -> None:
        """Redraw a few times a second until cancelled."""
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            try:
                while True:
                    live.update(self._panel(await status()), refresh=True)
                    await asyncio.sleep(REFRESH_S)
            finally:
                live.update(self._table(), refresh=True)

    def _panel(self, status: dict[str, object]) -> Group:
        phase = str(status["phase"])
        text = Text.assemble(("round ", ""), (f"{_next(status)}", "bold"), f" of {status['rounds']}: ")
        text.append(_WORDS.get(phase, phase), style="cyan")
        waiting = status["waiting_for"]
        if isinstance(waiting, list) and waiting:
            text.append(f", waiting for {', '.join(waiting[:4])}{' ...' if len(waiting) > 4 else ''}")
        left_s = status["left_s"]
        if isinstance(left_s, float) and phase != "idle":
            text.append(f", at most {left_s:.0f} s more", style="dim")
        if status["waiting"]:
            text.append(f"\n{status['waiting']}", style="yellow")
        return Group(self._table(), Panel(text, title=f"{status['task']}", title_align="left"))

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        private = any(record.epsilon is not None for record, _ in self._rounds)
        names = ("round", "outcome", "with", "accuracy", "train s", "aggregate s", "kB sent")
        for name in (*names, "epsilon spent") if private else names:
            table.add_column(name, justify="left" if name == "outcome" else "right")
        for record, rounds in self._rounds:
            table.add_row(
                *(f"{record.round}/{rounds}", _outcome(record), str(record.participants or "-")),
                *(f"{100 * record.accuracy:.1f} %", f"{record.train_s:.2f}", f"{record.aggregate_s:.2f}"),
                f"{record.bytes_sent / 1e3:.0f}",
                *([] if record.epsilon is None else [f"{record.epsilon:.3f}"]),
            )
        return table


def _outcome(record: Record) -> Text:
    if record.rolled_back:
        return Text("rolled back", "yellow")
    if record.without:
        return Text(f"aggregated without {counted(len(record.without), 'elector')}", "bold yellow")
    if record.reason is None:
        return Text("aggregated", "green")
    followed = record.reason == Reason.BUDGET_SPENT
    return Text(f"{'followed' if followed else 'own'}: {record.reason}", "yellow")


def _next(status: dict[str, object]) -> int:
    done, rounds = status["round"], status["rounds"]
    return min(done + 1, rounds) if isinstance(done, int) and isinstance(rounds, int) else 0
