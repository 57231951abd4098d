"""The two stages of a `fit`, agreement and learning, each a swarm of its own: who is where, and who differs.

A member that is met in another swarm may be at the other stage of the same fit, or at the end of an earlier
one: that passes. Or its parameters differ: then somebody must correct them.
"""

from __future__ import annotations

from dataclasses import dataclass

from node.estimators.agreement import SECTION
from node.runtime.record.events import NodeEvent, Noticed, RoundEnded, Warned
from node.system.errors import ConfigError, OtherSwarm
from node.task.parameters import has_section
from protocol.actions import Note

_CONCERN = (Note.NOT_ALLOWED, Note.WRONG_PIN, Note.REFUSED, Note.OTHER_VERSION)
_ALIKE = "give the same at all members"


@dataclass(frozen=True)
class Misfit:
    """What is to be told of a member of another swarm; `passes`: it may be in this one soon."""

    text: str
    passes: bool


class Stage:
    """A stage of this member. `agreed_on`: the parameters of its agreement, once that is over."""

    def __init__(self, *, agrees: bool, agreed_on: str | None = None) -> None:
        self._agrees, self._agreed_on = agrees, agreed_on
        self._begun = False

    def misfit(self, who: str, text: str, parameters: str) -> Misfit | None:
        """Returns what to tell of the member at `who` with other `parameters`; None: it is behind, or ahead.

        `text`: the line that a node has for it.
        """
        if has_section(parameters, SECTION):
            if self._agrees:
                return Misfit(text.replace(f"{SECTION}.", ""), passes=False)
            if self._agreed_on is None:
                what = "agrees on what the columns and classes are, which this member declares"
                return Misfit(f"{who} {what}; {_ALIKE}", passes=False)
            behind = parameters == self._agreed_on
            return None if behind else Misfit(f"{who} has begun another fit", passes=True)
        if not self._agrees:
            return Misfit(text, passes=True)
        what = "does not agree on columns and classes: it declares them, or an earlier fit is not over there"
        return None if self._begun else Misfit(f"{who} {what}; {_ALIKE}", passes=True)

    def told_of(self, event: NodeEvent) -> str | None:
        """Returns what `fit` is to tell of an event; None: nothing."""
        match event:
            case RoundEnded(record):
                self._begun |= not record.alone
            case Noticed(notice, text) if notice.kind is Note.OTHER_SWARM:
                found = self.misfit(notice.who, text, notice.text)
                return None if found is None else found.text
            case Noticed(notice, text) if notice.kind in _CONCERN:
                return text
            case Warned(text):
                return text
        return None

    def check(self, error: OtherSwarm) -> None:
        """Raises ConfigError if it does not help to try again after this refusal by all that answer."""
        found = self.misfit(error.who, str(error), error.parameters)
        if found is not None and not found.passes:
            raise ConfigError(found.text) from error
