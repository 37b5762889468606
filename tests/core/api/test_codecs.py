"""Codecs (MillWheel 4.4): what goes in comes out, or an error says where it did not."""

import copy
import enum
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import BytesCodec, Codec, CodecError, JsonCodec, PickleCodec, ProtobufCodec, TypedCodec
from headrace.api import codecs as _codecs
from headrace.api.codecs import decode_at, encode_at, writes_json
from tests.core.driver import printed_elsewhere

json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@dataclass
class Click:
    query: str
    count: int


@dataclass
class Rate:
    value: float


class Message:
    """Like generated protocol buffer code, as far as the codec uses it."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def __repr__(self) -> str:  # in the names of tests, which must be the same in every process
        return f"Message({self.text!r})"

    def SerializeToString(self, *, deterministic: bool) -> bytes:  # noqa: N802  its name in protobuf
        assert deterministic, "equal messages must give equal bytes"
        return self.text.encode()

    @classmethod
    def FromString(cls, data: bytes) -> "Message":  # noqa: N802  its name in protobuf
        return cls(data.decode())


@given(json_like)
def test_json_like_values_come_back(value: object) -> None:
    codec = JsonCodec()
    assert codec.decode(codec.encode(value)) == value


def test_equal_json_values_give_equal_bytes_in_whatever_order_they_were_built() -> None:
    codec = JsonCodec()
    assert codec.encode({"b": 1, "a": {"d": 2, "c": 3}}) == codec.encode({"a": {"c": 3, "d": 2}, "b": 1})
    assert codec.encode({2: "b", 1: "a"}) == codec.encode({"1": "a", "2": "b"})


class Loud(JsonCodec):
    def encode(self, value: Any) -> bytes:
        return super().encode({"loud": value})

    def decode(self, data: bytes) -> Any:
        return JsonCodec.decode(self, data)["loud"]


class Marked(TypedCodec):
    def __init__(self, type_: Any, mark: bytes) -> None:
        super().__init__(type_)
        self.mark = mark

    def encode(self, value: Any) -> bytes:
        return self.mark + super().encode(value)

    def decode(self, data: bytes) -> Any:
        return super().decode(data.removeprefix(self.mark))


@pytest.mark.parametrize(
    ("codec", "data"), [(Loud(), b'{"loud":[1]}'), (Marked(list[int], b"#"), b"#[1]")], ids=["json", "typed"]
)
def test_a_subclass_of_a_codec_is_asked_also_when_it_was_copied(codec: Codec, data: bytes) -> None:
    for asked in (codec, copy.deepcopy(codec), pickle.loads(pickle.dumps(codec))):  # noqa: S301  our own
        assert asked.encode([1]) == data
        assert asked.decode(data) == [1]
        assert repr(asked).startswith(type(codec).__name__)
        assert not writes_json(asked)


def test_what_our_codecs_write_is_json_also_of_a_subclass_that_only_reads_otherwise() -> None:
    class Reads(JsonCodec):
        def decode(self, data: bytes) -> Any:
            return [super().decode(data)]

    json: list[Codec] = [JsonCodec(), TypedCodec(int), Reads()]
    assert [writes_json(codec) for codec in [*json, BytesCodec(), PickleCodec()]] == [True] * 3 + [False] * 2


def test_json_is_the_same_in_every_process() -> None:
    program = "from headrace import JsonCodec; print(JsonCodec().encode({'s': {'b', 'a', 'c'}, 'k': {3: 'x', 1: 'y'}}))"
    assert len(printed_elsewhere(program)) == 1


def test_tuples_come_back_as_lists_and_keys_as_strings() -> None:
    codec = JsonCodec()
    assert codec.decode(codec.encode({1: (2, 3)})) == {"1": [2, 3]}


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (JsonCodec(), {"7": True, 7: True}),
        (JsonCodec(), [{"of ann": Rate(cast("Any", {1: "x", "1": "y"}))}]),
        (TypedCodec(dict[int, int]), {7: 1, "7": 2}),
    ],
    ids=["alone", "deep", "typed"],
)
def test_two_keys_that_json_would_write_alike_are_refused(codec: Codec, value: object) -> None:
    with pytest.raises(CodecError, match="both keys"):
        encode_at("state of 'seen'", codec, value)


NO_NUMBERS = [
    float("nan"),
    -float("nan"),
    float("inf"),
    float("-inf"),
    struct.unpack(">d", b"\x7f\xf0" + bytes(5) + b"\1")[0],
]


@pytest.mark.parametrize("number", NO_NUMBERS, ids=["nan", "-nan", "inf", "-inf", "signalling nan"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda number: number,
        lambda number: {"rate": number, "city": None},
        lambda number: [None, ({"a": [number]},)],
        lambda number: {1: number},
        lambda number: {"rate": number, "big": 2**80},
        Rate,
    ],
    ids=["alone", "beside None", "deep", "key no str", "big integer", "dataclass"],
)
def test_a_float_that_json_cannot_carry_is_refused(wrap: Callable[[float], object], number: float) -> None:
    with pytest.raises(CodecError, match="JSON has no NaN or infinity"):
        encode_at("stream 'clicks'", JsonCodec(), wrap(number))


NOT_A_FLOAT = int.from_bytes(b"\xcb\x7f\xf0\0\0\0\0\0")


@pytest.mark.parametrize(
    "value",
    [
        None,
        "null",
        {"city": None, "rate": 1e308},
        [NOT_A_FLOAT, None],
        {"big": 2**80, "city": None},
        {1: None},
    ],
    ids=str,
)
def test_a_null_that_is_not_a_float_is_carried(value: object) -> None:
    data = JsonCodec().encode(value)
    assert b"null" in data
    assert data == JsonCodec().encode(JsonCodec().decode(data))


def test_nulls_are_not_searched_for_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most values with a None have no unencodable float, and must not pay for a search."""
    monkeypatch.setattr(_codecs, "_has_no_json", None)
    assert JsonCodec().encode({"city": None, "rates": [0.5, -1e300]}) == b'{"city":null,"rates":[0.5,-1e300]}'


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (JsonCodec(), {"a": [1]}),
        (TypedCodec(Click), Click("cat", 1)),
        (TypedCodec(list[int]), [1, 2]),
        (PickleCodec(), {"a": [1]}),
        (ProtobufCodec(Message), Message("cat")),
    ],
    ids=repr,
)
def test_each_decoding_gives_an_object_of_its_own(codec: Codec, value: object) -> None:
    data = codec.encode(value)
    assert codec.decode(data) is not codec.decode(data)
    assert codec.encode(codec.decode(data)) == data


