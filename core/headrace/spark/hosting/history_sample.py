"""A History of some of the keys, for jobs whose full History would be too large (DESIGN 4).

Rules of this file:

* The unit of sampling is a **row**: a key of a computation, with everything that ever happens to it. Whether a key is in the
  sample depends on the key alone, so a record that keeps its key is followed through all computations, and through restarts.
* A production is in the sample if both its sender's row and its receiver's row are. So for each production that the sample shows,
  it also shows the delivery, and a checker never mistakes a production for lost. An output is in the sample if its sender's row
  is.
* Checkers treat a cause outside the sample as late: its effects hold no watermark back. So they see at most the work that is
  pending, never more.
* Intervals, injectors' reports and broadcasts are recorded in full.
"""

from dataclasses import dataclass
from hashlib import blake2b

from headrace.api.errors import OptionsError


@dataclass(frozen=True, slots=True)
class Sample:
    """The keys that a History includes.

    Attributes:
        fraction: fraction of all keys, more than 0 and up to 1.

    Raises:
        OptionsError: the fraction is out of range.

    >>> [key for key in ("anna", "bruno", "nora", "ugo") if Sample(1 / 2).has(key)]
    ['bruno', 'nora']
    """

    fraction: float = 1.0

    def __post_init__(self) -> None:
        """Check the fraction."""
        if not 0 < self.fraction <= 1:
            raise OptionsError("fraction", self.fraction, "more than 0, and up to 1")

    def has(self, key: str) -> bool:
        """Return whether a key is in the sample. The hash is not that of the intervals, which would select whole intervals."""
        if self.fraction == 1:
            return True
        return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) < self.fraction * 2**64


FULL = Sample()


def sample_of(history: bool | Sample) -> Sample | None:  # noqa: FBT001  an option of the user's
    """Return the keys that are asked for; ``None``: none are."""
    return FULL if history is True else history or None
