"""What psycopg2 has beside PEP 249."""

from typing import Any


def execute_values(
    cur: Any, sql: str, argslist: Any, template: str | None = None, page_size: int = 100
) -> None:
    raise NotImplementedError
