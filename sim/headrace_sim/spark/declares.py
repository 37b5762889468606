"""What the author of a streaming query means where its code alone cannot say. PySpark is not needed to declare it."""

from dataclasses import dataclass
from typing import TypedDict

from headrace import OptionsError
from headrace_sim.deliveries import UNSAID, FeedSource


class Meant(TypedDict, total=False):
    """The fields of `Declares`, as a test gives them by name."""

    running: bool
    late: bool
    bounded_by: str | int
    repeated: bool
    source: FeedSource
    settings: tuple[str, ...]
    new_checkpoint: bool | None


@dataclass(frozen=True, slots=True)
class Declares:
    """What the outcome of a query may depend on, because it is meant.

    >>> declares = Declares(running=True, bounded_by="one key for each account")

    Attributes:
        running: Each batch gives a running result, so what is given out may depend on how the input is cut into batches. The last
            result of each key and the state may not.
        late: Rows behind the watermark may be lost.
        repeated: What reads the sink allows for rows that come again, once a batch was run again.
        source: What the source promises of its rows. A module may say it beside its feed as well: ``source = FeedSource(...)``.
        settings: What the review of the query's settings asks about and is meant, by name: ``("latest",)``.
        new_checkpoint: The query may be started with a new or an older checkpoint, while what it has written stays: what comes of
            that is judged. False: that is never done. None: a note says what would come of it.
        bounded_by: What bounds state that nothing removes, in words; a number: at most so many keys have such state. "": nothing.

    Raises:
        OptionsError: ``bounded_by`` is neither; or ``settings`` is a text instead of a tuple.

    """

    running: bool = False
    late: bool = False
    bounded_by: str | int = ""
    repeated: bool = False
    settings: tuple[str, ...] = ()
    new_checkpoint: bool | None = None
    source: FeedSource = UNSAID

    def __post_init__(self) -> None:
        bound: object = self.bounded_by
        is_number = isinstance(bound, int) and not isinstance(bound, bool) and bound > 0
        if not is_number and not isinstance(bound, str):
            raise OptionsError(
                "bounded_by", bound, "words, such as 'one key for each account', or a number of keys"
            )

        settings: object = self.settings
        if isinstance(settings, str):
            raise OptionsError("settings", settings, f"a tuple of names: ({settings!r},)")

    def __or__(self, more: "Declares") -> "Declares":
        """Return what either of them declares."""
        return Declares(
            self.running or more.running, self.late or more.late, more.bounded_by or self.bounded_by,
            self.repeated or more.repeated, (*self.settings, *more.settings),
            self.new_checkpoint if more.new_checkpoint is None else more.new_checkpoint, self.source | more.source,
        )  # fmt: skip
