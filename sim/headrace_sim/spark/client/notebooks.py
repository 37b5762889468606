"""What a notebook has without asking: ``spark``, ``sc``, ``dbutils``, ``display``; and a notebook's file as a program."""

import json
import os
import sys
from typing import Any

from headrace_sim.spark.client.script_needs import Inert, ProgramError
from headrace_sim.spark.refusals import shown_place, users_place


class Widgets:
    """Replaces ``dbutils.widgets``: a widget has the value that the environment has under its name, or its default."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def text(self, name: str, defaultValue: str = "", *_: Any, **__: Any) -> None:
        """Make a widget."""
        self._values[name] = str(defaultValue)

    dropdown = combobox = multiselect = text

    def get(self, name: str) -> str:
        """Return a widget's value. Raise `ProgramError` if it has none."""
        if name in os.environ or name in self._values:
            return os.environ.get(name, self._values.get(name, ""))
        problem = f"the widget {name!r} has no value"
        raise ProgramError(problem, shown_place(users_place()), f"Give it: --env {name}=...")

    def getAll(self) -> dict[str, str]:
        """Return the value of each widget."""
        return {name: self.get(name) for name in self._values}

    def remove(self, name: str) -> None:
        """Forget a widget."""
        self._values.pop(name, None)

    def removeAll(self) -> None:
        """Forget all."""
        self._values.clear()


class _Secrets:
    """Replaces ``dbutils.secrets``: each secret is its own name."""

    @staticmethod
    def get(scope: str, key: str) -> str:
        return f"{scope}-{key}"


class _Path(Inert):
    """Replaces the context of a notebook, which knows its path; and what it is asked for on the way there."""

    def __getattr__(self, name: str) -> Any:
        return (lambda: self) if name in _TO_THE_PATH else super().__getattr__(name)

    def get(self) -> str:
        """Return the path of the notebook."""
        return sys.argv[0]


_TO_THE_PATH = frozenset({"getContext", "getDbutils", "notebook", "notebookPath"})


class _Exits(Inert):
    """Replaces ``dbutils.notebook``."""

    entry_point = _Path("dbutils.notebook.entry_point")

    @staticmethod
    def exit(_value: Any = None) -> None:
        raise SystemExit(0)


class DatabricksUtils(Inert):
    """Replaces ``dbutils``: has widgets, secrets and an exit, and does nothing else."""

    def __init__(self, *_: Any) -> None:
        super().__init__("dbutils")
        self.widgets, self.secrets, self.notebook = Widgets(), _Secrets(), _Exits("dbutils.notebook")


def _look(*_: Any, **__: Any) -> None:
    """Show nothing."""


def notebook_globals(session: Any) -> dict[str, Any]:
    """Return the variables that every notebook has."""
    return {
        "spark": session, "sc": session.sparkContext, "dbutils": DatabricksUtils(), "display": _look, "displayHTML": _look,
    }  # fmt: skip


def program_of_notebook(text: str) -> str:
    """Return the code of a notebook in Jupyter's format. Magic commands become comments, so that lines stay."""
    cells = json.loads(text)["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = [line for text in code for line in text.splitlines()]
    return "\n".join(f"# {line}" if line.lstrip().startswith(("%", "!")) else line for line in lines)
