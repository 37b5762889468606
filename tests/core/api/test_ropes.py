"""A state in pieces stands for its bytes, wherever it goes: user code's codec, store, History, files, other processes."""

import pickle
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from headrace import SECOND, Computation, Context, Encoded, EngineOptions, JsonCodec, Pipeline, Record, Rope
from headrace.api.codecs import MigratingCodec, decode_state
from headrace.api.ropes import plain_bytes
from headrace.histories import header_of, load_history, save_history
from headrace.history import Applied
from headrace_properties.checkers import judge
from headrace_properties.reference import run_reference
from headrace_properties.results import result_of
from headrace_properties.verdict import Violated
from headrace_sim import ClusterOptions, Feed, FeedBuilder, simulate


class Lines(Rope):
    """Joins lines."""

    __slots__ = ("lines",)

    def __init__(self, *lines: bytes) -> None:
        self.lines = lines

    def __bytes__(self) -> bytes:
        return b"\n".join(self.lines)


class LinesCodec:
    """Encodes a list of texts, in pieces."""

    reads_ropes = True

    def encode(self, value: list[str]) -> Encoded:
        return Lines(*(line.encode() for line in value))

    def decode(self, data: Encoded) -> list[str]:
        lines = data.lines if isinstance(data, Lines) else bytes(data).split(b"\n")
        return [line.decode() for line in lines if line]


class Journal(Computation):
    """Keeps what it is told, and passes it on."""

    def initial_state(self) -> list[str]:
        return []

    def process_record(self, context: Context, record: Record) -> None:
        context.state = sorted([*context.state, str(record.value)])
        context.produce("noted", record.value)


def journal(codec: LinesCodec) -> Pipeline:
    pipeline = Pipeline("journal")
    pipeline.injector("told")
    pipeline.add(Journal(), name="journal", inputs=["told"], outputs=["noted"], state_codec=codec)
    return pipeline


def feed_of(pipeline: Pipeline) -> Feed:
    builder = FeedBuilder(pipeline)
    for number in range(20):
        builder.record(at_us=SECOND + number, value=number, timestamp=number, key="ab"[number % 2])
    return builder.build()


def test_it_is_equal_to_its_bytes_and_no_others() -> None:
    rope, data = Lines(b"a", b"bc"), b"a\nbc"
    assert rope == data
    assert data == rope
    assert rope == Lines(b"a\nbc")
    assert (rope != b"a\nbd", rope != Lines(b"a"), rope != "a\nbc", bool(Lines())) == (
        True,
        True,
        True,
        False,
    )
    assert (len(rope), hash(rope), repr(rope)) == (4, hash(data), repr(data))


def test_it_leaves_the_process_as_bytes() -> None:
    rope = Lines(b"a", b"bc")
    assert pickle.loads(pickle.dumps(rope)) == deepcopy(rope) == b"a\nbc"  # noqa: S301  of this test's own
    assert msgspec.json.encode([rope], enc_hook=plain_bytes) == msgspec.json.encode([b"a\nbc"])
    with pytest.raises(TypeError):
        msgspec.json.encode([object()], enc_hook=plain_bytes)


def test_a_codec_that_knows_no_ropes_is_given_bytes() -> None:
    assert decode_state(JsonCodec(), Lines(b"[1,", b"2]")) == [1, 2]
    assert MigratingCodec(LinesCodec(), []).encode(["a", "b"]) == b"\x000\x00a\nb"


def test_a_pipeline_keeps_its_states_in_pieces(tmp_path: Any) -> None:
    """The engine agrees with the reference; the History's digest and its file are those of the bytes."""
    pipeline = journal(LinesCodec())
    feed = feed_of(pipeline)
    history = simulate(pipeline, feed)
    kept = [event.delta.state for event in history if isinstance(event, Applied) and event.delta.state]
    assert {type(state) for state in kept} == {Lines}
    assert result_of(history) == run_reference(pipeline, feed)
    assert not [verdict for verdict in judge(history, [pipeline]).values() if isinstance(verdict, Violated)]
    save_history(tmp_path / "h", history, header_of([pipeline]))
    _, again = load_history(tmp_path / "h")
    assert {type(event.delta.state) for event in again if isinstance(event, Applied)} <= {bytes, type(None)}
    assert list(again) == list(history)
    assert again.digest() == history.digest()


class HalfCodec(LinesCodec):
    """Reads what it wrote, but not the bytes of it: it leaves a line out."""

    def decode(self, data: Encoded) -> list[str]:
        lines = super().decode(data)
        return lines if isinstance(data, Lines) else lines[:-1]


@pytest.mark.parametrize("codec", [LinesCodec(), HalfCodec()])
def test_an_owner_that_reads_a_row_anew_is_given_its_bytes(codec: LinesCodec) -> None:
    """No cache: each record's row is read from the store, as it would be from a disk."""
    pipeline = journal(codec)
    feed = feed_of(pipeline)
    history = simulate(pipeline, feed, options=ClusterOptions(engine=EngineOptions(cache_bytes=0)))
    assert (result_of(history) == run_reference(pipeline, feed)) is (type(codec) is LinesCodec)
