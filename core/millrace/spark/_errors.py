"""What can go wrong for a user of the Spark host, beyond what can go wrong on any host (see `millrace`)."""

from millrace._errors import MillraceError


class SparkHostError(MillraceError):
    """Something that can not be done on Spark as it was asked for. Fields: problem, remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Say what, and what to do."""
        return f"on Spark: {self.problem}. {self.remedy}"
