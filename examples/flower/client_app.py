"""A client as Flower's tutorials write it: nothing in here knows of this program (../learner_flower.py)."""

import warnings

import flwr.client
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss


class DigitsClient(flwr.client.NumPyClient):
    """Logistic regression on one partition of the digits."""

    def __init__(self, part: int, parts: int) -> None:
        x, y = load_digits(return_X_y=True)
        own = np.array_split(np.random.default_rng(0).permutation(len(x)), parts)[part]
        self.train, self.test = (x[own][60:] / 16, y[own][60:]), (x[own][:60] / 16, y[own][:60])
        self.model = LogisticRegression(max_iter=5, warm_start=True)
        self.model.classes_ = np.arange(10)
        self.model.coef_, self.model.intercept_ = np.zeros((10, 64)), np.zeros(10)

    def get_parameters(self, config):  # noqa: ANN001, ANN201, D102 - as in the tutorials
        return [self.model.coef_, self.model.intercept_]

    def fit(self, parameters, config):  # noqa: ANN001, ANN201, D102
        self.model.coef_, self.model.intercept_ = parameters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # five steps are no convergence
            self.model.fit(*self.train)
        return self.get_parameters({}), len(self.train[0]), {}

    def evaluate(self, parameters, config):  # noqa: ANN001, ANN201, D102
        self.model.coef_, self.model.intercept_ = parameters
        loss = log_loss(self.test[1], self.model.predict_proba(self.test[0]), labels=np.arange(10))
        return loss, len(self.test[0]), {"accuracy": self.model.score(*self.test)}


def client_fn(context):  # noqa: ANN001, ANN201 - as in the tutorials
    """Flower calls this for each partition."""
    return DigitsClient(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    ).to_client()
