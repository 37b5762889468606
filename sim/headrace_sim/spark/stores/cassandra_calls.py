"""Statements of Cassandra's driver, as text. Each INSERT and UPDATE writes by the primary key: one that is there is replaced."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from headrace_sim.spark.stores.client_objects import ClientKind, ClientObject, ClientReply, put_rows, refuse
from headrace_sim.spark.stores.store_changes import StoreChange, matching, put, remove

_VALUE = r"(?:\?|%s|%\(\w+\)s|:\w+|'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false|null|\w+\((?:[^()]|\(\))*\))"
_INSERT = re.compile(
    r"INSERT\s+INTO\s+([\w.\"]+)\s*\(([^)]*)\)\s*VALUES\s*\((.*?)\)\s*(IF\s+NOT\s+EXISTS)?\s*(?:USING\s.*)?$",
    re.IGNORECASE | re.DOTALL,
)
_UPDATE = re.compile(
    r"UPDATE\s+([\w.\"]+)\s+(?:USING\s+.*?\s+)?SET\s+(.*?)\s+WHERE\s+(.*)$", re.IGNORECASE | re.DOTALL
)
_DELETE = re.compile(r"DELETE\s+FROM\s+([\w.\"]+)\s+WHERE\s+(.*)$", re.IGNORECASE | re.DOTALL)
_SELECT = re.compile(
    r"SELECT\s+(.*?)\s+FROM\s+([\w.\"]+)(?:\s+WHERE\s+(.*?))?(?:\s+LIMIT\s+\d+)?(?:\s+ALLOW\s+FILTERING)?$",
    re.IGNORECASE | re.DOTALL,
)
_CREATE = re.compile(
    r"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.\"]+)\s*\((.*)\)", re.IGNORECASE | re.DOTALL
)
_KEY = re.compile(r"PRIMARY\s+KEY\s*\(((?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)
_OWN_KEY = re.compile(r"(\w+)\s+\w+\s+PRIMARY\s+KEY", re.IGNORECASE)
_SET = re.compile(rf"\s*(\w+)\s*=\s*(?:(\w+)\s*([+-])\s*)?({_VALUE})\s*(?:,|$)", re.IGNORECASE)
_WHERE = re.compile(rf"\s*(\w+)\s*=\s*({_VALUE})\s*(?:AND\s|IF\s+EXISTS|$)", re.IGNORECASE)
_DRAWN = {"uuid()": uuid4, "now()": uuid4}
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}


def _values(parameters: Any) -> Iterator[Any]:
    return iter(() if parameters is None or isinstance(parameters, Mapping) else parameters)


def _value(at: ClientObject, text: str, left: Iterator[Any], named: Any) -> Any:
    """Return the value of a literal or of a marker."""
    word = text.strip()
    if word in {"?", "%s"}:
        return next(left)
    marker = re.fullmatch(r"%\((\w+)\)s|:(\w+)", word)
    if marker is not None:
        return named[marker[1] or marker[2]]
    if word.lower() in _CONSTANTS:
        return _CONSTANTS[word.lower()]
    if word.startswith("'"):
        return word[1:-1].replace("''", "'")
    if re.fullmatch(r"-?\d+(\.\d+)?", word):
        return float(word) if "." in word else int(word)
    if word.lower() in _DRAWN:
        return _DRAWN[word.lower()]()
    return refuse(f"{word!r} in a statement of Cassandra", at._client)


def _execute(at: ClientObject, query: Any, parameters: Any = None) -> Any:
    """Carry out a statement, a bound one, or a batch of them."""
    if isinstance(query, Statements):
        for one, values in query.parts:
            _execute(at, one, values)
        return []
    if isinstance(query, Statement):
        query, parameters = query.text, query.values if parameters is None else parameters
    text = " ".join(str(query).strip().rstrip(";").split())
    keyspace = at._names[-1] if at._names else None
    left = _values(parameters)

    def target(name: str) -> str:
        plain = name.replace('"', "")
        return f"cassandra: {plain if '.' in plain or keyspace is None else f'{keyspace}.{plain}'}"

    if (match := _INSERT.match(text)) is not None:
        names = [name.strip().strip('"') for name in match[2].split(",")]
        texts = re.findall(_VALUE, match[3], re.IGNORECASE)
        row = {name: _value(at, one, left, parameters) for name, one in zip(names, texts, strict=True)}
        return _insert(at, target(match[1]), row, new_only=bool(match[4]))
    if (match := _UPDATE.match(text)) is not None:
        operators: list[tuple[str, Mapping[str, Any]]] = []
        for name, before, sign, one in _SET.findall(match[2]):
            value = _value(at, one, left, parameters)
            operators.append(
                ("increment", {name: -value if sign == "-" else value}) if before else ("set", {name: value})
            )
        at._write(
            "UPDATE", StoreChange(target(match[1]), _fields(at, match[3], left, parameters), tuple(operators))
        )
        return []
    if (match := _DELETE.match(text)) is not None:
        at._write("DELETE", remove(target(match[1]), _fields(at, match[2], left, parameters), many=True))
        return []
    if (match := _SELECT.match(text)) is not None:
        kept = matching(at._documents(target(match[2])), _fields(at, match[3] or "", left, parameters))
        return _Rows(
            ClientReply(row) for row in ([{"count": len(kept)}] if "count(" in match[1].lower() else kept)
        )
    if (match := _CREATE.match(text)) is not None:
        key = _KEY.search(match[2])
        columns = re.findall(r"\w+", key[1]) if key else [_OWN_KEY.search(match[2])[1]]  # type: ignore[index]
        at._write("CREATE TABLE", put(f"key of {target(match[1])}", {}, {"columns": columns}))
        return []
    if re.match(r"USE\s|CREATE\s+(KEYSPACE|INDEX|TYPE)\b", text, re.IGNORECASE):
        return []
    return refuse(f"the statement {text!r} of Cassandra", at._client)


def _insert(at: ClientObject, target: str, row: Mapping[str, Any], *, new_only: bool) -> Any:
    known = [column for key in at._documents(f"key of {target}") for column in key["columns"]]
    if new_only:
        if not known:
            refuse("IF NOT EXISTS of a table whose CREATE TABLE is not in the job", at._client)
        if matching(at._documents(target), {name: row[name] for name in known}):
            return _Rows([ClientReply(applied=False)])
    put_rows(at, "INSERT", target, [row], known)
    return _Rows([ClientReply(applied=True)])


class _Rows(list[Any]):
    """The rows of a result."""

    def one(self) -> Any:
        return self[0] if self else None

    def all(self) -> list[Any]:
        return list(self)

    @property
    def was_applied(self) -> bool:
        return not self or bool(self[0].get("applied", True))


def _fields(at: ClientObject, where: str, left: Iterator[Any], named: Any) -> dict[str, Any]:
    conditions = _WHERE.findall(where)
    if where.strip() and len(re.findall(r"\bAND\b", where, re.IGNORECASE)) + 1 != len(conditions):
        refuse(f"the condition {where!r} of Cassandra", at._client)
    return {name: _value(at, text, left, named) for name, text in conditions}


class Statement:
    """A statement, prepared or not, with its values."""

    def __init__(self, query_string: Any = "", values: Any = None, **_: Any) -> None:
        self.text, self.values = str(query_string), values

    def bind(self, values: Any) -> "Statement":
        return Statement(self.text, values)


class Statements:
    """Statements that are carried out together."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.parts: list[tuple[Any, Any]] = []

    def add(self, statement: Any, parameters: Any = None) -> None:
        self.parts.append((statement, parameters))

    def __len__(self) -> int:
        return len(self.parts)

    def clear(self) -> None:
        self.parts.clear()


