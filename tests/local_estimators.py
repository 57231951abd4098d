"""Estimators of a swarm of three in this process: each `fit` has two other members with rows of their own."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from node import SwarmClassifier, SwarmRegressor

MEMBERS = 3


def fit_together(estimators: Sequence[Any], rows: Sequence[tuple[Any, Any]], folder: Path) -> None:
    """Fits the estimators, each on its own rows (X, y). Raises the first one's error, if it has one."""
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in estimators]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in opened]
    try:
        with ThreadPoolExecutor(len(estimators)) as pool:
            fits = []
            for number, (one, listening) in enumerate(zip(estimators, opened, strict=True)):
                reached = {"peers": addresses, "listen": listening, "wait": 20}
                one.set_params(**reached, out=one.out or folder / str(number))
                fits.append(pool.submit(one.fit, *rows[number]))
        for fit in fits:
            fit.result()
    finally:
        for one in opened:
            one.close()


class _InALocalSwarm:
    """Each member has all rows that `fit` is given."""

    def fit(self, X: Any, y: Any) -> Any:  # noqa: N803 - scikit-learn's name
        """Learns with two others, in this process."""
        usual, params = type(self).__mro__[2], self.get_params()
        members = [usual(**params) for _ in range(MEMBERS)]
        with tempfile.TemporaryDirectory() as folder:
            fit_together(members, [(X, y)] * MEMBERS, Path(folder))
        for name, value in vars(members[0]).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self


class LocalClassifier(_InALocalSwarm, SwarmClassifier):
    """A SwarmClassifier that fits by itself."""


class LocalRegressor(_InALocalSwarm, SwarmRegressor):
    """A SwarmRegressor that fits by itself."""
