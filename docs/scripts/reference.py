"""The pages of the reference that are made from the code, when the site is built: no page is kept, so none can be out of date.

mkdocs calls `on_files` (mkdocs.yml names this file as a hook). The texts are the code's own: docstrings, help texts, defaults.
"""

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import msgspec
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from headrace import EngineOptions, causes, history
from headrace.histories import (
    End,
    Graph,
    Header,
    In,
    Out,
    Owns,
    RecordLine,
    Source,
    Stage,
    State,
    Watermark,
    history_files,
)
from headrace.histories import lines as record_lines
from headrace_cli.main import app
from headrace_cli.terminal.exit import ExitCode
from headrace_properties import pytest_plugin, verifier, verify_arguments
from headrace_properties.checkers.invariant_catalogue import rules
from headrace_sim import ClusterOptions, faults

ROOT = Path(__file__).parents[2]
APIS = {
    "api/headrace.md": ("headrace", "The API: computations and pipelines", "core"),
    "api/dataflow.md": ("headrace.dataflow", "The API: the Dataflow Model", "core"),
    "api/spark.md": ("headrace.spark", "The API: the host on Spark", "core"),
    "api/promises.md": ("headrace_properties.promises", "The API: promises", "properties"),
    "api/inputs.md": ("headrace_properties.drawn_feeds", "The API: inputs from Hypothesis", "properties"),
    "api/declares.md": ("headrace_sim.spark.declares", "The API: what a Spark job declares", "sim"),
    "api/simulation.md": ("headrace_sim", "The API: the simulated cluster", "sim"),
    "api/rules.md": ("headrace.rules", "The API: the rules of the protocol", "core"),
    "api/histories.md": ("headrace.histories", "The API: recorded runs", "core"),
}
_MARKUP = re.compile(r"\[bold\](.*?)\[/\]")
_LITERAL = re.compile(r"``(.+?)``")


def pages() -> dict[str, str]:
    """The pages by their paths below reference/."""
    made = {path: _api(*about) for path, about in APIS.items()}
    made["api/promises.md"] = made["api/promises.md"].replace("\n::: ", f"\n{_promised()}\n::: ", 1)
    return made | {
        "options.md": _options(),
        "history.md": _history(),
        "faults.md": _faults(),
        "invariants.md": _invariants(),
        "commands.md": _commands(),
        "api/pytest.md": _pytest(),
    }


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site."""
    file = importlib.import_module("mkdocs.structure.files").File
    for path, text in pages().items():
        files.append(file.generated(config, f"reference/{path}", content=text))
    return files


# The API: mkdocstrings writes the entries


def public_names(package: str, folder: str) -> list[str]:
    """A package's ``__all__``, or a module's public classes and functions; read, not imported, since Spark may be missing."""
    path = ROOT / folder / Path(*package.split("."))
    if not path.is_dir():
        tree = ast.parse(path.with_suffix(".py").read_text())
        made = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        return sorted((name for name in made if not name.startswith("_")), key=str.lower)
    for node in ast.parse((path / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value), key=str.lower)
    raise LookupError(package)


def _api(package: str, title: str, folder: str) -> str:
    names = public_names(package, folder)
    errors = [name for name in names if name.endswith("Error")]
    lines = [f"# {title}", "", f"Everything here is imported from `{package}`.", ""]
    for name in [*(name for name in names if name not in errors), *errors]:
        lines += [f"::: {package}.{name}", ""]
    return "\n".join(lines)


PROMISED = (
    ("`always`, `never`, `sometimes`", "after each durable change and each record that leaves", "after each batch",
     "where a driver dies, and in the end"),
    ("`eventually`", "within its bound, once faults have ended", "no", "no"),
    ("`at_end`", "when the run is at rest", "in the end of each schedule", "in the end of each trial, and undisturbed"),
    ("`expected`", "`stream`, `of=`, `table=`, `sql=`", "`table=`, `sql=`", "`table=`, `sql=`"),
    ("`answered_once`", "`requests`, `answers`", "`table=`", "`table=`"),
    ("`unique`, `newest_wins`, `no_gap`, `same_total`", "of a stream", "of what it writes", "of what it leaves"),
    ("`conserved`, `in_order`, `linearizable`, `bounded_state`", "yes", "no", "no"),
)  # fmt: skip
"""Each promise, and when it is asked, or what it is about: of a pipeline or a History, of a Spark query, and of a sink."""
SEEN = (
    ("what came in", "`moment.inputs(stream)`", "`moment.rows`"),
    ("what went out", "`moment.outputs(stream)`", "`moment.outputs`: what reaches the sink"),
    ("tables", "`moment.table(stream)`", "`moment.table(name)`: what the sink has written"),
    ("`input`, `output`", '`moment.table("input")`', '`moment.table("input")`'),
    ("state", "`moment.state(computation, key)`", "`moment.state[name, key]`, of a query"),
    ("what is late", "`record.late`", "`moment.late`: how many rows were dropped"),
    ("what happened last", "`moment.changed`", "`moment.effects`, of a sink: what was done so far"),
)
"""What a promise sees: of a pipeline or a History, and of a Spark job."""


def _promised() -> str:
    """What each promise means for each kind of target, in one vocabulary."""
    asked = _table(("promise", "pipeline, History", "Spark query", "sink of a Spark job"), PROMISED)
    seen = _table(("a promise sees", "pipeline, History", "Spark job"), SEEN)
    return "\n".join([*asked, *seen])


def _pytest() -> str:
    """The fixture, the options and the settings of the plugin."""
    added = PluginOptions()
    pytest_plugin.pytest_addoption(added)  # type: ignore[arg-type]
    lines = ["# The API: pytest", "", "Installing Headrace installs the plugin; nothing needs importing.", ""]
    lines += [
        f"::: {verifier.__name__}.Verifier.__call__",
        "    options:",
        "      heading: the fixture headrace_verify",
        "",
    ]
    for name in (name for name in vars(verify_arguments) if name.endswith("Arguments")):
        lines += [f"::: {verify_arguments.__name__}.{name}", ""]
    for name in ("InvariantViolatedError", "NotExercisedError"):
        lines += [f"::: {verifier.__name__}.{name}", ""]
    for title, rows in (("option", added.options), ("setting", added.settings)):
        lines += [f"## {title.capitalize()}s", "", *_table((title, "meaning"), rows)]
    return "\n".join(lines)


class PluginOptions:
    """Takes what the plugin would add to pytest: each name with its help."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str]] = []
        self.settings: list[tuple[str, str]] = []

    def getgroup(self, _name: str, _title: str) -> "PluginOptions":
        """Return the group of options: itself."""
        return self

    def addoption(self, name: str, *, help: str, **_rest: object) -> None:  # noqa: A002  pytest's name
        """Take an option."""
        self.options.append((f"`{name}`", _sentence(help)))

    def addini(self, name: str, help: str, **_rest: object) -> None:  # noqa: A002  as above
        """Take a setting."""
        self.settings.append((f"`{name}`", _sentence(help)))


