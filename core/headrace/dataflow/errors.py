"""What a user of the Dataflow layer can get wrong."""

from headrace import HeadraceError
from headrace.dataflow.elements import Window


class DataflowError(HeadraceError):
    """A transform that does not fit together. Fields: where, problem, remedy."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(where, problem, remedy)
        self.where, self.problem, self.remedy = where, problem, remedy

    def __str__(self) -> str:
        """Say what does not fit and how to mend it."""
        return f"{self.where}: {self.problem}. {self.remedy}"


class WindowMergeError(HeadraceError):
    """A windowing strategy that loses windows, or has one in two. Fields: strategy, windows, merged."""

    def __init__(self, strategy: str, windows: tuple[Window, ...], merged: tuple[Window, ...]) -> None:
        super().__init__(strategy, windows, merged)
        self.strategy, self.windows, self.merged = strategy, windows, merged

    def __str__(self) -> str:
        """Say what it was given and what it made of it."""
        return (
            f"{self.strategy}.merge_windows made {list(self.merged)} of {list(self.windows)}. "
            "Each window that it is given must be covered by exactly one that it returns"
        )
