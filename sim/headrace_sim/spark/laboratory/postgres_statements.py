"""What a PostgreSQL statement changes, as its text says."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_HIDDEN = re.compile(
    r"""(?P<text>E'(?:\\.|''|[^'\\])*'|'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)|--[^\n]*|/\*.*?\*/""",
    re.DOTALL | re.IGNORECASE,
)
"""Literals, bodies and comments: what is in them is no statement."""
_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_TABLE = rf"(?P<table>{_NAME}(?:\s*\.\s*{_NAME})*)"
_ROWS = r"INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO"
_OF_TABLE = re.compile(
    rf"""(?:{_ROWS}|TRUNCATE(?:\s+TABLE)?|COPY(?=.*\bFROM\b)
    |(?:CREATE|DROP|ALTER)\s+(?:UNLOGGED\s+|FOREIGN\s+)?TABLE(?:\s+IF\s+(?:NOT\s+)?EXISTS)?)(?:\s+ONLY)?\s+{_TABLE}""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_OTHER = re.compile(
    r"(?:CREATE(?:\s+OR\s+REPLACE)?|DROP|ALTER|REFRESH|COMMENT|GRANT|REVOKE|CALL|DO|EXECUTE|PREPARE\s+TRANSACTION|NOTIFY)\b(?:\s+\w+)?",
    re.IGNORECASE,
)
_QUERY = re.compile(r"(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE)
_INSIDE = re.compile(rf"\b(?<!\bFOR\s)(?<!\bKEY\s)(?<!\bDO\s)(?:{_ROWS}|INTO)\s+{_TABLE}", re.IGNORECASE)
"""What changes something in a query: ``WITH gone AS (DELETE FROM ...) SELECT``, or ``SELECT ... INTO``."""
_TEMPORARY = re.compile(
    rf"(?:CREATE\s+(?:LOCAL\s+|GLOBAL\s+)?|SELECT\b.*?\bINTO\s+)TEMP(?:ORARY)?\s+(?:TABLE\s+)?(?:IF\s+NOT\s+EXISTS\s+)?{_TABLE}",
    re.IGNORECASE | re.DOTALL,
)
_END = re.compile(r"(?:COMMIT|END)\b", re.IGNORECASE)
_BEGIN = re.compile(r"(?:BEGIN|START\s+TRANSACTION)\b", re.IGNORECASE)
_CALLED = re.compile(rf"({_NAME})\s*\(")
_FROM_CLIENT = re.compile(r"COPY\b.*\bFROM\s+STDIN\b", re.IGNORECASE | re.DOTALL)
COMMIT = "commit"
"""The action that ends a transaction."""


@dataclass(frozen=True, slots=True)
class StatementChange:
    """What a statement changes."""

    action: str  # what it does, as SQL says it: ``INSERT INTO payments``; or `COMMIT`
    table: str = ""  # the table's name, with its schema unless that is ``public``. "": none


def changes_of(sql: str, temporary: set[str], functions: Collection[str] = ()) -> list[StatementChange]:
    """Return what the statements of a text change, but for temporary tables, which end with their connection.

    ``sql``: the text, as it is sent to the server. ``temporary``: the temporary tables of its connection. Those that the text
    makes are added. ``functions``: the names of the database's own functions, which may change anything.
    """
    changes: list[StatementChange] = []
    for statement in _bare(sql).split(";"):
        changes += _changes_of(statement.strip(), temporary, functions)
    lasting = (change for change in changes if change.table not in temporary)
    return [change for change in lasting if not change.table.startswith("pg_temp")]


def begins(sql: str) -> bool:
    """Return whether a text begins a transaction."""
    return _BEGIN.match(_bare(sql)) is not None


def copies_from_client(sql: str) -> bool:
    """Return whether the rows of a ``COPY`` follow it."""
    return _FROM_CLIENT.match(_bare(sql)) is not None


def plain_table(table: str) -> str:
    """Return a table's name as the server writes it."""
    parts = [
        part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()
        for part in re.findall(_NAME, table)
    ]
    return ".".join(parts[-2:]).removeprefix("public.")


def _bare(sql: str) -> str:
    return _HIDDEN.sub(lambda hidden: "''" if hidden["text"] else " ", sql).strip()


def _changes_of(statement: str, temporary: set[str], functions: Collection[str]) -> Iterator[StatementChange]:
    if _END.match(statement):
        yield StatementChange(COMMIT)
    elif created := _TEMPORARY.match(statement):
        temporary.add(plain_table(created["table"]))
    elif matched := _OF_TABLE.match(statement):
        yield StatementChange(" ".join(matched[0].split()), plain_table(matched["table"]))
    elif matched := _OTHER.match(statement):
        yield StatementChange(" ".join(matched[0].split()))
    elif _QUERY.match(statement):
        for inside in _INSIDE.finditer(statement):
            yield StatementChange(" ".join(inside[0].split()), plain_table(inside["table"]))
        for name in map(plain_table, _CALLED.findall(statement)):
            if name in functions:
                yield StatementChange(f"SELECT {name}()")
