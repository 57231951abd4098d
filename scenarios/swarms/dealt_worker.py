"""A whole node in a child process, on rows that its parent hands over."""

from __future__ import annotations

import socket

import numpy as np

from node.app.run import prepared_on, run_prepared
from node.options import NodeOptions
from scenarios.clients.work import node_rows
from scenarios.data.dataset import FederatedDataset


def run_node(options: NodeOptions, rows: FederatedDataset, listener: socket.socket) -> int:
    """Run a whole node that learns from all training rows of `rows`; return its exit status."""
    mine = node_rows(rows, np.arange(len(rows.train_y)))
    return run_prepared(prepared_on(options, mine), listener)
