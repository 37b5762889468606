"""What psycopg2 has beside PEP 249."""


def execute_values(cur, sql, argslist, template=None, page_size=100, fetch=False):
    raise NotImplementedError


def execute_batch(cur, sql, argslist, page_size=100):
    raise NotImplementedError
