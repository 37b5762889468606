"""All scenarios, by name."""

from millrace_scenarios.dataflow_story import DATAFLOW_FIGURES
from millrace_scenarios.figure11 import STRAGGLER
from millrace_scenarios.figure12 import ZOMBIE_PRODUCTION, ZOMBIE_TIMER
from millrace_scenarios.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    one.name: one for one in (ZOMBIE_TIMER, ZOMBIE_PRODUCTION, STRAGGLER, *DATAFLOW_FIGURES)
}
