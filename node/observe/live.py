"""The live view on a terminal: the current activity below the lines of past events."""

from __future__ import annotations

import asyncio
from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from node.observe.lines import alone_text, summary_text
from node.runtime.record import events
from node.runtime.record.events import NodeEvent
from node.runtime.record.figures import Record
from node.runtime.snapshot import Snapshot, Take
from node.system.errors import counted
from node.training.figures.metric_words import METRIC_NAMES, value_text
from protocol.actions import FOLLOWED

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
_LATE = "following the others (this node came after the first sum)"


class LiveView:
    """A panel that is redrawn in place; messages scroll above it."""

    def __init__(self) -> None:
        self._console = Console()
        self._rounds: deque[events.RoundEnded] = deque(maxlen=SHOWN_ROUNDS)

    def handle(self, event: NodeEvent) -> None:
        """Adds a row at the end of a round; prints a line above the panel for any other event."""
        match event:
            case events.Started(lines):
                for name, value in lines.items():
                    # Soft wrap, so that an address copied from the terminal has no line break in it.
                    self._console.print(Text.assemble((f"{name}: ", "bold"), value), soft_wrap=True)
            case events.GroupResized(group):
                self._console.print(Text.assemble(("sums: ", "bold"), group.text))
            case events.RoundEnded():
                self._rounds.append(event)
            case events.CaughtUp():
                self._console.print(Text(event.text, style="green"))
            case events.Noticed() | events.Outpaced():
                self._console.print(Text(event.text, style="dim"))
            case events.Draining() | events.Comparing() | events.Lingering():
                self._console.print(Text(event.text, style="yellow"))
            case events.Warned(text) | events.RolledBack(text):
                self._console.print(Text(f"warning: {text}", style="yellow"))
            case events.Finished(summary, own, exact):
                self._console.print(Text(summary_text(summary, own, exact=exact), style="bold"))
                if alone := alone_text(summary, exact=exact):
                    self._console.print(Text(f"warning: {alone}", style="bold yellow"))

    async def show(self, take: Take) -> None:
        """Redraws the panel a few times a second until it is cancelled."""
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            try:
                while True:
                    live.update(self._panel(await take()), refresh=True)
                    await asyncio.sleep(REFRESH_S)
            finally:
                live.update(self._table(), refresh=True)

    def _panel(self, now: Snapshot) -> Group:
        number = min(now.round + 1, now.rounds)  # of a job: of its sums
        kind, of = ("sum", f"({now.purpose})") if now.purpose else ("round", f"of {now.rounds}")
        text = Text.assemble(f"{kind} ", (f"{number}", "bold"), f" {of}: ")
        is_late = bool(now.purpose) and now.phase == "following"
        text.append(_LATE if is_late else _WORDS.get(now.phase, now.phase), style="cyan")
        if now.waiting_for:
            more = " ..." if len(now.waiting_for) > 4 else ""
            text.append(f", waiting for {', '.join(now.waiting_for[:4])}{more}")
        if now.left_s is not None and now.phase != "idle":
            text.append(f", at most {now.left_s:.0f} s more", style="dim")
        if now.waiting:
            text.append(f"\n{now.waiting}", style="yellow")
        return Group(self._table(), Panel(text, title=now.task, title_align="left"))

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        private = any((row.record.epsilon, row.record.delta) != (None, None) for row in self._rounds)
        shared = any(row.record.epsilon_alone is not None for row in self._rounds)
        metric = self._rounds[-1].record.metric if self._rounds else "accuracy"
        exact = any(row.record.purpose is not None for row in self._rounds)
        names = (
            "sum" if exact else "round",
            "outcome",
            "with",
            METRIC_NAMES[metric],
            "train s",
            "aggregate s",
            "kB sent",
        )
        swarm = any(row.record.swarm is not None for row in self._rounds)
        costs = (
            *(["all, mine"] if swarm else []),
            *(["epsilon spent"] if private else []),
            *(["if all collude"] if shared else []),
        )
        for name in (*names, *costs):
            table.add_column(name, justify="left" if name == "outcome" else "right")
        for row in self._rounds:
            record = row.record
            table.add_row(
                *(
                    f"{record.sum_number or f'{record.round}/{row.rounds}'}",
                    _outcome(record),
                    str(record.participants or "-"),
                ),
                *(_headline(record), f"{record.train_s:.2f}", f"{record.aggregate_s:.2f}"),
                f"{record.bytes_sent / 1e3:.0f}",
                *([_of_all(record)] if swarm else []),
                *([_bound(record.epsilon, ".3f")] if private else []),
                *([_bound(record.epsilon_alone, ".3g")] if shared else []),
            )
        return table


def _bound(epsilon: float | None, digits: str) -> str:
    return "no bound" if epsilon is None else format(epsilon, digits)


def _headline(record: Record) -> Text:
    """Returns the value, in yellow where the model gives all rows one class."""
    constant = record.only_class is not None
    only = f" (only {record.only_class!r})" if constant else ""
    return Text(f"{value_text(record.metric, record.value)}{only}", "yellow" if constant else "")


def _of_all(record: Record) -> str:
    """Returns the metric of all members' rows, and mine for the same model."""
    found = record.swarm
    if found is None:
        return ""
    about = "about " if found.noised else ""
    return about + ", ".join(value_text(found.metric, value) for value in (found.value, found.mine))


def _outcome(record: Record) -> Text:
    if record.rolled_back:
        return Text("rolled back", "yellow")
    if record.without:
        return Text(f"aggregated without {counted(len(record.without), 'elector')}", "bold yellow")
    if record.reason is None:
        return Text(record.purpose or "aggregated", "green")
    own = "own" if record.purpose is None else "none"
    return Text(f"{'followed' if record.reason in FOLLOWED else own}: {record.reason}", "yellow")