# Values with fields


def _attributes(kind: type) -> dict[str, str]:
    """What a class's docstring says of each attribute."""
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: _plain(text) for name, text in found}


def _about(kind: type) -> str:
    """A class's docstring without its attributes."""
    return _plain(inspect.cleandoc(kind.__doc__ or "").partition("\n\nAttributes:")[0])


def _plain(text: str) -> str:
    """A docstring's text as Markdown, on one line for each paragraph."""
    paragraphs = re.split(r"\n\s*\n", _LITERAL.sub(r"`\1`", text))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _sentence(text: str) -> str:
    plain = _plain(text)
    return plain[:1].upper() + plain[1:]


def _fields(kind: type) -> Iterator[tuple[str, str, str]]:
    """Name, default and type of each field."""
    given = {declared.name: declared for declared in _declared(kind)}
    for name, annotation in inspect.get_annotations(kind).items():
        default = getattr(given[name], "default", None) if name in given else None
        missing = default in (dataclasses.MISSING, msgspec.NODEFAULT)
        words = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        yield name, "" if missing else _value(default), re.sub(r"\bheadrace[\w.]*\.", "", words)


def _declared(kind: type) -> Any:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else msgspec.structs.fields(kind)


def _value(default: object) -> str:
    match default:
        case bool() | None | str():
            return f"`{default!r}`"
        case int():
            return f"{default:,}"
        case EngineOptions():
            return "[the defaults](#the-engine)"
        case _:
            return f"`{default}`" if hasattr(default, "name") else f"`{default!r}`"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    cells = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells] + [""]


def _options() -> str:
    lines = ["# Options", "", "Names that end in `_us` are microseconds, in `_bytes` bytes.", ""]
    for title, kind in (("The engine", EngineOptions), ("The simulated cluster", ClusterOptions)):
        said = _attributes(kind)
        rows = [(f"`{name}`", default, _sentence(said.get(name, ""))) for name, default, _ in _fields(kind)]
        lines += [f"## {title}", "", f"`{kind.__name__}`: {_about(kind)}", ""]
        lines += _table(("option", "default", "meaning"), rows)
    return "\n".join(lines)


def events() -> list[type]:
    """The kinds of events of a History."""
    return list(get_args(history.Event))


