"""Values between transforms: each comes back as what it was, or is refused with what to do."""

import datetime as dt
import enum
import pickle
import uuid
from collections import Counter
from dataclasses import dataclass, make_dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME, SECOND, CodecError, OptionsError
from headrace.dataflow import (
    AtCount,
    DataflowError,
    FixedWindows,
    KeyState,
    Pane,
    PCollection,
    Repeat,
    Window,
    WindowState,
    read,
)
from headrace.dataflow.contents import Contents
from headrace.dataflow.value_codecs import ValueCodec
from headrace_properties.reference import run_reference
from headrace_sim import FeedBuilder


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Leg(msgspec.Struct, frozen=True):
    path: list[Point]


@dataclass(frozen=True)
class Order:
    number: int
    price: Decimal
    tags: frozenset[str] = frozenset()


CLASSES = (Colour, Point, Leg, Order, uuid.UUID)
ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.binary() | st.decimals(allow_nan=False, allow_infinity=False) | st.dates() | st.datetimes() | st.uuids()
    | st.timedeltas(dt.timedelta(days=-9), dt.timedelta(days=9)) | st.just(Colour.RED)
    | st.builds(Point, st.integers(), st.integers()) | st.builds(Order, st.integers(), st.just(Decimal("1.50")))
)  # fmt: skip
KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    ATOMS,
    lambda parts: (
        st.lists(parts) | st.tuples(parts, parts) | st.dictionaries(KEYS, parts) | st.frozensets(KEYS) | st.sets(KEYS)
    ),
    max_leaves=8,
)  # fmt: skip


def types(value: Any) -> Any:
    """Return the types of a value and its parts."""
    if isinstance(value, dict):
        return sorted(repr((key, types(key), types(part))) for key, part in value.items())
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr((part, types(part))) for part in value)
    return (type(value), *map(types, value)) if isinstance(value, list | tuple) else type(value)


@given(VALUES)
def test_a_value_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    codec = ValueCodec(Any, CLASSES)
    found = codec.decode(codec.encode(value))
    assert (found, types(found)) == (value, types(value))


def test_plain_json_stays_what_it_was() -> None:
    value = {"b": [1, None, {"$": "not a first key"}.get("$")], "a": {"deep": [True, 1.5]}}
    assert ValueCodec().encode(value) == b'{"a":{"deep":[true,1.5]},"b":[1,null,"not a first key"]}'


def test_equal_values_have_equal_bytes() -> None:
    codec = ValueCodec()
    assert codec.encode({(2, "b"), (1, "a")}) == codec.encode({(1, "a"), (2, "b")})
    assert codec.encode({2: "b", 1: "a"}) == codec.encode({1: "a", 2: "b"})
    assert codec.encode({"$set": [1]}) != codec.encode({1})


def test_values_in_states_and_panes_are_kept_too() -> None:
    pane = Pane(Order(1, Decimal(2)), Window(0, 10), 9)
    window = WindowState(Window(0, 10), [{1, 2}, 0], Contents(1, [(Decimal("0.10"), 3)]), emitted=[pane])
    for codec, value in (
        (ValueCodec(Pane, [Order]), pane),
        (ValueCodec(KeyState, [Order]), KeyState([window])),
    ):
        copied = pickle.loads(pickle.dumps(codec))  # noqa: S301  as Spark ships it
        assert copied == codec
        assert copied.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (Order(1, Decimal(1)), "class Order .*; declare with_types\\(Order\\)"),
        ([Colour.RED], "class Colour .*; declare with_types\\(Colour\\)"),
        ({"a": Counter("aab")}, "class Counter .*; convert it to a plain value"),
        (1 + 2j, "class complex .*; convert it to a plain value"),
    ],
)
def test_a_value_that_would_change_is_refused(value: Any, remedy: str) -> None:
    with pytest.raises(TypeError, match=remedy):
        ValueCodec().encode(value)


@pytest.mark.parametrize("given", [5, int, dict, Decimal, Counter, "Order"])
def test_only_classes_with_fields_and_enums_can_be_declared(given: Any) -> None:
    with pytest.raises(
        OptionsError, match=r"a dataclass, a msgspec\.Struct or NamedTuple class, an enum, or UUID"
    ):
        read("in").with_types(given)


def test_a_class_whose_annotations_cannot_be_resolved_is_refused() -> None:
    with pytest.raises(OptionsError, match="annotations can be resolved"):
        read("in").with_types(make_dataclass("Order", [("number", "Missing")]))


def test_two_classes_of_one_name_are_refused() -> None:
    other = make_dataclass("Order", [("number", int)])
    flow = read("in").with_types(Order, other).to("out")
    with pytest.raises(DataflowError, match="class 'Order': two classes have this name"):
        flow.pipeline("shop")


def panes_of(made: PCollection[Any]) -> list[Any]:
    """Values of the panes for inputs 1, 2, 3, retractions negative in front."""
    pipeline = made.to("out").pipeline("shop")
    builder = FeedBuilder(pipeline)
    for value in (1, 2, 3):
        builder.record(at_us=value * SECOND, value=value, timestamp=value * SECOND, key="k")
    builder.watermark(at_us=9 * SECOND, low_watermark=MAX_TIME)
    outputs = run_reference(pipeline, builder.build()).outputs
    return sorted(pipeline.codec("out").decode(emitted.value).value for emitted in outputs.elements())


def orders() -> PCollection[Any]:
    """Orders of a price of a tenth of their number, which are grouped into one window."""
    made = read("in").map(lambda number: Order(number, Decimal(number) / 10)).with_types(Order)
    return made.window_into(FixedWindows(60 * SECOND))


def test_a_class_survives_between_all_transforms() -> None:
    prices = orders().filter(lambda order: order.number > 1, name="dear").group()
    assert panes_of(prices.map(lambda found: str(sum(order.price for order in found)), name="total")) == [
        "0.5"
    ]


def test_a_combiner_adds_to_what_it_has_kept() -> None:
    sums = orders().map(lambda order: order.price, name="price").sum()
    assert panes_of(sums.map(lambda total: f"{type(total).__name__} {total}", name="say")) == ["Decimal 0.6"]


def test_values_that_may_be_retracted_are_kept_as_they_are() -> None:
    early = orders().trigger(Repeat(AtCount(1))).accumulating_and_retracting()
    again = (
        early.top(1, key=_price)
        .flat_map(lambda found: found, name="each")
        .key_by(lambda _: "all", name="all")
        .group()
    )
    assert panes_of(again.map(lambda found: [str(order.price) for order in found], name="say"))[-1] == ["0.3"]


def _price(order: Order) -> Decimal:
    return order.price


def test_a_class_that_is_not_declared_is_named_with_its_transform() -> None:
    made = read("in", bounded=True).map(lambda number: Order(number, Decimal(number))).group()
    with pytest.raises(CodecError, match="declare with_types\\(Order\\)"):
        panes_of(made)
