"""A module that speaks DB-API to a server that is not there, as psycopg2 and its like would; and its extras."""

from typing import Any

apilevel, threadsafety, paramstyle = "2.0", 2, "pyformat"


class Error(Exception): ...


class DatabaseError(Error): ...


class OperationalError(DatabaseError): ...


class IntegrityError(DatabaseError): ...


def connect(dsn: str = "", **options: object) -> Any:
    raise OperationalError("connection refused: no server here")
