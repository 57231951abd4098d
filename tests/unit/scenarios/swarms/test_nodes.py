import socket
from dataclasses import replace
from pathlib import Path

from node.options import parse_arguments
from scenarios.frame.spec import Request
from scenarios.swarms.nodes import SwarmPlan, batch_seed, endpoints_of, listeners, node_options, preload
from scenarios.systems.swarm.claims import plan

ENDPOINTS = ("127.0.0.1:4001", "127.0.0.1:4002", "127.0.0.1:4003")


def test_a_peer_is_started_as_the_command_line_would_start_it(tmp_path: Path) -> None:
    swarm = SwarmPlan(plan(Request(seed=2)).task, 3, 7, tmp_path)
    line = (
        f"--peers {','.join(ENDPOINTS)} --listen 127.0.0.1:4002 --shard 1/3 --rounds 7 --seed 7 "
        f"--out {tmp_path / 'peers' / '1'} --set task.seed=2 --wait 0"
    )
    asked = parse_arguments(line.split())
    assert node_options(swarm, 1, ENDPOINTS) == replace(asked, overrides=())  # they are in its task


def test_every_peer_has_a_socket_of_its_own_that_listens_until_it_is_over() -> None:
    with listeners(3) as sockets:
        endpoints = endpoints_of(sockets)
        assert len({*endpoints}) == 3
        for host, _, port in (endpoint.partition(":") for endpoint in endpoints):
            socket.create_connection((host, int(port))).close()
    assert [listener.fileno() for listener in sockets] == [-1] * 3


def test_a_swarm_is_given_long_enough_and_the_compiler_only_for_an_optimiser_that_loads_it(tmp_path):
    swarm = SwarmPlan(plan(Request()).task, 3, 7, tmp_path)
    caps = swarm.task.aggregation
    assert swarm.stall_s > caps.group_timeout_s + caps.shares_timeout_s + caps.sums_timeout_s
    loading = ("train.optimizer=adam", "train.optimizer_args.amsgrad=true")
    tasks = [plan(Request(overrides=loading[:count])).task for count in (1, 2)]
    assert ["torch._dynamo" in preload(task) for task in tasks] == [False, True]
    tasks = [plan(Request(seed=seed)).task for seed in range(3)]
    assert len({batch_seed(task, 5, peer) for task in tasks for peer in range(5)}) == 15
