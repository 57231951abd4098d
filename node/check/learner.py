"""Checks a learner of another framework: that it can be made, and that a round of its training helps."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from node.app.study import study_of_learner
from node.check.finding import Finding
from node.options import NodeOptions
from node.system.errors import UserError
from node.training.figures.metric_words import metric_text
from node.training.own_learner import OwnLearner

_SUBJECT = "learner"


def learner_findings(options: NodeOptions) -> Iterator[Finding]:
    """Makes the learner as a node does, and trains it for a round."""
    try:
        studied = study_of_learner(options)
        learner = studied.learning.trainer
        yield Finding("ok", _SUBJECT, f"{learner}, {studied.about.what}")
        if isinstance(learner, OwnLearner):
            yield _tried(learner)
    except UserError as error:
        yield Finding("problem", _SUBJECT, str(error))


def _tried(learner: OwnLearner) -> Finding:
    first = learner.vector()
    before = learner.evaluate(first).headline
    after = learner.evaluate(learner.train(first, 1, threading.Event()).vector).headline
    told = [metric_text(found.metric, found.value) for found in (before, after)]
    return Finding("ok", "learning", f"{told[0]} before a round alone, {told[1]} after it")
