"""What the owner's own rows show, beside the headline: a model of these rows alone, figures class by class.

Where the task has a mechanism, nothing covers these figures, as they come from the rows themselves. Then they
are `secret`: they stand in no file, no log and no view, and the owner sees them in the last line of the run
and on a page that this machine itself opens (node.observe.page).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from node.training.figures.class_figures import ClassFigures
from node.training.figures.headline import Alone

NOT_COVERED = "not covered by epsilon: do not pass on"
"""The mark of secret figures."""


@dataclass(frozen=True)
class OwnFigures:
    """The figures of a node's own rows."""

    alone: Alone | None = None
    """How good a model of these rows alone is; None: there is none, or not yet."""
    classes: ClassFigures | None = None
    """Those of the common model, class by class; None for numeric targets, or not yet."""
    left_out: tuple[str, ...] = ()
    """The columns of the owner's file that the task does not use."""
    secret: bool = False
    """Whether they are for the owner alone, on this machine."""

    @property
    def open(self) -> OwnFigures | None:
        """The figures for files and views; None if they are secret."""
        return None if self.secret else self


NONE_KNOWN = OwnFigures()


class OwnBook:
    """Keeps a node's own figures, as they become known."""

    def __init__(self, *, secret: bool = False, unread: tuple[str, ...] = ()) -> None:
        self._figures = OwnFigures(secret=secret, left_out=unread)
        self._make_classes: Callable[[], ClassFigures | None] | None = None
        """Makes the figures of the newest model, which nobody has asked for yet."""

    @property
    def figures(self) -> OwnFigures:
        """The figures known now."""
        if self._make_classes is not None:
            self._figures = replace(self._figures, classes=self._make_classes())
            self._make_classes = None
        return self._figures

    def compared(self, alone: Alone | None) -> None:
        """Keeps the figure of the model alone."""
        self._figures = replace(self._figures, alone=alone)

    def measured(self, make_classes: Callable[[], ClassFigures | None]) -> None:
        """Keeps what makes the figures of the common model."""
        self._make_classes = make_classes
