"""Short names for runs of the simulated network."""

from collections.abc import Callable

from protocol.wire.messages import Sum
from scenarios.simulator.network import START_S, Network, Sent
from scenarios.simulator.plans import SUMS, Conditions, Crash, Late, Plan, Quorum
from scenarios.simulator.rules import Outcome

FOREVER_S = 1e9


def run(plan: Plan, seed: int) -> Network:
    return Network(plan, seed).run()


def outcomes(network: Network, peer: int) -> list[Outcome]:
    return [outcome for outcome in network.rules.outcomes if outcome.peer == peer]


def reasons(network: Network, peer: int) -> list[str | None]:
    return [outcome.reason for outcome in outcomes(network, peer)]


def seconds(outcome: Outcome) -> float:
    """Returns when a round ended, in seconds from the start of the run."""
    return outcome.at_s - START_S


def sent(network: Network, wanted: Callable[[Sent], bool]) -> list[Sent]:
    return [line for line in network.transcript if wanted(line)]


def end_of_sums(network: Network, peer: int, sid: bytes) -> int:
    """Returns the number, among a peer's sends, of the SUM to the last member, before it serves any SUM."""
    lines = [line.message for line in network.transcript if line.sender == peer]
    sums = [number for number, m in enumerate(lines, 1) if isinstance(m, Sum) and m.sid == sid]
    return sums[network.plan.peers - 2]


def group_that_loses_one(reuse_offers: bool, seed: int = 5) -> Network:
    """A run in which the sums of the first group of 4 come too late; peer 3 dies after sending its own.

    No vote binds the other three, or they would finish the first session together, late.
    """
    slow = Conditions(lates=tuple(Late(peer, SUMS, 17.0, 5.0) for peer in range(4)))
    plan = Plan(4, 3, slow, quorum=Quorum(alike=False), reuse_offers=reuse_offers)
    rehearsal = run(plan, seed)
    sums = [line.message for line in rehearsal.transcript if isinstance(line.message, Sum)]
    crash = Crash(3, end_of_sums(rehearsal, 3, sums[0].sid) + 1, None)
    conditions = Conditions(lates=slow.lates, crashes=(crash,))
    return run(Plan(4, 3, conditions, quorum=Quorum(alike=False), reuse_offers=reuse_offers), seed)
