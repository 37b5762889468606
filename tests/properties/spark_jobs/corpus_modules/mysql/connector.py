"""As much of MySQL's connector as the corpus uses, without a server."""

apilevel, threadsafety, paramstyle = "2.0", 1, "pyformat"


class Error(Exception): ...


class InterfaceError(Error): ...


class DatabaseError(Error): ...


class OperationalError(DatabaseError): ...


class IntegrityError(DatabaseError): ...


class ProgrammingError(DatabaseError): ...


def connect(**options):
    raise InterfaceError("2003: can't connect to MySQL server")
