"""Scikit-learn: five peers learn handwritten digits by SGDClassifier.partial_fit, and share coefficients.

python examples/learner_sklearn.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from node import Swarm
from node.learners.learner import LearnerRows
from node.learners.sklearn import SklearnLearner

TASK = {"task": {"name": "digits-sklearn"}, "train": {"rounds": 5}}
x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32)

learners = [
    SklearnLearner(
        SGDClassifier(loss="log_loss", random_state=0),
        LearnerRows(x[own][60:], y[own][60:], x[own][:60], y[own][:60], classes=10),
    )
    for own in np.array_split(np.random.default_rng(0).permutation(len(x)), 5)
]
results = Swarm.local(5, TASK, learners=learners).run()

print(results)
print("all rows:", learners[0].fitted(results.vector).score(x, y))
