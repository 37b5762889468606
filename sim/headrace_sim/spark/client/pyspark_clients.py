"""What differs between the Connect clients of PySpark's releases.

That of 3.5 makes frames in another way, notes no line for a column, and has classes of its own beside the classic ones, which
`as_classic` lets stand for them.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pyspark.sql.connect.proto as pb
from pyspark import sql
from pyspark.errors import utils as pyspark_errors
from pyspark.sql.connect import client, column, dataframe, expressions, session
from pyspark.sql.connect.plan import LogicalPlan

from headrace_sim.spark.refusals import CannotFollowError, users_place

ChannelBuilder: Any = getattr(client, "DefaultChannelBuilder", client.ChannelBuilder)
_SESSION = "00000000-0000-4000-8000-000000000000"
_MAKES_FRAMES = getattr(dataframe.DataFrame, "withPlan", dataframe.DataFrame)
_PAIRS = tuple(
    (classic, own)
    for classic, own in (
        (sql.Column, column.Column),
        (sql.DataFrame, dataframe.DataFrame),
        (sql.SparkSession, session.SparkSession),
    )
    if not issubclass(own, classic)
)
"""Classes that users name, and those of the client in their place: before 4.0, they have nothing in common."""


def frame_of(plan: LogicalPlan, session: Any) -> Any:
    """Return a frame of a plan."""
    return _MAKES_FRAMES(plan, session)


def fresh_number() -> int:
    """Return an id for a part of a plan."""
    return int(LogicalPlan(None)._plan_id)


def answer_to(request: Any, kind: str, **fields: Any) -> Any:
    """Return an answer of a server: ``ConfigResponse``. Before 4.0, it does not name itself."""
    answer = getattr(pb, kind)(session_id=request.session_id, **fields)
    if hasattr(answer, "server_side_session_id"):
        answer.server_side_session_id = _SESSION
    return answer


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """Return the text of `spark.sql` with what it names in braces, which the client of 3.5 cannot do.

    Raise `CannotFollowError` if it names something else than a frame, a number or a text.
    """
    written = {}
    for name, value in values.items():
        if isinstance(value, dataframe.DataFrame):
            written[name] = f"_pyspark_{name}"
            value.createOrReplaceTempView(written[name])
        elif isinstance(value, str):
            written[name] = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        elif isinstance(value, int | float):
            written[name] = str(value)
        else:
            what = f"spark.sql({name}=...) of {type(value).__name__}"
            raise CannotFollowError(what, users_place(), "Write it into the text")
    return text.format(**written)


class _Origin:
    """Where a column is made."""

    fragment = ""

    @property
    def call_site(self) -> str:
        """Return ``file:line`` of the user's code."""
        return users_place()


@contextmanager
def noted(analyze: Callable[[LogicalPlan, Any], None]) -> Iterator[None]:
    """Let columns have the user's line where the release has a place for it, and frames be analyzed when they are made.

    ``analyze``: takes the plan of a frame and its session.
    """
    with ExitStack() as patches:
        if hasattr(expressions, "current_origin"):
            patches.enter_context(patch.object(pyspark_errors, "is_debugging_enabled", lambda: False))
            patches.enter_context(patch.object(expressions, "current_origin", _Origin))
        if _MAKES_FRAMES is dataframe.DataFrame:
            original = dataframe.DataFrame.__init__

            def init(self: Any, plan: LogicalPlan, session: Any) -> None:
                original(self, plan, session)
                analyze(plan, session)

            patches.enter_context(patch.object(dataframe.DataFrame, "__init__", init))
        else:

            def with_plan(plan: LogicalPlan, session: Any) -> Any:
                frame = _MAKES_FRAMES(plan, session)
                analyze(plan, session)
                return frame

            patches.enter_context(patch.object(dataframe.DataFrame, "withPlan", staticmethod(with_plan)))
        patches.enter_context(_as_classic())
        yield


@contextmanager
def _as_classic() -> Iterator[None]:
    """Let ``isinstance(frame, pyspark.sql.DataFrame)`` hold and ``DataFrame.union(one, other)`` work, as on classic Spark."""
    with ExitStack() as patches:
        for classic, own in _PAIRS:
            patches.enter_context(patch.object(own, "__getattribute__", _posing_as(classic, own)))
            for name, method in vars(own).items():
                if inspect.isfunction(method) and name in vars(classic) and not name.startswith("_"):
                    patches.enter_context(patch.object(classic, name, method))
        yield


def _posing_as(classic: type, own: Any) -> Callable[[Any, str], Any]:
    original = own.__getattribute__

    def get(self: Any, name: str) -> Any:
        return classic if name == "__class__" else original(self, name)

    return get
