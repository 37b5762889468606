"""Plans that go where no plan has been: what reached something new is changed a little, and tried again.

Half of the plans are drawn afresh; the other half are mutations of earlier ones that struck a fault at a protocol step where it
had not struck before, or reached a new interesting case.
"""

from random import Random

from millrace_properties.coverage import Spot
from millrace_properties.outcome import Outcome
from millrace_properties.plans import FAULT_SLOTS, HEADER_BYTES, PLAN_BYTES, SLOT_BYTES

_RECENT = 32
"""Choice: so many of the last novel plans are worth another look; what was new long ago has been looked at."""


class Steering:
    """Proposes plans, and learns from what became of them.

    Args:
        seed: of all draws.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(f"{seed}/steering")
        self._known: set[Spot | str] = set()
        self._novel: list[bytes] = []

    def propose(self) -> bytes:
        """The next plan to try, as bytes."""
        random = self._random
        if not self._novel or random.random() < 0.5:
            return random.randbytes(PLAN_BYTES)
        return self._mutated(bytearray(random.choice(self._novel[-_RECENT:])))

    def learn(self, data: bytes, outcome: Outcome) -> int:
        """Take note of what a plan reached; tells how much of it was new."""
        reached: set[Spot | str] = {case for case, times in outcome.cases.items() if times}
        reached.update(outcome.covered)
        new = len(reached - self._known)
        if new:
            self._known |= reached
            self._novel.append(data)
        return new

    def _mutated(self, data: bytearray) -> bytes:
        """Some slots drawn anew, moved by a byte, doubled or emptied; now and then another header byte."""
        random = self._random
        for _ in range(random.randint(1, 3)):
            begin = HEADER_BYTES + random.randrange(FAULT_SLOTS) * SLOT_BYTES
            match random.randrange(5):
                case 0:
                    data[begin : begin + SLOT_BYTES] = random.randbytes(SLOT_BYTES)
                case 1:
                    data[begin] = 0
                case 2:
                    other = HEADER_BYTES + random.randrange(FAULT_SLOTS) * SLOT_BYTES
                    data[begin : begin + SLOT_BYTES] = data[other : other + SLOT_BYTES]
                case 3:
                    data[random.randrange(HEADER_BYTES)] = random.randrange(256)
                case _:
                    data[begin + random.randrange(SLOT_BYTES)] = random.randrange(256)
        return bytes(data)
