"""Calling user code's hooks for one record or timer (MillWheel 4.1, 4.6, 6.1.1), and what its failure leaves.

Rule of this file: all of it is pure. A hook that fails leaves no trace in its step.
"""

from typing import Any

from headrace.api.codecs import Codec, encode_at, unreadable
from headrace.api.context import Context, Emission
from headrace.api.dead_letters import step_letter
from headrace.api.errors import HeadraceError, UserCodeError, text_of, traceback_of_user_code
from headrace.api.records import Clock, Record, Timer
from headrace.api.ropes import Encoded
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.addressing import CONSUMED
from headrace.delivery.deployed import Deployed
from headrace.rules import Rules
from headrace.wire.rows import Asked, AskedTimer, Production, StoredTimer, Version


def run_record(
    where: Deployed,
    key: str,
    state: Encoded,
    production: Production,
    low_watermark: int,
    now: int,
    *,
    late: bool,
    copy: Any = None,
) -> Context:
    """Run ``process_record`` on a fresh copy of everything; raises what user code raises.

    ``late``: what it is told (4.5). ``copy``: what the state is decoded to, if it has been.
    """
    spec = where.spec
    stream = production.stream
    timestamp, record_id = production.timestamp, production.record_id
    codec = where.codec(stream)
    try:
        value = codec.decode(production.value)
    except Exception as error:
        names = stream, spec.name, record_id
        raise unreadable(error, CONSUMED, codec, production.value, *names) from error
    context = Context(spec, key, state, timestamp, low_watermark, now, timestamp, state_copy=copy)
    record = Record(key, value, timestamp, stream, late, record_id)
    spec.computation.process_record(context, record)
    return context


def run_timer(
    where: Deployed,
    key: str,
    state: Encoded,
    timer: StoredTimer,
    low_watermark: int,
    now: int,
    copy: Any = None,
) -> Context:
    """Run ``process_timer`` on a fresh copy of everything; raises what user code raises. ``copy``: as for `run_record`."""
    held = timer.held
    cause_us = MIN_TIME if held is None else held
    stamp = stamp_of(timer, low_watermark)
    context = Context(where.spec, key, state, cause_us, low_watermark, now, stamp, state_copy=copy)
    where.spec.computation.process_timer(context, Timer(timer.tag, timer.timestamp, timer.clock))
    return context


def stamp_of(timer: StoredTimer, low_watermark: int) -> int:
    """Return the timestamp of what a timer produces, unless user code gives one; event time, microseconds.

    Choice: a wall timer without a hold stamps with the low watermark, so that nothing that it makes is late. While that is
    unknown, and when the source has ended, there is no such time (windows at the ends of time cannot be computed): then it is
    the time of what set the timer, as in Beam.
    """
    held = timer.held
    if held is not None:
        return held
    return low_watermark if MIN_TIME < low_watermark < MAX_TIME else timer.set_at


def timer_identity(computation: str, timer: StoredTimer) -> str:
    """Return the identity of a timer as the cause of productions."""
    return f"{computation}@{timer.set_by}!{timer.tag}"


def stored_timers(
    rules: Rules, context: Context, *, handler_time: int, now: int, set_by: Version, origin: int
) -> dict[str, StoredTimer | None]:
    """Return how the timers that user code requested change the row (4.6); ``None``: cancelled.

    Args:
        rules: of the protocol.
        context: of the hook that ran.
        handler_time: the input watermark, or, for a timer's hook, the time that it was due; event time, microseconds.
        now: this machine's clock, microseconds.
        set_by: the version of the write that will carry them.
        origin: of their cause, microseconds.
    """
    timers: dict[str, StoredTimer | None] = {}
    for tag, request in (context.timers or {}).items():
        if request is None:
            timers[tag] = None
            continue
        base = handler_time if request.clock is Clock.WATERMARK else now
        overdue = request.timestamp <= base
        due = rules.due(request.timestamp, base)
        set_at = context.stamp if request.clock is Clock.WALL and request.hold is None else MIN_TIME
        timers[tag] = StoredTimer(
            tag, request.timestamp, request.clock, due, overdue, request.hold, set_by, origin, set_at
        )
    return timers


def asked_of(context: Context | None) -> Asked:
    """Return what user code requested of its row, for the History; ``None`` if it did not get that far."""
    if context is None or (context.timers is None and context.new_hold is None):
        return _NOTHING
    timers = [
        AskedTimer(tag, None) if timer is None else AskedTimer(tag, timer.timestamp, timer.clock, timer.hold)
        for tag, timer in (context.timers or {}).items()
    ]
    return Asked(context.new_hold, tuple(timers))


_NOTHING = Asked()


def final_error(
    where: Deployed, key: str, cause: str, attempts: int, production: Production | None, error: Exception
) -> HeadraceError:
    """Make the error of a step that has failed for good. ``production``: the record; ``None``: it was a timer."""
    if isinstance(error, HeadraceError):
        return error
    value = "" if production is None else _shown(where.codec(production.stream), production.value)
    return UserCodeError(where.spec.name, key, cause, attempts, traceback_of_user_code(error), value)


def _shown(codec: Codec, data: bytes) -> str:
    try:
        return repr(codec.decode(data))
    except Exception:  # noqa: BLE001  a codec or a repr may be the user's
        return repr(data)


_DEAD = "stream {!r}, dead letters of {!r}"


def dead_letter(
    where: Deployed,
    stream: str,
    key: str,
    cause: str,
    production: Production | None,
    timestamp: int,
    error: Exception,
) -> Emission:
    """Make the dead letter of a record, or of a timer (``production`` is ``None``).

    Raises:
        CodecError: the stream's codec refuses it.
    """
    name = where.spec.name
    source, value = (production.stream, production.value) if production else (None, None)
    letter = step_letter(name, key, cause, source, value, timestamp, text_of(error))
    data = encode_at(_DEAD, where.codec(stream), letter, stream, name)
    return Emission(stream, key, data, timestamp)
