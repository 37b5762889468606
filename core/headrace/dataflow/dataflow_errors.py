"""Errors that users of the Dataflow layer can cause."""

from headrace import HeadraceError
from headrace.dataflow.elements import Window


class DataflowError(HeadraceError):
    """A transform is inconsistent, or got an invalid element. Fields: where, problem, remedy."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(where, problem, remedy)
        self.where, self.problem, self.remedy = where, problem, remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}. {self.remedy}"


class WindowMergeError(HeadraceError):
    """A windowing strategy lost a window, or covered one twice. Fields: strategy, windows, merged."""

    def __init__(self, strategy: str, windows: tuple[Window, ...], merged: tuple[Window, ...]) -> None:
        super().__init__(strategy, windows, merged)
        self.strategy, self.windows, self.merged = strategy, windows, merged

    def __str__(self) -> str:
        return (
            f"{self.strategy}.merge_windows returned {list(self.merged)} for {list(self.windows)}. "
            "Each given window must be covered by exactly one returned window"
        )
