"""The failures that ``headrace verify`` keeps, and tries first the next time."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace_cli._consoles import error_console
from headrace_cli._files import OutputFiles
from headrace_cli._render import print_text
from headrace_cli._replay_file import save_failure
from headrace_properties.search.kept_failures import FOLDER, KeptFailures, is_fit_for_files
from headrace_properties.session import Memory, Session

FailuresOption = Annotated[
    Path | None,
    typer.Option(
        "--failures",
        metavar="DIR",
        help="Where failures are kept, to be tried first the next time.",
        show_default=str(FOLDER),
    ),
]


def memory(folder: Path | None, *of: Any) -> Memory:
    """Return where a command keeps failures, and complains if it cannot.

    Args:
        folder: where; ``None``: in the current directory, unless that is a home directory.
        of: what is verified: as `KeptFailures` takes it.
    """
    failures = KeptFailures(folder or FOLDER, *of)

    def complain(error: OSError) -> None:
        words = (
            f"Note: {failures.folder} cannot be written ({error.strerror or error}), so failures are not kept"
        )
        print_text(error_console(), words)

    return Memory(failures, complain, writable=folder is not None or is_fit_for_files(Path()))


def save_findings(session: Session, path: Path | None, files: OutputFiles) -> None:
    """Keep what is found, and save the leading finding where the user wants it.

    What cannot be kept is saved in the current directory, named by its content.

    Args:
        session: that has found it.
        path: of the file that the user wants; ``None``: none.
        files: writes it.
    """
    session.keep()
    trials = session.trials
    for number, finding in enumerate(trials.findings):
        wanted = path if finding is trials.leading else None
        if wanted is not None or number not in session.files:
            saved = save_failure(trials.replay(finding), wanted, files)
            if saved is not None:
                session.files[number] = saved
