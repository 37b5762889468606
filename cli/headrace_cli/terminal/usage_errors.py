"""The errors of the command line, each with what is wrong, where, and what to do."""

from headrace import HeadraceError
from headrace.api.errors import did_you_mean


class UnknownChoiceError(HeadraceError):
    """There is nothing of this name. Fields: kind, such as ``scenario``, name, known."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...]) -> None:
        super().__init__(kind, name, known)
        self.kind, self.name, self.known = kind, name, known

    def __str__(self) -> str:
        """Suggest similar names, and list all."""
        hint = did_you_mean(self.name, self.known)
        return f"there is no {self.kind} {self.name!r}. {hint}The {self.kind}s are: {', '.join(self.known)}"


class WrongOptionError(HeadraceError):
    """A value on the command line is invalid, or the file that it names. Fields: option, problem, remedy."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        super().__init__(option, problem, remedy)
        self.option, self.problem, self.remedy = option, problem, remedy

    def __str__(self) -> str:
        """Name the option, the problem and the remedy."""
        return f"{self.option}: {self.problem}. {self.remedy}"


class UnwritableFileError(HeadraceError):
    """A file cannot be written. Fields: path, reason, option."""

    def __init__(self, path: str, reason: str, option: str = "--save") -> None:
        super().__init__(path, reason, option)
        self.path, self.reason, self.option = path, reason, option

    def __str__(self) -> str:
        """Name the file, the reason, and the option for another file."""
        return f"cannot write {self.path}: {self.reason}. Name another file with {self.option}"


class ExistingFileError(UnwritableFileError):
    """A file would be replaced without ``--force``. Fields: as `UnwritableFileError`."""

    def __str__(self) -> str:
        """Name the file, and both remedies."""
        return f"{super().__str__()}, or replace this one with --force"
