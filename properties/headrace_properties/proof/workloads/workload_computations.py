"""The user code of the workloads: a class for each thing that user code can do."""

from typing import Any

import msgspec

from headrace import MILLISECOND, SECOND, Computation, Context, Record, Timer


class Telling(Computation):
    """Tells what comes of it on one stream.

    Args:
        output: the stream.
    """

    def __init__(self, output: str) -> None:
        self._output = output


class SumPerSecond(Telling):
    """Adds up, and tells the sum at the end of each second of event time."""

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        context.state += record.value
        context.set_timer("end", record.timestamp // SECOND * SECOND + SECOND - 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell the sum."""
        del timer
        context.produce(self._output, context.state)


class Echo(Telling):
    """Adds up, and passes each record on."""

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number, and pass it on."""
        context.state += record.value
        context.produce(self._output, record.value)


class Passing(Telling):
    """Passes each record on, and keeps nothing."""

    def process_record(self, context: Context, record: Record) -> None:
        """Pass it on."""
        context.produce(self._output, record.value)


class Windows(Telling):
    """Adds up by the half second of event time, and tells the sum of each at its end."""

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number to its window."""
        # A record at its end is of the next one: it may still come when the watermark is there.
        end = record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        context.state[str(end)] = context.state.get(str(end), 0) + record.value
        context.set_timer(str(end), end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a sum."""
        context.produce(self._output, context.state.pop(timer.tag, 0))


class Holding(Telling):
    """Keeps what comes for a while of wall time, and holds the watermark for it until then."""

    def process_record(self, context: Context, record: Record) -> None:
        """Keep it."""
        kept = context.state.setdefault("kept", [])
        kept.append([record.timestamp, record.value])
        context.hold_watermark(min(timestamp for timestamp, _ in kept))
        context.set_wall_timer("pass on", context.wall_time + 300 * MILLISECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Pass all of it on, and let go."""
        del timer
        for timestamp, value in context.state.pop("kept", []):
            context.produce(self._output, value, timestamp=timestamp)
        context.clear_state()


class Prompt(Telling):
    """Sets a timer for each record that is due at once, and counts the records that overtake one: none may (4.6)."""

    def initial_state(self) -> dict[str, Any]:
        """Nothing is due, and nothing has overtaken it."""
        return {"due": [], "overtaken": 0}

    def process_record(self, context: Context, record: Record) -> None:
        """Set a timer; one that was due and is still pending was overtaken."""
        state, tag = context.state, str(record.value)
        state["overtaken"] += len(state["due"])
        if context.low_watermark >= 0:
            state["due"].append(tag)
        context.set_timer(tag, 0)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Report the count."""
        state = context.state
        state["due"] = [tag for tag in state["due"] if tag != timer.tag]
        context.produce(self._output, state["overtaken"])


class TimerChain(Telling):
    """Sets timers in timers: three more behind the end of each window. It counts those that fire out of order: none may (4.6)."""

    def initial_state(self) -> dict[str, int]:
        """None has fired."""
        return {"last": 0, "overtaken": 0}

    def process_record(self, context: Context, record: Record) -> None:
        """Set the first timer of its window."""
        end = record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        context.set_timer(str(end), end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Count, and set the next timer of the chain."""
        state, at = context.state, timer.timestamp
        state["overtaken"] += at < state["last"]
        state["last"] = max(at, state["last"])
        if timer.tag.count("+") < 3:
            context.set_timer(f"{timer.tag}+", at + WINDOW_US // 4)
        context.produce(self._output, state["overtaken"])


class Refusing(Computation):
    """Passes on what it can read, and fails on the rest."""

    def process_record(self, context: Context, record: Record) -> None:
        """Fail on every third number."""
        if record.value % 3 == 0:
            raise ValueError(record.value)
        context.produce("read", record.value)


class Sums(msgspec.Struct):
    """Sums by the end of their window."""

    by_end: dict[str, int] = {}


class Failing(Computation):
    """Adds up by the half second of event time; fails on every fourth number, and on the end of windows with an odd sum.

    Args:
        fails: it does.
    """

    def __init__(self, *, fails: bool = True) -> None:
        self._fails = fails

    def initial_state(self) -> Sums:
        """Nothing yet."""
        return Sums()

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number to its window, and then fail on some; look at the state for no multiple of three."""
        if record.value % 3 == 0:
            return
        end = record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        sums = context.state.by_end
        sums[str(end)] = sums.get(str(end), 0) + record.value
        context.set_timer(str(end), end)
        if self._fails and record.value % 4 == 0:
            raise ValueError(record.value)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a sum, or fail."""
        total = context.state.by_end.pop(timer.tag)
        if self._fails and total % 2:
            raise ValueError(total)
        context.produce("sums", total)


class Counting(Computation):
    """Counts what comes, whatever it is, and says so each time."""

    def process_record(self, context: Context, record: Record) -> None:
        """One more."""
        del record
        context.state["count"] = context.state.get("count", 0) + 1
        context.produce("counted", 1)


WINDOW_US = 500 * MILLISECOND


HOUR_US = 3_600 * SECOND


class Reminders(Computation):
    """Answers each record a while of wall time later, and holds nothing for it."""

    def process_record(self, context: Context, record: Record) -> None:
        """Set a timer for it."""
        context.set_wall_timer(str(record.value), context.wall_time + 300 * MILLISECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Answer it."""
        context.produce("reminders", timer.tag)


class Patient(Reminders):
    """The same, and fails on every third number."""

    def process_record(self, context: Context, record: Record) -> None:
        """Fail, or set a timer."""
        if record.value % 3 == 0:
            raise ValueError(record.value)
        super().process_record(context, record)


class Stragglers(Computation):
    """Passes records on, but keeps every third for two seconds of wall time, and holds the watermark for it until then."""

    def process_record(self, context: Context, record: Record) -> None:
        """Pass it on, or keep it."""
        if record.value % 3:
            context.produce("kept", record.value)
        else:
            tag = str(record.value)
            context.state[tag] = record.value
            context.set_wall_timer(tag, context.wall_time + 2 * SECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Pass it on."""
        context.produce("kept", context.state.pop(timer.tag))


class Slips(Computation):
    """Adds up by second of event time, with all that a step can do: holds, wall timers, cancelled timers, failures.

    A negative number is refused. While something is new, the state holds the low watermark; a wall timer lets it go.
    """

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        if record.value < 0:
            raise ValueError(record.value)
        second = str(record.timestamp // SECOND)
        context.state[second] = context.state.get(second, 0) + record.value
        context.hold_watermark(record.timestamp)
        context.set_timer(second, (record.timestamp // SECOND + 1) * SECOND - 1)
        context.set_wall_timer("let go", context.wall_time + 300 * MILLISECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a second's sum, or let the watermark go."""
        context.hold_watermark(None)
        if timer.tag != "let go":
            context.cancel_timer("let go")
            context.produce("slips", context.state.pop(timer.tag))


class Sorter(Computation):
    """Passes on what comes when the watermark that it follows has reached it."""

    def process_record(self, context: Context, record: Record) -> None:
        """Keep it until then."""
        context.state.setdefault(str(record.timestamp), []).append(record.value)
        context.set_timer(str(record.timestamp), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Pass it on."""
        for value in context.state.pop(timer.tag):
            context.produce("sorted", value)
