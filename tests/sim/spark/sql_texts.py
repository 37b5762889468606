"""SQL as people write it, each text run on Spark and on rows in memory: expressions, with the names that Spark gives them."""

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

OUTCOMES = Path(__file__).parent / "sql_outcomes.json"

EXPRESSIONS = r"""
t + INTERVAL 2 HOURS
t - interval '1' day
t + INTERVAL '10 minutes'
t + interval 1 hour 30 minutes
t + INTERVAL 1 WEEK
INTERVAL 90 SECONDS + t
day + INTERVAL 1 DAY as x
t - INTERVAL 250 MILLISECONDS
t > timestamp '2024-01-02 00:00:00' - interval 1 day
transform(a, x -> x + 1)
filter(a, x -> x is not null and x > 1)
exists(a, x -> x = 2)
i::bigint
d::decimal(12,2)
d::decimal(20,2)
cast(n as decimal(5,1)) as x
i :: string || 'x'
cast(i as decimal(12,2))
extract(YEAR FROM t)
extract(HOUR from t)
date '2024-01-02'
date'2024-01-02' = day
timestamp'2024-01-02 03:04:05'
day between date '2020-01-01' and '2024-01-02'
i is distinct from 1
i is not distinct from l
b is true
b is not true
b is false
not k is null
k is not null
!b
k not in ('a', 'b')
k like 'a%' or n not like '1_'
k rlike '^a' and not n regexp '[0-9]'
i in (1, 0, null)
a[0]
s.x + 1
`s`.`y`
s.y
p['u']
p.u
array(i, 2)[0]
map('k', i)['k']
named_struct('x', i, 'y', k).y
named_struct('x', i, 'y', k)
struct(i, k as kk)
nvl(n, 'none')
ifnull(i, 0)
coalesce(i, l, 0)
if(i > 0, 'p', 'n')
case when i > 0 then 'p' when i < 0 then 'n' end
case k when 'a' then 1 when 'b' then 2 else 0 end
upper(k) || '-' || lower(n)
concat(k, '-', n)
concat_ws('-', k, n)
substring(n, 2)
substr(n, 1, 1)
trim(n)
-i
-2L
-(2)
m + -(2)
m + 2
1L
1.5BD
1.5D
2.5
1e2
+i as x
i % 3 * 2 + 1
l / 2
(i + 1) * 2
i = l = true
k || 1 + 1
"double"
'it''s'
'tab\tand \'quote\''
r'\d'
mean(i) over (partition by k)
sum(l) over (partition by k order by i rows between 1 preceding and current row)
sum(l) over (partition by k order by i rows between unbounded preceding and unbounded following)
row_number() over (partition by k order by i desc nulls last)
lag(i, 1, 0) over (partition by k order by t)
first_value(i) over (partition by k order by t)
count(*) over ()
power(d, 2)
date_add(day, 1)
year(t)
day(t)
current_date() is not null
current_timestamp is not null
date_trunc('hour', t)
date_format(t, 'yyyy-MM-dd')
to_date(t)
get_json_object(j, '$.x')
from_json(j, 'x INT, y STRING').y
size(a)
array_contains(a, 2)
element_at(a, 1)
int(n)
string(i)
date(t)
float(i)
null
true and null
i <=> null
greatest(i, 1)
round(d, 1)
startswith(k, 'a')
k as `a name`
k name
s.*
i >
nosuch + 1
cast(n as foo)
i + + 1
i ++ 1
f(
(i
1 2
""".strip().splitlines()
"""Each is selected alone."""

AGGREGATES = r"""
count(*)
count(1)
count(i)
count(DISTINCT k, b)
count(distinct i)
sum(distinct i)
sum(i) FILTER (WHERE i > 0)
count(*) filter (where b)
count(*) filter (where i > 0) / count(*)
max(t)
mean(i)
avg(d)
first(n) ignore nulls
first(n, true)
last(n)
first_value(k)
max_by(k, i)
max(struct(t, k)).k
collect_list(i) filter (where i > 0)
sum(case when b then 1 else 0 end) as trues
sum(l) + 1
max(distinct i)
""".strip().splitlines()
"""Each is computed for all rows."""


def programs() -> dict[str, Any]:
    """Return what each text does to a frame."""
    selected = {text: lambda df, text=text: df.selectExpr(text) for text in EXPRESSIONS}
    return selected | {
        f"agg: {text}": lambda df, text=text: df.groupBy().agg(F.expr(text)) for text in AGGREGATES
    }
