"""A worker and its store, joined by hand: feed an event, inspect all effects, and answer for the store on demand."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headrace import Computation, Context, EngineOptions, Pipeline, Productions, Record, Timer
from headrace.api.codecs import JsonCodec, StateCodec
from headrace.history import History
from headrace.store.mediator import MASTER_ROLE, Mediator
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Event, Halt, Send, Start, Wake
from headrace.wire.keys import KeyInterval, split_all_keys
from headrace.wire.messages import STORE, MintChange, Progress, Table
from headrace.wire.rows import Production, RowDelta, RowImage
from headrace.worker.interval import OwnedInterval
from headrace.worker.worker import Worker
from tests.core.wakes import take_wakes

FEED = "feed/0"
"""The injector's process: who sends the clicks."""

WORKER = "worker-0"
LEFT, RIGHT = KeyInterval("", "m"), KeyInterval("m")
FIRST = "counter@1.1#0"
"""The id of the first production of the first write."""

QUIET = EngineOptions(
    commit_batch=1,
    heartbeat_period_us=10**12,
    report_period_us=10**12,
    collect_period_us=10**12,
    retry_us=10**12,
    retry_max_us=10**12,
    delete_delay_us=0,
    id_slack_us=0,
)
"""No periodic messages, single commits: each effect has its cause in the test."""

_REQUESTS = (m.Read, m.Scan, m.Write, m.CollectIds)
_JSON = JsonCodec()


class Scripted(Computation):
    """User code as plain functions."""

    def __init__(
        self,
        on_record: Callable[[Context, Record], None] | None = None,
        on_timer: Callable[[Context, Timer], None] | None = None,
    ) -> None:
        self.on_record = on_record
        self.on_timer = on_timer

    def process_record(self, context: Context, record: Record) -> None:
        if self.on_record is not None:
            self.on_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        if self.on_timer is not None:
            self.on_timer(context, timer)


def count(context: Context, record: Record) -> None:
    """Count the records of a key, and emit each count."""
    context.state["n"] = context.state.get("n", 0) + 1
    context.produce("counts", context.state["n"])


def forward(context: Context, record: Record) -> None:
    """Act as a stateless function."""
    context.produce("counts", record.value)


def counter(
    computation: Computation | None = None,
    *,
    productions: Productions = Productions.STRONG,
    exactly_once: bool = True,
    watermark_percentile: float = 100.0,
    split_at: Iterable[str] = (),
    state_codec: StateCodec | None = None,
    share_state: bool = False,
) -> Pipeline:
    """Clicks go from an injector through ``counter``, whose counts go outside."""
    pipeline = Pipeline("clicks")
    pipeline.injector("feed", outputs=["clicks"])
    pipeline.add(
        Scripted(count) if computation is None else computation,
        name="counter",
        inputs=["clicks"],
        outputs=["counts"],
        productions=productions,
        exactly_once=exactly_once,
        watermark_percentile=watermark_percentile,
        split_at=split_at,
        state_codec=state_codec,
        share_state=share_state,
    )
    return pipeline


def click(
    record_id: str,
    key: str = "dog",
    *,
    timestamp: int = 10,
    origin: int = 1,
    value: object = None,
    sender: str = FEED,
) -> m.Deliver:
    """A click on its way to the counter."""
    return m.Deliver(
        Production(record_id, "clicks", "counter", key, _JSON.encode(value), timestamp, origin), sender
    )


def result(
    record_id: str,
    value: object,
    key: str = "dog",
    *,
    timestamp: int = 10,
    origin: int = 1,
    consumer: str = "",
) -> Production:
    """One of the counter's counts on its way outside."""
    return Production(record_id, "counts", consumer, key, _JSON.encode(value), timestamp, origin)


def sent(production: Production, to: str = "outside", sender: str = WORKER) -> Send:
    """A production being sent."""
    return Send(to, m.Deliver(production, sender))


def ack(*record_ids: str, to: str = FEED, consumer: str = "counter") -> Send:
    """Records being ACKed."""
    return Send(to, m.Ack(consumer, record_ids))


def outside_acks(*record_ids: str) -> m.Ack:
    """The outside world's ACK of these."""
    return m.Ack("", record_ids)


def watermark(
    low: int, horizon: int | None = None, *, of: str = "feed", percentiles: Mapping[float, int] | None = None
) -> m.Watermarks:
    """The authority's broadcast of one name's progress."""
    progress = Progress(low, low if horizon is None else horizon, tuple((percentiles or {}).items()))
    return m.Watermarks(0, ((of, progress),))


