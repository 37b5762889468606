"""What goes wrong before a target runs."""

from headrace import HeadraceError


class TargetError(HeadraceError):
    """A target or its input cannot be loaded. Fields: target, problem, remedy."""

    def __init__(self, target: str, problem: str, remedy: str) -> None:
        super().__init__(target, problem, remedy)
        self.target, self.problem, self.remedy = target, problem, remedy

    def __str__(self) -> str:
        """Say what is wrong and how to fix it."""
        return f"{self.target}: {self.problem}. {self.remedy}"
