"""All scenarios. A new one is a file with a Scenario value, and its line here."""

from __future__ import annotations

from typing import Any

from scenarios.frame.spec import Scenario
from scenarios.systems.aldp.claims import ALDP
from scenarios.systems.attacks.claims import ATTACKS_SCENARIO
from scenarios.systems.dp_fedavg.claims import DP_FEDAVG
from scenarios.systems.label_dp.claims import LABEL_DP
from scenarios.systems.mechanisms.claims import MECHANISMS
from scenarios.systems.nbafl.claims import NBAFL
from scenarios.systems.rpfl.study import RPFL
from scenarios.systems.swarm.claims import SWARM

SCENARIOS: dict[str, Scenario[Any, Any]] = {
    scenario.name: scenario
    for scenario in (SWARM, MECHANISMS, ALDP, NBAFL, DP_FEDAVG, RPFL, LABEL_DP, ATTACKS_SCENARIO)
}