class Shop:
    """A store controlled like a master would, and the history of all events.

    Args:
        pipelines: the deployed pipeline versions; the first is in force.
        options: of the engine.
    """

    def __init__(self, *pipelines: Pipeline, options: EngineOptions = QUIET) -> None:
        self.pipelines = pipelines
        self.options = options
        self.history = History()
        self.mediator = Mediator(self.history, options.scan_page_rows)
        self.table = Table()
        self._mints = 0
        self.store(m.Claim(0, MASTER_ROLE, 0, "master-0"))

    def store(self, request: m.Request) -> m.Reply:
        """Let the store serve one request."""
        reply = self.mediator.handle(request)
        self.mediator.check_invariants()
        return reply

    def mint(
        self,
        *changes: MintChange,
        topology: int = 0,
        retiring: tuple[str, ...] = (),
        removed: tuple[str, ...] = (),
    ) -> Table:
        """Change the table as the master would."""
        self._mints += 1
        reply = self.store(m.Mint(0, 1, self._mints, changes, topology, retiring, removed))
        assert isinstance(reply, m.Minted)
        self.table = reply.table
        return reply.table

    def assign_all(
        self, owner: str = WORKER, incarnation: int = 1, others: Mapping[str, str] | None = None
    ) -> Table:
        """Give every computation to one owner, except for ``others`` (computation to owner)."""
        owners = dict(others or {})
        return self.mint(
            *[
                MintChange(name, interval, owners.get(name, owner), incarnation)
                for name, spec in self.pipelines[0].computations.items()
                for interval in split_all_keys(spec.split_at)
            ]
        )

    def journal(self, low: int, horizon: int | None = None, *, of: str = "feed") -> None:
        """Journal one name's progress as the authority would."""
        role = "authority-0"
        self.store(m.Claim(0, role, 0, "authority-0.0"))
        progress = Progress(low, low if horizon is None else horizon)
        reply = self.store(m.JournalWatermarks(0, role, 1, ((of, progress),), ()))
        assert reply == m.Journaled(0)

    def row(self, key: str, computation: str = "counter") -> RowImage | None:
        """The row in the store."""
        sequencer = self.mediator.live_sequencer(computation, key)
        reply = self.store(m.Read(0, computation, sequencer, key))
        assert isinstance(reply, m.RowRead)
        return reply.row

    def state(self, key: str, computation: str = "counter") -> object:
        """The decoded state in the store; ``None`` if there is none."""
        row = self.row(key, computation)
        return _JSON.decode(bytes(row.state)) if row is not None and row.state else None

    def of(self, *kinds: type) -> list[object]:
        """The events of these kinds so far."""
        return [event for event in self.history if isinstance(event, kinds)]


class Rig:
    """One worker at a `Shop`.

    Args:
        shop: the store; or the pipeline of a new one, all of whose computations it then owns, scanned and ready.
        options: of the engine, for a new shop.
        address: of the worker.
        incarnation: of the worker.

    Attributes:
        wakes: when it will be woken, earliest first, microseconds on its clock.
    """

    def __init__(
        self,
        shop: Shop | Pipeline,
        *,
        options: EngineOptions = QUIET,
        address: str = WORKER,
        incarnation: int = 1,
    ) -> None:
        self.shop = Shop(shop, options=options) if isinstance(shop, Pipeline) else shop
        self.address = address
        self.worker = Worker(address, self.shop.pipelines, self.shop.options, self.shop.history)
        self.now = 0
        self.open: list[m.Request] = []
        self.wakes: list[int] = []
        self.started = self.feed(Start(incarnation))
        if isinstance(shop, Pipeline):
            self.settle(self.shop.assign_all(address, incarnation))

    @property
    def interval(self) -> OwnedInterval:
        """Its only interval."""
        (interval,) = self.worker.intervals
        return interval

    def feed(self, event: Event, at: int | None = None) -> list[Effect]:
        """Feed an event, and return the whole list of effects but for `wakes`. Requests to the store stay `open`."""
        if at is not None:
            self.now = at
        effects = take_wakes(self.wakes, self.now, event, self.worker.handle(self.now, event))
        self.worker.check_invariants()
        self.open.extend(
            effect.message
            for effect in effects
            if isinstance(effect, Send) and effect.to == STORE and isinstance(effect.message, _REQUESTS)
        )
        return effects

    def answer(self, index: int = 0, at: int | None = None) -> list[Effect]:
        """Let the store answer an open request, by default the oldest; return the whole list of effects."""
        return self.feed(self.shop.store(self.open.pop(index)), at)

    def settle(self, event: Event, at: int | None = None) -> list[Effect]:
        """Feed an event, and let the store answer until nothing is open; return all effects on others."""
        effects = self.feed(event, at)
        while self.open:
            effects.extend(self.answer())
        return [effect for effect in effects if not (isinstance(effect, Send) and effect.to == STORE)]

    def wake(self, at: int) -> list[Effect]:
        """Wake it, with the store answering; return all effects on others."""
        return self.settle(Wake(), at)

    def wakes_until(self, until_us: int) -> list[tuple[int, list[Effect]]]:
        """Wake it at each time that it asked for; return what it does. Requests to the store stay `open`."""
        found: list[tuple[int, list[Effect]]] = []
        while (due_us := self.wakes[0]) <= until_us:
            found.append((due_us, self.feed(Wake(), due_us)))
        return found

    def asked(self) -> list[m.Request]:
        """Take the open requests: they are lost on the wire."""
        lost, self.open = self.open, []
        return lost

    def request(self) -> m.Request:
        """The only open request."""
        (request,) = self.open
        return request

    def write(self) -> m.Write:
        """The only open request, which is a write."""
        request = self.request()
        assert isinstance(request, m.Write)
        return request


def halt_of(effects: Iterable[Effect]) -> Exception:
    """The error of the only effect, a `Halt`."""
    (effect,) = effects
    assert isinstance(effect, Halt)
    return effect.error


def counted(number: int, total: int, *record_ids: str, key: str = "dog") -> RowDelta:
    """What one step of `count` changes that has come to this total and made one production for each record."""
    return RowDelta(
        key,
        number,
        state=b'{"n":%d}' % total,
        seen=tuple((id_, 1) for id_ in record_ids),
        productions=tuple(
            result(f"counter@1.{number}#{ordinal}", total - len(record_ids) + ordinal + 1, key)
            for ordinal in range(len(record_ids))
        ),
    )


def wrote(rig: Rig, *deltas: RowDelta, delivered: tuple[tuple[str, str, str], ...] = ()) -> Send:
    """Return the expected open request: a write of these, by the counter's first owner."""
    return Send(STORE, m.Write(rig.write().request, "counter", 1, deltas, delivered))


def printed_elsewhere(program: str) -> set[str]:
    """Return a program's output in processes with different hash seeds; a single string, if it is always the same."""
    root = str(Path(__file__).parents[2])
    return {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "random")
    }
