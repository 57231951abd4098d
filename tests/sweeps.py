"""The command line of scenarios with one study more, the small one in `tests.own_studies`."""

from __future__ import annotations

from scenarios.__main__ import main
from scenarios.catalogue import SCENARIOS, Entry
from scenarios.runs.run import scenario_of
from tests.own_studies import STUDY

SMALL = scenario_of(STUDY)

if __name__ == "__main__":
    SCENARIOS[STUDY.name] = Entry(STUDY.name, STUDY.source, STUDY.summary, "tests.sweeps:SMALL")
    main.start(__name__)
