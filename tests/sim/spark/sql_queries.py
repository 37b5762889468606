# ruff: noqa: E501  a query is a line
"""Queries in SQL as people write them, over three views, each run on Spark and in memory."""

from pathlib import Path
from typing import Any

OUTCOMES = Path(__file__).parent / "query_outcomes.json"

VIEWS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "orders": (
        "id INT, user STRING, amount DOUBLE, ts STRING, tags ARRAY<STRING>, addr STRUCT<city: STRING, zip: STRING>",
        [
            (1, "ann", 10.5, "2024-03-31 00:30:00", ["a", "b"], ("Bern", "3000")),
            (2, "bob", None, "2024-03-31 00:50:00", [], ("Rome", None)),
            (3, "ann", -4.0, "2024-03-31 01:10:00", ["c"], None),
            (4, None, 3.25, "2024-04-01 12:00:00", None, ("Oslo", "0150")),
            (2, "bob", 7.0, "2024-03-31 00:51:00", ["a"], ("Rome", "00100")),
        ],
    ),
    "users": ("name STRING, land STRING", [("ann", "CH"), ("bob", "IT"), ("eve", None)]),
    "updates": ("id INT, op STRING", [(2, "d"), (5, "i")]),
}

QUERIES = r"""
SELECT * FROM orders
SELECT id, amount * 2, upper(user) AS u FROM orders WHERE amount > 0 ORDER BY id DESC
SELECT orders.id, o.user FROM orders o
SELECT o.id, o.user FROM orders AS o WHERE o.id IN (1, 2) AND o.user LIKE 'b%'
SELECT user, SUM(amount) AS total, COUNT(*) AS n FROM orders WHERE id < 4 GROUP BY user
SELECT user, count(*) FROM orders GROUP BY user HAVING count(*) > 1 ORDER BY user
SELECT user, count(*) AS n FROM orders GROUP BY user HAVING n > 1
SELECT upper(user) AS u, max(amount) - min(amount) AS span, count(DISTINCT id) FROM orders GROUP BY upper(user)
SELECT upper(user) AS u, sum(id) FROM orders GROUP BY u ORDER BY 2 DESC, u
SELECT upper(user), sum(id) FROM orders GROUP BY 1 ORDER BY 1
SELECT max(id) AS m FROM orders
select count(*), avg(amount), first(user) ignore nulls from orders
SELECT sum(amount) FILTER (WHERE id > 1) AS s, 1 + count(*) AS c FROM orders
SELECT addr.city, count(*) n FROM orders GROUP BY addr.city ORDER BY n DESC, city
SELECT DISTINCT user FROM orders ORDER BY user
SELECT DISTINCT user, id % 2 FROM orders
SELECT o.id, u.land FROM orders o LEFT JOIN users u ON o.user = u.name ORDER BY o.id, u.land
SELECT o.id, u.land FROM orders o JOIN users u ON o.user = u.name AND u.land = 'CH'
SELECT u.name, o.id FROM orders o RIGHT OUTER JOIN users u ON o.user = u.name
SELECT o.id FROM orders o LEFT SEMI JOIN users u ON o.user = u.name
SELECT o.id FROM orders o LEFT ANTI JOIN users u ON o.user = u.name
SELECT o.id, u.op FROM orders o FULL OUTER JOIN updates u ON o.id = u.id
SELECT id, user, op FROM orders JOIN updates USING (id)
SELECT a.id, b.op FROM orders a, updates b WHERE a.id = b.id
SELECT count(*) AS n FROM orders CROSS JOIN users
SELECT O.ID, U.Land FROM orders o JOIN users u ON O.user = U.name
WITH latest AS (SELECT *, row_number() OVER (PARTITION BY id ORDER BY ts DESC) rn FROM orders) SELECT l.id, l.amount, u.land FROM latest l LEFT JOIN users u ON l.user = u.name WHERE rn = 1 ORDER BY 1
WITH a AS (SELECT id FROM orders), b AS (SELECT id + 1 AS id FROM a) SELECT max(id) FROM b
WITH t(x, y) AS (SELECT id, user FROM orders) SELECT y, x FROM t
SELECT * FROM (SELECT id, user FROM orders WHERE id > 1) t WHERE t.user IS NOT NULL
SELECT s.n FROM (SELECT user, count(*) AS n FROM orders GROUP BY user) s ORDER BY n
SELECT id FROM orders UNION ALL SELECT id FROM updates ORDER BY id
SELECT id FROM orders UNION SELECT id FROM updates
(SELECT id FROM orders) UNION (SELECT 7)
SELECT id, op FROM updates UNION ALL SELECT 9, 'x' LIMIT 2
SELECT id, tag FROM orders LATERAL VIEW explode(tags) t AS tag
SELECT id, t.tag FROM orders LATERAL VIEW OUTER explode(tags) t AS tag ORDER BY id, tag
SELECT id, explode(tags) AS tag FROM orders
SELECT tag, count(*) AS n FROM orders LATERAL VIEW explode(tags) e AS tag GROUP BY tag
SELECT id, user, amount FROM orders QUALIFY row_number() OVER (PARTITION BY id ORDER BY ts DESC) = 1
SELECT id, rank() OVER (ORDER BY sum(amount) DESC) AS r FROM orders GROUP BY id
SELECT user, sum(count(*)) OVER () AS whole, count(*) AS n FROM orders GROUP BY user
SELECT * EXCEPT (tags, addr) FROM orders WHERE id = 1
SELECT o.*, 1 AS one FROM updates o
SELECT 1 AS x, 'a' AS y
SELECT 1 + 1
SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(x, y) WHERE x > 1
SELECT x * 2 AS d FROM (VALUES (1), (2)) AS t(x)
VALUES (1, 'a'), (2, 'b')
SELECT id FROM range(3)
SELECT id AS a, a + 1 AS b FROM updates
SELECT id AS op, op FROM updates
SELECT id + 1 AS id FROM updates WHERE id > 2
SELECT id + 1 AS id, count(*) FROM updates GROUP BY id
SELECT id % 2 AS id FROM orders ORDER BY id
SELECT user AS id, amount FROM orders ORDER BY ts LIMIT 2
SELECT id FROM orders ORDER BY amount DESC NULLS LAST LIMIT 2
SELECT window.start, window.end, user, sum(amount) AS s FROM (SELECT *, to_timestamp(ts) AS at FROM orders) GROUP BY window(at, '15 minutes'), user
SELECT window(at, '1 hour').start AS h, count(*) AS n FROM (SELECT cast(ts AS TIMESTAMP) AS at FROM orders) GROUP BY window(at, '1 hour') ORDER BY h
SELECT /*+ BROADCAST(u) */ o.id, u.land FROM orders o JOIN users u ON o.user = u.name
SELECT CASE WHEN amount > 5 THEN 'hi' ELSE 'lo' END AS level, count(*) FROM orders GROUP BY CASE WHEN amount > 5 THEN 'hi' ELSE 'lo' END
SELECT CASE WHEN amount > 5 THEN 'hi' ELSE 'lo' END AS level, count(*) FROM orders GROUP BY level
SELECT user, collect_list(id) AS ids FROM orders GROUP BY ALL
SELECT date(ts) AS day, count(*) AS n FROM orders GROUP BY date(ts) HAVING sum(amount) IS NOT NULL ORDER BY day
FROM orders SELECT id WHERE id > 3
SELECT not id is null, -id, id between 1 and 2, date '2024-01-01' FROM updates
SELECT nosuch FROM orders
SELECT id FROM nosuch
SELECT user FROM orders GROUP BY id
SELECT id FROM orders o JOIN updates u ON o.id = u.id
SELECT id FROM orders WHERE id IN (SELECT id FROM updates)
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM updates u WHERE u.id = o.id)
SELECT (SELECT max(id) FROM updates) AS m
SELECT user, count(*) FROM orders GROUP BY ROLLUP (user)
SELECT user, id, count(*) FROM orders GROUP BY user, id WITH CUBE
SELECT * FROM updates PIVOT (count(*) FOR op IN ('d', 'i'))
SELECT id, sum(amount) OVER w AS s FROM orders WINDOW w AS (PARTITION BY user ORDER BY id)
SELECT id FROM orders NATURAL JOIN updates
SELECT id FROM orders LIMIT 2 OFFSET 1
SELECT id FROM orders INTERSECT SELECT id FROM updates
SELECT id FROM orders MINUS SELECT id FROM updates
SELECT id FROM orders SORT BY id
SELECT id div 2 FROM updates
SELECT from FROM
""".strip().splitlines()

SELECT_WITH: list[tuple[str, Any]] = [
    ("SELECT :x + 1 AS y", {"x": 4}),
    ("SELECT id FROM orders WHERE user = :who AND amount > :least", {"who": "ann", "least": 0.5}),
    ("SELECT * FROM updates WHERE id = ? AND op = ?", [2, "d"]),
    ("SELECT :none IS NULL AS n, :yes AS y", {"none": None, "yes": True}),
    ("SELECT :x", {"y": 1}),
]
"""With parameters."""