@pytest.mark.parametrize(
    "codec",
    [
        JsonCodec(),
        TypedCodec(Click),
        TypedCodec(dict[str, int]),
        BytesCodec(),
        PickleCodec(),
        ProtobufCodec(Message),
    ],
    ids=repr,
)
def test_a_codec_survives_pickling(codec: Codec) -> None:
    assert repr(pickle.loads(pickle.dumps(codec))) == repr(codec)  # noqa: S301  our own bytes


def test_a_typed_value_that_does_not_fit_is_refused_when_written_and_its_field_is_named() -> None:
    with pytest.raises(CodecError) as caught:
        encode_at("stream 'clicks'", TypedCodec(Click), {"query": "cat", "count": "many"})
    assert "$.count" in caught.value.reason
    assert (caught.value.where, caught.value.codec) == ("stream 'clicks'", "TypedCodec(Click)")


def test_a_typed_value_that_does_not_fit_is_refused_when_read_and_its_field_is_named() -> None:
    with pytest.raises(CodecError) as caught:
        decode_at("state of 'counter'", TypedCodec(Click), b'{"query": 5, "count": 1}')
    assert "$.query" in caught.value.reason
    assert caught.value.action == "read"


@dataclass
class Visits:
    by_hour: dict[int, int]
    by_page: dict[str, Click]
    days: "Days"


@dataclass
class Days:
    clicks: dict[int, Click]


visits = st.builds(
    Visits,
    st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9), max_size=4),
    st.dictionaries(
        st.text(max_size=2), st.builds(Click, st.text(max_size=2), st.integers(0, 9)), max_size=4
    ),
    st.builds(Days, st.dictionaries(st.integers(-99, 2**40), st.builds(Click), max_size=4)),
)


@given(visits, st.randoms(use_true_random=False))
def test_dicts_with_int_keys_in_a_typed_value_come_back_and_their_order_does_not_count(
    value: Visits, random: Random
) -> None:
    codec = TypedCodec(Visits)

    def shuffled(of: dict[Any, Any]) -> dict[Any, Any]:
        return dict(random.sample([*of.items()], len(of)))

    same = Visits(shuffled(value.by_hour), shuffled(value.by_page), Days(shuffled(value.days.clicks)))
    data = codec.encode(value)
    assert codec.encode(same) == data
    assert codec.decode(data) == value


