"""Tests that run at the same time get different ports."""

import socket
from itertools import count

import pytest

from tests.e2e import processes
from tests.e2e.processes import HOST, free_endpoint


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def test_a_port_that_another_pytest_has_taken_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = port_of(free_endpoint())
    monkeypatch.setattr(processes, "_ports", count(theirs))  # where nobody listens yet
    assert port_of(free_endpoint()) > theirs


def test_a_port_where_somebody_listens_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(processes, "_ports", iter((port, *range(20000, 32000))))
        assert port_of(free_endpoint()) != port
