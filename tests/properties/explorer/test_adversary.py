"""What may be chosen at a step, and what the cluster is then seen to be."""

from headrace_properties.explorer.explorer import (
    ExploredPosition,
)
from headrace_properties.proof.mutants import MUTANTS
from tests.properties.explorer.by_hand import CountViews, Hand, explorer_of, target_of, zombie


def test_a_zombie_is_seen_to_believe_that_it_owns_its_keys() -> None:
    hand = zombie(MUTANTS["without sequencers"])
    hand.position = ExploredPosition(hand.position.made[:1], hand.position.made[0][0] + 1)
    write = [flight for flight in hand.state.cluster.flights if flight.what.startswith("Write")]
    assert [(flight.source, flight.target) for flight in write] == [("worker-0", "store")]
    hand.choose("worker-0 stops, and seems dead")
    hand.until("worker-1", "Scanned")
    worker = next(process for process in hand.state.cluster.processes if process.address == "worker-0")
    assert worker.state == "paused"
    assert [owned.valid for owned in worker.owns] == [False]


def test_each_choice_leaves_what_happened_before_its_step_as_it_was() -> None:
    target = target_of(CountViews())
    for message in ("Deliver", "Written"):
        hand = Hand(explorer_of(target))
        hand.until("worker-0", message)
        before = hand.state
        for number, (group, words) in enumerate(before.possible):
            made = ((before.at, number),)
            after = hand.explorer.state(ExploredPosition(made, before.at - 1))
            again = hand.explorer.state(ExploredPosition((), before.at - 1))
            assert (after.events, after.cluster) == (again.events, again.cluster), (group, words)
            beyond = hand.explorer.state(ExploredPosition(made, before.at))
            assert (beyond.events, beyond.cluster.processes) == (before.events, before.cluster.processes), (
                words
            )
            assert beyond.error == "", words
