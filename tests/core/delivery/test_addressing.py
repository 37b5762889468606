"""From emissions to productions (MillWheel 4.2, 4.3, 6.1.1): feed emissions, assert all resulting productions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import CodecError, Computation, JsonCodec, KeyExtractorError, Pipeline, Productions, Record
from headrace.api.context import Emission
from headrace.api.specs import OUTSIDE
from headrace.delivery.addressing import addressed, key_for, productions_of
from headrace.delivery.deployed import Deployed
from headrace.injector.injection import productions_of as injected
from headrace.rules import Rules
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import Production, Version

VALUE = b'{"by":"lion","v":1}'
VERSION = Version(3, 5)


def take(record: Record) -> Any:
    """The key that the value names; takes it out of the value."""
    return record.value.pop("by")


def where_of(
    *present: str, productions: Productions = Productions.STRONG, rules: Rules | None = None
) -> Deployed:
    pipeline = Pipeline("clicks")
    pipeline.injector("feed", outputs=["clicks"])
    pipeline.add(
        Computation(), name="counter", inputs=["clicks"], outputs=["counts", "side"], productions=productions
    )
    pipeline.add(Computation(), name="sink", inputs=["counts"])
    pipeline.add(Computation(), name="sorter", inputs={"counts": take})
    names = frozenset(present or ("counter", "sink", "sorter"))
    return Deployed(pipeline.computations["counter"], pipeline, names | {OUTSIDE}, rules or Rules())


def emissions(*streams: str) -> list[Emission]:
    return [Emission(stream, "dog", VALUE, 50) for stream in streams]


def made(record_id: str, stream: str, consumer: str, key: str = "dog") -> Production:
    return Production(record_id, stream, consumer, key, VALUE, 50, origin=9)


def test_each_emission_becomes_a_production_for_each_consumer_that_is_there() -> None:
    """The sink keeps the key, the sorter takes its own; nobody consumes "side". Ordinals count emissions."""
    found = productions_of(where_of(), emissions("counts", "side"), VERSION, "r1", 3, 9)
    assert found == (
        made("counter@3.5#3", "counts", "sink"),
        made("counter@3.5#3", "counts", "sorter", "lion"),
        made("counter@3.5#4", "side", OUTSIDE),
    )


def test_a_weak_computation_numbers_what_each_cause_makes_anew() -> None:
    where = where_of("sink", productions=Productions.WEAK)
    assert productions_of(where, emissions("counts", "side"), VERSION, "r1", 3, 9) == (
        made("r1>counter#0", "counts", "sink"),
        made("r1>counter#1", "side", OUTSIDE),
    )


def test_a_consumer_that_has_left_or_not_come_yet_gets_nothing() -> None:
    found = productions_of(where_of("sink"), emissions("counts"), VERSION, "r1", 0, 9)
    assert found == (made("counter@3.5#0", "counts", "sink"),)


def test_a_key_extractor_that_changes_its_record_affects_no_other() -> None:
    for production in productions_of(where_of(), emissions("counts", "counts"), VERSION, "r1", 0, 9):
        assert JsonCodec().decode(production.value) == {"by": "lion", "v": 1}


def test_ids_are_decided_by_the_rules() -> None:
    class Nameless(Rules):
        def id_prefix(self, computation: str, version: Version, cause: str, strong: bool) -> str:  # noqa: FBT001
            return "x"

        def first_ordinal(self, emitted: int, strong: bool) -> int:  # noqa: FBT001
            return 7

    found = productions_of(where_of("sink", rules=Nameless()), emissions("counts"), VERSION, "r1", 0, 9)
    assert [production.record_id for production in found] == ["x#7"]


def test_a_key_extractor_sees_the_record_as_it_was_made_with_its_id() -> None:
    seen = []

    def extractor(record: Record) -> str:
        seen.append(record)
        return "k"

    assert key_for("sorter", extractor, JsonCodec(), "counts", "dog", b"[1]", 50, "r1#0") == "k"
    assert seen == [Record("dog", [1], 50, "counts", late=False, record_id="r1#0")]


@pytest.mark.parametrize(
    ("extractor", "reason"),
    [
        (lambda record: record.value["no"], "KeyError: 'no' (value {'by': 'lion', 'v': 1})"),
        (lambda record: record.value["v"], "returned 1 (int)"),
        (lambda _: "\ud800", "returned '\\ud800' (str)"),
    ],
    ids=["raises", "no str", "no text"],
)
def test_an_invalid_key_is_an_error_that_names_consumer_and_stream(extractor: Any, reason: str) -> None:
    with pytest.raises(KeyExtractorError) as caught:
        key_for("sorter", extractor, JsonCodec(), "counts", "dog", VALUE, 50, "r1#0")
    assert caught.value.args == ("sorter", "counts", reason)


def test_a_value_that_cannot_be_read_is_an_error_that_names_stream_consumer_and_record() -> None:
    with pytest.raises(CodecError) as caught:
        addressed(Emission("counts", "dog", b"{", 50), "r1#0", 9, [("sorter", take)], JsonCodec())
    assert caught.value.where == "stream 'counts', consumed by 'sorter', record r1#0"


KEYS = st.text(max_size=3)


@given(own=KEYS, named=KEYS, timestamp=st.integers(0, 1 << 50))
def test_a_record_is_addressed_the_same_way_whether_injected_or_produced(
    own: str, named: str, timestamp: int
) -> None:
    where = where_of()
    data = JsonCodec().encode({"by": named})
    produced = productions_of(where, [Emission("counts", own, data, timestamp)], VERSION, "r1", 0, 9)
    source = SourceRecord(0, "counts", own, data, timestamp)
    assert injected(where.pipeline, "x/0", ("counts",), source, 9, record_id="counter@3.5#0") == produced
