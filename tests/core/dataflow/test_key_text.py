"""Keys that are no text: what user code sees of them, what the engine does, and that no two of them are taken for one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME, SECOND, MalformedRecordError, Pipeline
from headrace.dataflow import (
    DataflowError,
    Element,
    FixedWindows,
    Flow,
    KeyContext,
    Window,
    flatten,
    key_of,
    read,
)
from headrace.dataflow.key_text import key_text
from headrace_properties.reference import run_reference
from headrace_properties.search.application import Application
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_sim import Feed, FeedBuilder

MARKED = st.text('="[]{}$1a,:', max_size=8).map(lambda text: f"={text}")
SIMPLE = (
    st.text(max_size=5)
    | MARKED
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.booleans()
    | st.none()
    | st.binary(max_size=4)
    | st.dates()
)
KEYS = st.recursive(
    SIMPLE,
    lambda parts: st.lists(parts, max_size=3).map(tuple) | st.frozensets(parts, max_size=3),
    max_leaves=5,
)


def typed(key: Any) -> Any:
    """A key with the types of its parts, which ``==`` does not tell apart."""
    if isinstance(key, tuple):
        return ("tuple", *map(typed, key))
    if isinstance(key, frozenset):
        return ("frozenset", frozenset(map(typed, key)))
    return (type(key).__name__, key)


@given(KEYS)
def test_a_key_comes_back_equal_and_of_the_same_types(key: Any) -> None:
    assert typed(key_of(key_text(key))) == typed(key)


@given(KEYS, KEYS)
def test_different_keys_have_different_texts(key: Any, other: Any) -> None:
    assert (key_text(key) == key_text(other)) == (typed(key) == typed(other))


@given(st.text(max_size=6) | MARKED)
def test_text_of_others_stands_for_one_key(text: str) -> None:
    assert key_text(key_of(text)) == text


@pytest.mark.parametrize(
    "text", ["=", "=x", "= 7", "=1.5", "=[1, 2]", '={"a":1}', "=nul", '="a"', "=1e3", "=\ud800"]
)
def test_text_that_no_key_is_written_as_stands_for_itself(text: str) -> None:
    assert key_of(text) == text


@pytest.mark.parametrize(
    "key",
    [1.5, [1], {1}, {"a": 1}, 2**63, ("a", [1]), frozenset({1.0}), object, "\ud800", ("\ud800",)],
    ids=repr,
)
def test_what_cannot_be_a_key_is_refused(key: Any) -> None:
    flow = read("orders").key_by(lambda _: key).to("out")
    with pytest.raises(DataflowError, match=r"returned .* as a key. Return a str, int, bool"):
        outputs(flow)
    with pytest.raises(MalformedRecordError, match=r"key extractor .*: returned "):
        outputs(read("orders", key=lambda _: key).window_into(FixedWindows(SECOND)).count().to("out"))


ORDERS = [("de", 7, 10), ("de", 7, 5), ("fr", 7, 2), ("de", 8, 1), ("=7", 7, 3)]
"""Country, shop, amount."""


def feed_of(pipeline: Pipeline) -> Feed:
    builder = FeedBuilder(pipeline)
    for at, (country, shop, amount) in enumerate(ORDERS):
        value = {"country": country, "shop": shop, "amount": amount}
        builder.record(at_us=at * SECOND, stream="orders", key="k", value=value, timestamp=at)
    builder.watermark(at_us=9 * SECOND, low_watermark=MAX_TIME)
    return builder.build()


def outputs(flow: Flow) -> Counter[tuple[Any, Any]]:
    """(key, value) of what goes out."""
    pipeline = flow.pipeline("shop")
    made = run_reference(pipeline, feed_of(pipeline)).outputs
    found: Counter[tuple[Any, Any]] = Counter()
    for one, count in made.items():
        value = pipeline.codec(one.stream).decode(one.value)
        found[key_of(one.key), getattr(value, "value", value)] += count
    return found


def place(order: Any) -> tuple[str, int]:
    return order["country"], order["shop"]


def amounts(order: Any) -> Any:
    return order["amount"]


SUMS = Counter([(("de", 7), 15), (("fr", 7), 2), (("de", 8), 1), (("=7", 7), 3)])


def test_keys_of_a_source_and_of_a_function_are_grouped_by() -> None:
    windows = FixedWindows(SECOND)
    assert outputs(read("orders").key_by(place).map(amounts).window_into(windows).sum().to("out")) == SUMS
    sourced = read("orders", key=lambda record: place(record.value)).map(amounts).window_into(windows).sum()
    assert outputs(sourced.to("out")) == SUMS
    again = sourced.key_by(lambda key, _: key[1], with_key=True).sum().to("out")
    assert outputs(again) == Counter([(7, 20), (8, 1)])


def test_functions_see_the_key_itself() -> None:
    keyed = read("orders").key_by(place)

    def swapped(element: Element) -> Iterable[tuple[Any, Any]]:
        country, shop = element.key
        return [((shop, country), element.value["amount"])]

    expected = Counter(((shop, country), amount) for country, shop, amount in ORDERS)
    assert outputs(keyed.par_do(swapped).to("out")) == expected
    tagged = keyed.par_do_tagged(lambda element: [("a", *pair) for pair in swapped(element)], "a")["a"]
    assert outputs(tagged.to("out")) == expected
    assert outputs(keyed.flat_map(lambda key, _: [key[0]], with_key=True).filter(lambda key, _: key[1] == 8, with_key=True).to("out")) == Counter([(("de", 8), "de")])  # fmt: skip  # noqa: E501


class Running:
    def initial_state(self) -> Any:
        return 0

    def process(self, context: KeyContext, element: Element) -> Iterable[tuple[Any, Any]]:
        assert context.key == element.key == (element.value["country"], element.value["shop"])
        context.state += element.value["amount"]
        context.set_timer("end", SECOND)
        return ()

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> Iterable[tuple[Any, Any]]:
        return [((*context.key, tag), context.state)]


def test_state_and_timers_are_by_key() -> None:
    flow = read("orders").key_by(place).par_do_stateful(Running()).to("out")
    assert outputs(flow) == Counter({((*key, "end"), value): count for (key, value), count in SUMS.items()})


def test_a_function_that_returns_no_key_is_named() -> None:
    class Wrong(Running):
        def on_timer(self, context: KeyContext, tag: str, time_us: int) -> Iterable[tuple[Any, Any]]:
            return [([*context.key], 1)]

    flow = read("orders").key_by(place).par_do_stateful(Wrong()).to("out")
    with pytest.raises(DataflowError, match=r"key \('.*on_timer returned .*where the key is a str, int"):
        outputs(flow)


def test_sides_are_met_by_key() -> None:
    keyed = read("orders").key_by(place).map(amounts)
    sums = keyed.window_into(FixedWindows(1)).sum()
    late = keyed.with_time(lambda _: 9)
    assert outputs(late.enrich(sums, lambda amount, last: amount == last).to("out"))[("de", 7), False] == 1
    flow = late.side_input(sums, lambda _, known: known[("de", 8)]).to("out")
    assert outputs(flow) == Counter({(key, 1): 1 for key, _ in SUMS} | {(("de", 7), 1): 2})


class ByShop:
    """Windows of a second per number of shop, from the key."""

    def assign_windows(self, element: Element) -> Iterable[Window]:
        return [Window(0, element.key[1] * SECOND)]

    def merge_windows(self, windows: Sequence[Window]) -> Iterable[Window]:
        return windows


def test_a_users_windows_see_the_key() -> None:
    keyed = read("orders").key_by(place).map(amounts)
    assert outputs(keyed.window_into(ByShop()).sum().to("out")) == SUMS


def test_keys_survive_faults() -> None:
    keyed = flatten(read("orders").key_by(place), read("orders").key_by(lambda order: order["shop"]))
    flow = keyed.map(amounts).window_into(FixedWindows(SECOND)).sum().to("out")
    pipeline = flow.pipeline("shop")
    found = search(Steering(Application.with_input(pipeline, feed_of(pipeline))), examples=25)
    assert found.failure is None
    assert outputs(flow) == SUMS + Counter([(7, 20), (8, 1)])
