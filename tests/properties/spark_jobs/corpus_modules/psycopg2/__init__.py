"""As much of psycopg2 as the corpus uses, without a server."""

apilevel, threadsafety, paramstyle = "2.0", 2, "pyformat"


class Error(Exception): ...


class InterfaceError(Error): ...


class DatabaseError(Error): ...


class OperationalError(DatabaseError): ...


class IntegrityError(DatabaseError): ...


class ProgrammingError(DatabaseError): ...


def connect(dsn=None, **options):
    raise OperationalError("connection refused: no server here")
