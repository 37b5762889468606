"""NEXMark (Tucker et al., 2008; Beam's queries 0 to 12): an auction site's queries, written with the Dataflow layer.

``headrace verify headrace_scenarios.nexmark:q5`` searches for faults that change a query's answer, and ``headrace run nexmark-q5
--on spark`` runs it on Spark. Each query promises what plain Python says of the same events (`headrace_scenarios.nexmark.plain`).
"""

from headrace_scenarios.nexmark.events import Mix, events, feed
from headrace_scenarios.nexmark.queries import QUERIES, TITLES, promises

q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12 = QUERIES.values()

__all__ = [
    "QUERIES",
    "TITLES",
    "Mix",
    "events",
    "feed",
    "promises",
    "q0",
    "q1",
    "q2",
    "q3",
    "q4",
    "q5",
    "q6",
    "q7",
    "q8",
    "q9",
    "q10",
    "q11",
    "q12",
]
