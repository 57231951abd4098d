"""Joining: the folder of a code, and what the owner sees and decides before anything is sent."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

from node.check.checks import check_all
from node.check.finding import Finding
from node.invitation.foreign import check_portable, foreign_code, marked_lines
from node.invitation.joining import Decision, Visitor
from node.invitation.kept import Joining, joins_below, kept_joining
from node.invitation.key import made_key
from node.invitation.node_options import options_to_check, own_choices
from node.invitation.terminal import Terminal
from node.invitation.words import task_line
from node.join.options import JoinOptions
from node.start.joiner_window import JoinersWindow, wait_for_list
from node.storage.owners_files import keep_file
from node.storage.swarm_file import AGREED, TASK, Own
from node.system.errors import ConfigError, UserError, counted, one_line, reason
from protocol.invitation.joiner import Place, place_of
from protocol.invitation.messages import Invitation, Standing
from protocol.invitation.words import Code
from protocol.wire.ids import Key

_RUNS = Path("runs")


class Newcomer(JoinersWindow):
    """The owner who looks at an invitation."""

    def __init__(self, options: JoinOptions, own: Own, terminal: Terminal, key: Key) -> None:
        super().__init__(terminal, key)
        self._options, self._own = options, own
        self._task = ""
        """The task's name, once it is known to be one."""
        self.visitor: Visitor | None = None

    async def decide(self, invitation: Invitation) -> Decision:
        """Shows the invitation, checks the own data, and asks."""
        others = f", with: {', '.join(invitation.others)}" if invitation.others else ""
        self.terminal.say(f"{invitation.inviter} invites you, {invitation.you}{others}")
        if self._options.show_task:
            text = invitation.learned.decode("utf-8", "replace")
            self.terminal.say(*(one_line(line) for line in text.splitlines()))
        keep_file(self.folder / TASK, invitation.task)
        if invitation.agreed:
            keep_file(self.folder / AGREED, invitation.agreed)
        members = len(invitation.others) + 2
        findings = await asyncio.to_thread(self._findings, invitation, members)
        self.terminal.say(*(line for finding in findings for line in finding.lines()))
        if any(finding.level == "problem" for finding in findings):
            return Decision.UNFIT
        marked = marked_lines(invitation.learned)
        self.terminal.say(
            "What leaves this machine: your part of sums that nobody can take apart. What the inviter's task "
            "says about the inviter's data: "
            f"{counted(len(marked), 'line')} (--show-task prints all)"
        )
        if not await self.terminal.ask(f"Join with {self._options.data.name}?"):
            return Decision.LATER
        self._settle()
        return Decision.JOIN

    def _findings(self, invitation: Invitation, members: int) -> list[Finding]:
        """What a check finds of the task and of the own data."""
        path = self.folder / (AGREED if invitation.agreed else TASK)
        try:
            if invitation.agreed and "agreement" not in tomllib.loads(invitation.task.decode()):
                raise UserError("the members of this swarm agreed on nothing, and the invitation says so")
            node = options_to_check(path, self._own, members)
            check_portable(node.task, path)
        except (UserError, ValueError, RecursionError) as error:
            return [Finding("problem", "task", reason(error))]
        if (code := foreign_code(node.task)) and not self._options.allow_code:
            text = (
                f"it would run {', '.join(code)} on this machine, which {invitation.inviter} chose: find out "
                "what that is, and join with --allow-code only if it is what you want"
            )
            return [Finding("problem", "task", text)]
        self._task = node.task.task.name
        self.terminal.say(task_line(node.task))
        return list(check_all(node, met=False))

    def _settle(self) -> None:
        """Gives the folder the task's name, if it has none of its owner's."""
        wanted = _RUNS / self._task
        if self.visitor is None or self._options.out is not None or wanted.exists():
            return
        try:
            self.folder.rename(wanted)
        except OSError as error:
            raise ConfigError(f"{one_line(str(self.folder))} cannot be renamed: {reason(error)}") from error
        self.folder = self.visitor.folder = wanted


def join(options: JoinOptions) -> int:
    """Joins and learns; returns the exit status. Raises UserError."""
    folder, kept = _kept_for(options.code, options.out)
    own = own_choices(options.data, options.cells, options.blank_person, options.encoder)
    key = made_key(folder)
    terminal = Terminal(options.yes)
    window = Newcomer(options, own, terminal, key.public)
    place = place_of(options.code) if kept is None else kept.place
    window.visitor = Visitor(folder, key, Joining(place, own), window)
    return wait_for_list(window.visitor, window)


def _kept_for(code: Code, out: Path | None) -> tuple[Path, Joining | None]:
    """The folder of a code, and what it keeps if this is not the first try. Raises ConfigError."""
    known = [*joins_below(_RUNS)] if out is None else []
    for folder, kept in known:
        if _is_of(kept.place, code):
            return folder, kept
    folder = out or _RUNS / f"join-{code.room}"
    there = kept_joining(folder)
    if there is None:
        return folder, None
    if _is_of(there.place, code):
        return folder, there
    if there.place.standing is not Standing.OUTSIDE:
        raise ConfigError(f"{one_line(str(folder))} has joined by another code: give another --out")
    return folder, None


def _is_of(place: Place, code: Code) -> bool:
    return (place.relay, place.room, place.secret) == (code.relay, code.room, code.secret)
