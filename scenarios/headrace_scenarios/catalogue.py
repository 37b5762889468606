"""All scenarios, by name."""

from headrace_scenarios.figures.dataflow_story import DATAFLOW_FIGURES
from headrace_scenarios.figures.figure11 import STRAGGLER
from headrace_scenarios.figures.figure12 import ZOMBIE_PRODUCTION, ZOMBIE_TIMER
from headrace_scenarios.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for scenario in (ZOMBIE_TIMER, ZOMBIE_PRODUCTION, STRAGGLER, *DATAFLOW_FIGURES)
}