def test_a_part_of_a_subclass_is_put_in_order_although_the_type_does_not_tell_of_it() -> None:
    @dataclass
    class Page:
        name: str

    @dataclass
    class Tagged(Page):
        tags: set[str]

    codec = TypedCodec(dict[int, Page])
    data = codec.encode({1: Tagged("a", {"x", "y", "z", "q"})})
    assert data == b'{"1":{"name":"a","tags":["q","x","y","z"]}}'


class Phase(enum.Enum):
    NEW = "new"
    PAID = "paid"
    SENT = "sent"


@dataclass(frozen=True)
class Mark:
    phase: Phase
    note: str | None = None


class Order(msgspec.Struct, frozen=True):
    phases: frozenset[Phase]
    marks: set[Mark]
    by_day: dict[int, list[set[tuple[int, str | None]]]]


def test_sets_whose_elements_have_no_order_are_written_in_the_order_of_their_json() -> None:
    codec = TypedCodec(Order)
    marks = [Mark(Phase.SENT), Mark(Phase.NEW, "b"), Mark(Phase.NEW, "a")]
    value = Order(frozenset(Phase), {*marks}, {2: [{(1, None), (1, "x"), (0, None)}], 1: []})
    data = codec.encode(value)
    assert data == (
        b'{"by_day":{"1":[],"2":[[[0,null],[1,"x"],[1,null]]]},"marks":[{"note":"a","phase":"new"},'
        b'{"note":"b","phase":"new"},{"note":null,"phase":"sent"}],"phases":["new","paid","sent"]}'
    )
    assert codec.decode(data) == value
    assert codec.encode(Order(frozenset(reversed(Phase)), {*reversed(marks)}, value.by_day)) == data
    assert isinstance(value.marks, set), "the value stays as it is"


def test_what_json_cannot_write_is_refused_also_beside_such_a_set() -> None:
    with pytest.raises(TypeError, match="object is unsupported"):
        TypedCodec(dict[str, Any]).encode({"phases": {*Phase}, "other": object()})


def test_a_typed_value_is_encoded_as_it_is_and_not_as_its_class_would_make_it() -> None:
    @dataclass
    class Tally:
        made: int
        by_hour: dict[int, int]

        def __post_init__(self) -> None:
            self.made += 1

    value = Tally(0, {2: 1, 1: 1})
    assert TypedCodec(Tally).encode(value) == b'{"made":1,"by_hour":{"1":1,"2":1}}'
    assert value.by_hour == {2: 1, 1: 1}
    assert [*value.by_hour] == [2, 1]


def test_a_dict_with_int_keys_that_does_not_fit_is_refused_and_its_field_is_named() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$.by_hour\[...\]`"):
        TypedCodec(Visits).encode(Visits({1: "a"}, {}, Days({})))  # type: ignore[dict-item]


def test_a_float_that_json_cannot_carry_is_refused_in_a_dict_with_int_keys() -> None:
    with pytest.raises(ValueError, match="JSON has no NaN or infinity"):
        TypedCodec(dict[int, float]).encode({1: float("nan")})


def test_the_bytes_codec_accepts_only_bytes() -> None:
    assert encode_at("here", BytesCodec(), b"\0") == b"\0"
    with pytest.raises(CodecError, match="expected bytes, got str"):
        encode_at("here", BytesCodec(), "text")


class Broken:
    """A user's codec."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, data: bytes) -> Any:
        raise RuntimeError(data)

    def __repr__(self) -> str:
        return "Broken()"


def test_a_codec_that_does_not_give_bytes_is_named() -> None:
    with pytest.raises(CodecError) as caught:
        encode_at("stream 'clicks'", Broken(), "text")
    assert caught.value.args == ("stream 'clicks'", "Broken()", "write", "encode returned str, not bytes")


def test_a_codecs_error_is_reported_with_the_beginning_of_the_data() -> None:
    with pytest.raises(CodecError) as caught:
        decode_at("stream 'clicks'", Broken(), b"x" * 1_000)
    assert caught.value.reason.startswith("RuntimeError")
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(CodecError) as caught:
        encode_at("stream 'clicks'", JsonCodec(), [object()] * 1_000)
    assert len(str(caught.value)) < 400
