"""The failures that ``headrace verify`` keeps, and tries first the next time."""

from pathlib import Path

from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.files import OutputFiles, write_bytes
from headrace_cli.terminal.render import print_text
from headrace_properties.kept_failures import FOLDER, KeptFailures, free_name, is_fit_for_files
from headrace_properties.session import Memory, Session
from headrace_properties.target import Source


def memory(folder: Path | None, source: Source) -> Memory:
    """Return a command's memory of failures, which warns where it cannot write.

    Args:
        folder: where; ``None``: in the current directory, unless that is a home directory.
        source: of what is verified.
    """
    failures = KeptFailures(folder or FOLDER, source)

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
        wanted = path if finding == trials.leading else None
        data = trials.replay(finding) if wanted is not None or number not in session.files else None
        if data is not None:
            saved = save_failure(data, wanted, files)
            if saved is not None:
                session.files[number] = saved


def save_failure(data: bytes, path: Path | None, files: OutputFiles) -> Path | None:
    """Write a failure to a file, and return its path; ``None`` if it cannot be written, which is reported on stderr.

    Args:
        data: what `headrace_properties.replays.to_replay` makes of it.
        path: of the file; ``None``: in the current directory, named by its content.
        files: writes it.
    """
    path = path or free_name(Path(), data)
    if path.is_file() and path.read_bytes() == data:
        return path
    return path if files.write(path, "--save", write_bytes(data)) else None
