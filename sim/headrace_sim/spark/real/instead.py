"""What Headrace cannot follow, computed by the real Spark instead, where the rows alone decide."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

import pyspark.sql.connect.proto as pb

from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.values import as_tuple
from headrace_sim.spark.real.answers import RealSparkError, ask
from headrace_sim.spark.real.questions import BARE, refusal
from headrace_sim.spark.refusals import HEARD, CannotFollowError

SWITCH = "HEADRACE_REAL_SPARK"
"""The environment variable that leaves the real Spark out: ``no``."""


def expect_askable(relation: pb.Relation, functions: Iterable[str], cannot: CannotFollowError) -> None:
    """Expect a relation that the real Spark may compute.

    ``functions``: the names of the user's own functions. ``cannot``: why it is not computed here. Raise `CannotFollowError`
    if Spark is not asked.
    """
    if cannot.is_final or os.environ.get(SWITCH) == "no":
        cannot.is_final = True
        raise cannot
    if why := refusal(relation, BARE, functions):
        raise _final(cannot, f"{cannot.remedy.rstrip('.')}. (The real Spark is not asked: {why})")


def by_spark(relation: pb.Relation, inputs: Sequence[Rows], cannot: CannotFollowError) -> Rows:
    """Return what a relation gives on the real Spark.

    ``inputs``: what its inputs give. ``cannot``: why it is not computed here. Raise `CannotFollowError` if there is no Spark
    that could be asked, or `PySparkException` if Spark raises it.
    """
    _unhear(cannot)
    tables = [(rows.schema, rows.all()) for rows in inputs]
    try:
        schema, rows = ask(relation, tables, cannot.call, cannot.place)
    except RealSparkError as error:
        raise _final(cannot, f"{str(error).rstrip('.')}. {cannot.remedy}") from error
    parts = [tuple(as_tuple(row, schema) for row in rows)]
    return Rows(schema, parts, streaming=any(table.streaming for table in inputs))


def _final(cannot: CannotFollowError, remedy: str) -> CannotFollowError:
    _unhear(cannot)
    final = CannotFollowError(cannot.call, cannot.place, remedy)
    final.is_final = True
    return final


def _unhear(cannot: CannotFollowError) -> None:
    with suppress(ValueError):
        HEARD.remove(cannot)