def _history() -> str:
    about = inspect.cleandoc(history.__doc__ or "")
    lines = ["# Histories", "", "## The file", "", _text(history_files), ""]
    lines += ["`headrace check --schema` prints this as JSON Schema.", ""]
    parts: tuple[type, ...] = (Header, Graph, Source, Stage)
    for kind in parts:
        lines += [f"### {kind.__name__}", "", _about(kind), "", *_fields_table(kind)]
    lines += ["## Lines of records", "", _text(record_lines), ""]
    lines += ["### Every line", "", _about(RecordLine), "", *_fields_table(RecordLine)]
    for line in (Out, In, State, Watermark, Owns, End):
        lines += [f'### "type": "{line.__struct_config__.tag}"', "", _about(line), "", *_fields_table(line)]
    lines += ["## Lines of steps", "", _plain(about), ""]
    for kind in events():
        lines += [f"## {kind.__name__}", "", _about(kind), "", *_fields_table(kind)]
    activation = history.Activation
    lines += [f"## {activation.__name__}", "", _about(activation), "", *_fields_table(activation)]
    lines += ["## What led to what", "", _plain(inspect.cleandoc(causes.__doc__ or "")), ""]
    for name in ("Causes", "UnknownCausesError", "NoSuchEventError"):
        lines += [f"::: headrace.causes.{name}", ""]
    return "\n".join(lines)


def _text(module: ModuleType) -> str:
    """A module's docstring, its lists kept."""
    return _LITERAL.sub(r"`\1`", inspect.cleandoc(module.__doc__ or ""))


def _fields_table(kind: type) -> list[str]:
    """A table of the fields, but for those that it has from its base, as the page says."""
    said = _attributes(kind)
    rows = [
        (f"`{name}`", f"`{words}`", default, said.get(name, "")) for name, default, words in _fields(kind)
    ]
    return _table(("field", "type", "default", ""), rows) if rows else []


def fault_kinds() -> dict[str, type]:
    """Every kind of fault, by its verb."""
    kinds = [*faults.KINDS, *get_args(faults.MessageFault)]
    return {kind(**_example(kind)).kind: kind for kind in kinds} | {"break_store": faults.BreakStore}


def _example(kind: type) -> dict[str, Any]:
    """Fields that make one, whatever they say."""
    return dict.fromkeys(inspect.signature(kind).parameters, 0)


def _faults() -> str:
    about = inspect.cleandoc(faults.__doc__ or "")
    lines = ["# Faults", "", _plain(about), ""]
    for verb, kind in fault_kinds().items():
        lines += [f"## {verb}", "", f"`{kind.__name__}`: {_about(kind)}", ""]
        said = _attributes(kind)
        rows = [
            (f"`{name}`", f"`{words}`", default, said.get(name, "")) for name, default, words in _fields(kind)
        ]
        if rows:
            lines += _table(("field", "type", "default", ""), rows)
    return "\n".join(lines)


def _invariants() -> str:
    about = (
        "S is for safety: at no time may this be violated. L is for liveness: once the faults have stopped, it comes about in"
        " bounded time. A verdict has three values: *holds*, *violated*, and *unknown* for an invariant that was never exercised."
        " Section numbers are the MillWheel paper's."
    )
    lines = ["# Invariants", "", about, ""]
    for rule in rules().values():
        lines += [
            f"## {rule.name}",
            "",
            f"**{rule.title}** (MillWheel {rule.section})",
            "",
            _sentence(rule.meaning),
            "",
        ]
    return "\n".join(lines)


# Commands


def commands() -> dict[str, TyperCommand]:
    """Every command that does something, by what one types."""
    return dict(_within("headrace", get_command(app)))


def _within(name: str, command: Any) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for part in command.commands:
            yield from _within(f"{name} {part}", command.commands[part])
    else:
        yield name, command


def exit_codes() -> list[tuple[int, str]]:
    """Every exit code with its meaning, which is the string behind it."""
    (body,) = ast.parse(inspect.getsource(ExitCode)).body
    assert isinstance(body, ast.ClassDef)
    found = []
    for node, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr):
            found.append((ast.literal_eval(node.value), str(ast.literal_eval(after.value))))
    return found


def _commands() -> str:
    lines = ["# Commands", "", "`headrace COMMAND --help` prints the same.", ""]
    for name, command in commands().items():
        lines += [f"## {name}", "", _prose(command.help), ""]
        context = command.context_class(command, info_name=name)
        usage = " ".join([name, *command.collect_usage_pieces(context)])
        lines += ["```text", usage, "```", ""]
        records = [param.get_help_record(context) for param in command.params]
        rows = [(f"`{record[0]}`", _prose(record[1])) for record in records if record]
        lines += _table(("option", "meaning"), rows)
        lines += _epilog(command.epilog or "")
    lines += ["## Exit codes", ""]
    lines += _table(("code", "meaning"), [(str(code), _prose(meaning)) for code, meaning in exit_codes()])
    return "\n".join(lines)


def _prose(text: str | None) -> str:
    return _plain(_MARKUP.sub(r"**\1**", inspect.cleandoc(text or "")))


def _epilog(text: str) -> list[str]:
    """Examples as a block of code, the rest as it is."""
    lines: list[str] = []
    for part in re.split(r"\[bold\](?=Example|Exit)", text):
        title, _, body = part.partition("[/]")
        if title.startswith("Example"):
            lines += [
                "```sh",
                *(line.strip() for line in body.splitlines() if line.strip()),
                "```",
                "",
            ]
        elif title.startswith("Exit"):
            lines += [f"Exit codes: {_prose(body)}.", ""]
    return lines