class _InBackground(ClientObject):
    """A session whose requests are sent in the background."""

    def _write(self, action: str, *changes: StoreChange, is_keyed: bool = True) -> None:
        self._held.append(self._later(action, *changes, is_keyed=is_keyed))


def _execute_async(at: ClientObject, query: Any, parameters: Any = None) -> Any:
    session = _InBackground(at._client, at._kind, at._names)
    _execute(session, query, parameters)
    return session._held[-1]


def execute_concurrent_with_args(
    session: ClientObject, statement: Any, parameters: Any, *_: Any, **__: Any
) -> list[Any]:
    """Carry out a statement with each of several lists of values."""
    return [
        ClientReply(success=True, result_or_exc=_execute(session, statement, values)) for values in parameters
    ]


def execute_concurrent(
    session: ClientObject, statements_and_parameters: Any, *_: Any, **__: Any
) -> list[Any]:
    """Carry out several statements, each with its values."""
    return [
        ClientReply(success=True, result_or_exc=_execute(session, *one)) for one in statements_and_parameters
    ]


def _prepare(_at: ClientObject, query: str) -> Statement:
    return Statement(query)


_SESSION = ClientKind(
    "cassandra's session",
    {
        "execute": _execute,
        "execute_async": _execute_async,
        "prepare": _prepare,
        "set_keyspace": lambda at, keyspace: setattr(at, "_names", (keyspace,)),
        "shutdown": lambda at: None,
    },
)
CLUSTER = ClientKind("cassandra's cluster", {"shutdown": lambda at: None}, {"connect": _SESSION})
