"""All scenarios. A new one is a file with a Scenario value, and its line here."""

from __future__ import annotations

from typing import Any

from scenarios.aldp_scenario import ALDP
from scenarios.attacks_scenario import ATTACKS_SCENARIO
from scenarios.dp_fedavg_scenario import DP_FEDAVG
from scenarios.label_dp_scenario import LABEL_DP
from scenarios.mechanisms_scenario import MECHANISMS
from scenarios.nbafl_scenario import NBAFL
from scenarios.rpfl_scenario import RPFL
from scenarios.spec import Scenario
from scenarios.swarm_scenario import SWARM

SCENARIOS: dict[str, Scenario[Any, Any]] = {
    scenario.name: scenario
    for scenario in (SWARM, MECHANISMS, ALDP, NBAFL, DP_FEDAVG, RPFL, LABEL_DP, ATTACKS_SCENARIO)
}
