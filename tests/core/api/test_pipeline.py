"""The topology (MillWheel 2, 3, Figure 3): what is read from a consistent graph, and how an inconsistent one is refused."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from random import Random
from typing import Any, TypedDict

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import (
    BytesCodec,
    Codec,
    CodecError,
    Computation,
    CycleError,
    DeadLetter,
    DuplicateNameError,
    EngineOptions,
    HeadraceError,
    JsonCodec,
    NoSourceError,
    OptionsError,
    PickleCodec,
    Pipeline,
    PipelineError,
    Productions,
    Record,
    Stop,
    TypedCodec,
    UnknownStreamError,
    same_key,
)
from headrace.api.specs import OUTSIDE
from tests.core.driver import counter


def by_query(record: Record) -> str:
    """A key extractor."""
    return str(record.value["query"])


def zeitgeist() -> Pipeline:
    """Figure 1: queries are counted in windows, modelled, and spikes found; the model also takes a second feed."""
    pipeline = Pipeline("zeitgeist")
    pipeline.injector("queries")
    pipeline.injector("hints", processes=3, skew_limit_us=5, on_malformed=DeadLetter("bad hints"))
    pipeline.stream("counts", BytesCodec())
    pipeline.add(Computation(), name="spikes", inputs=["models"], outputs=["alerts"])
    pipeline.add(Computation(), name="modeller", inputs=["counts", "hints"], outputs=["models"])
    pipeline.add(
        Computation(),
        name="windows",
        inputs={"queries": by_query},
        outputs=["counts"],
        on_failure=DeadLetter("dead"),
    )
    return pipeline


def test_computations_come_in_topological_order() -> None:
    assert list(zeitgeist().computations) == ["windows", "modeller", "spikes"]


def test_every_stream_is_known_and_unconsumed_ones_go_outside() -> None:
    pipeline = zeitgeist()
    assert pipeline.streams == ("alerts", "bad hints", "counts", "dead", "hints", "models", "queries")
    assert pipeline.output_streams == ("alerts", "bad hints", "dead")
    assert pipeline.consumers("alerts") == ((OUTSIDE, same_key),)


def test_the_consumer_names_the_key_extractor() -> None:
    pipeline = zeitgeist()
    assert pipeline.consumers("queries") == (("windows", by_query),)
    assert pipeline.consumers("counts") == (("modeller", same_key),)


def test_a_stream_may_have_several_consumers_and_producers() -> None:
    pipeline = zeitgeist()
    pipeline.add(Computation(), name="archive", inputs=["counts", "queries"], outputs=["models"])
    assert [name for name, _ in pipeline.consumers("counts")] == ["archive", "modeller"]
    assert pipeline.senders("spikes") == ("archive", "modeller")


def test_senders_are_the_direct_ones_and_upstream_are_all() -> None:
    pipeline = zeitgeist()
    assert pipeline.senders("modeller") == ("hints", "windows")
    assert pipeline.upstream("spikes") == ("hints", "modeller", "queries", "windows")


def test_dead_letters_are_a_stream_like_others() -> None:
    pipeline = zeitgeist()
    pipeline.add(Computation(), name="undertaker", inputs=["dead", "bad hints"])
    assert pipeline.senders("undertaker") == ("hints", "windows")
    assert pipeline.computations["windows"].outputs == ("counts",), (
        "but not one that user code may produce to"
    )


def test_edges_name_their_streams() -> None:
    pipeline = zeitgeist()
    pipeline.add(Computation(), name="undertaker", inputs=["dead", "counts"])
    assert pipeline.graph.edges["windows", "undertaker"] == {"streams": ("dead", "counts")}


@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_and_neighbors_are_those_of_the_graph(inputs: list[set[int]], random: Random) -> None:
    """Node 0 is the injector; each computation consumes what some before it output. They are added in any order."""
    pipeline = Pipeline("p")
    pipeline.injector("n0")
    names = list(range(1, len(inputs) + 1))
    random.shuffle(names)
    for number in names:
        sources = sorted({source for source in inputs[number - 1] if source < number} or {0})
        streams = [f"n{source}" for source in sources]
        pipeline.add(Computation(), name=f"n{number}", inputs=streams, outputs=[f"n{number}"])
    graph = pipeline.graph
    order = list(nx.lexicographical_topological_sort(graph))
    assert list(pipeline.computations) == [name for name in order if name != "n0"]
    for name in graph:
        assert pipeline.receivers(name) == tuple(graph.successors(name))
        assert pipeline.upstream(name) == tuple(sorted(nx.ancestors(graph, name)))
    for name in pipeline.computations:
        assert pipeline.senders(name) == tuple(sorted(graph.predecessors(name)))


def test_no_process_imports_networkx_to_run_a_pipeline() -> None:
    code = "import sys, headrace_scenarios.zeitgeist as z; z.pipeline.validate(); sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_streams_without_a_codec_carry_json() -> None:
    pipeline = zeitgeist()
    assert isinstance(pipeline.codec("counts"), BytesCodec)
    assert isinstance(pipeline.codec("alerts"), JsonCodec)
    assert isinstance(pipeline.computations["windows"].output_codecs["counts"], BytesCodec)


def test_an_injector_has_a_stream_of_its_own_name_one_process_and_no_limit() -> None:
    spec = zeitgeist().injectors["queries"]
    assert (spec.outputs, spec.addresses(), spec.skew_limit_us, spec.on_malformed) == (
        ("queries",), ["queries/0"], None, Stop(),
    )  # fmt: skip


def test_each_process_of_an_injector_is_expected() -> None:
    assert zeitgeist().injectors["hints"].addresses() == ["hints/0", "hints/1", "hints/2"]


def test_the_default_switches_are_the_safe_ones() -> None:
    spec = zeitgeist().computations["spikes"]
    assert (spec.productions, spec.exactly_once, spec.watermark_percentile, spec.on_failure, spec.split_at) == (
        Productions.STRONG, True, 100.0, Stop(), (),
    )  # fmt: skip


def test_splits_are_sorted_and_each_counts_once() -> None:
    pipeline = zeitgeist()
    pipeline.add(Computation(), name="archive", inputs=["counts"], split_at=["t", "", "f", "t"])
    assert pipeline.computations["archive"].split_at == ("f", "t")


def test_a_change_after_reading_is_seen_and_checked_again() -> None:
    pipeline = zeitgeist()
    pipeline.validate()
    pipeline.add(Computation(), name="lost", inputs=["nothing"])
    with pytest.raises(UnknownStreamError):
        pipeline.validate()


def test_removing_a_computation_leaves_the_rest_unchanged() -> None:
    pipeline = zeitgeist()
    pipeline.add(Computation(), name="archive", inputs=["counts"], outputs=["archived"])
    smaller = pipeline.without("archive")
    assert list(smaller.computations) == ["windows", "modeller", "spikes"]
    assert smaller.consumers("queries") == pipeline.consumers("queries")
    assert "archive" in pipeline.computations


def test_a_computation_can_be_removed_together_with_a_stream_that_has_a_codec() -> None:
    pipeline = zeitgeist()
    pipeline.stream("archived", BytesCodec())
    pipeline.add(Computation(), name="archive", inputs=["counts"], outputs=["archived"])
    pipeline.without("archive").validate()


def test_a_copy_is_changed_on_its_own() -> None:
    pipeline = zeitgeist()
    other = pipeline.copy()
    other.add(Computation(), name="archive", inputs=["counts"])
    other.stream("models", BytesCodec())
    assert "archive" not in pipeline.computations
    assert isinstance(pipeline.codec("models"), JsonCodec)
    assert isinstance(other.codec("counts"), BytesCodec)
    assert other.name == pipeline.name


def test_switches_can_be_changed_in_a_copy() -> None:
    pipeline = zeitgeist()
    other = pipeline.with_computation(
        "windows", productions=Productions.WEAK, exactly_once=False, split_at=["m", "a"]
    )
    spec = other.computations["windows"]
    assert (spec.productions, spec.exactly_once, spec.split_at) == (Productions.WEAK, False, ("a", "m"))
    assert pipeline.computations["windows"].productions is Productions.STRONG
    assert other.consumers("queries") == pipeline.consumers("queries")


def test_the_initial_state_is_encoded_once() -> None:
    assert zeitgeist().computations["windows"].initial_state == b"{}"


def test_a_pipeline_of_named_functions_pickles() -> None:
    again = pickle.loads(pickle.dumps(zeitgeist()))  # noqa: S301  our own bytes
    assert list(again.computations) == list(zeitgeist().computations)
    assert again.consumers("queries") == (("windows", by_query),)


# A graph that does not fit


def base() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.injector("feed", outputs=["clicks"])
    return pipeline


def unknown_stream(pipeline: Pipeline) -> None:
    pipeline.add(Computation(), name="counter", inputs=["clocks"])


def unknown_codec_stream(pipeline: Pipeline) -> None:
    pipeline.stream("clocks", BytesCodec())


def circle(pipeline: Pipeline) -> None:
    pipeline.add(Computation(), name="a", inputs=["clicks", "z"], outputs=["x"])
    pipeline.add(Computation(), name="b", inputs=["x"], outputs=["y"])
    pipeline.add(Computation(), name="c", inputs=["y"], outputs=["z"])


def own_tail(pipeline: Pipeline) -> None:
    pipeline.add(Computation(), name="a", inputs=["clicks", "x"], outputs=["x"])


def own_dead_letters(pipeline: Pipeline) -> None:
    pipeline.add(Computation(), name="a", inputs=["clicks", "dead"], on_failure=DeadLetter("dead"))


class RecordLetter(TypedDict):
    """A computation's dead letter, if timers never failed."""

    cause: str
    value_base64: str


def dead_letters_as_bytes(pipeline: Pipeline) -> None:
    pipeline.stream("dead", BytesCodec())
    pipeline.add(Computation(), name="a", inputs=["clicks"], on_failure=DeadLetter("dead"))


def dead_letters_as_numbers(pipeline: Pipeline) -> None:
    pipeline.stream("dead", TypedCodec(dict[str, int]))
    pipeline.injector("other", on_malformed=DeadLetter("dead"))


def dead_letters_without_timers(pipeline: Pipeline) -> None:
    pipeline.stream("dead", TypedCodec(RecordLetter))
    pipeline.add(Computation(), name="a", inputs=["clicks"], on_failure=DeadLetter("dead"))


@pytest.mark.parametrize(
    "codec", [JsonCodec(), PickleCodec(), TypedCodec(dict[str, Any])], ids=lambda codec: type(codec).__name__
)
def test_dead_letters_may_have_any_codec_that_carries_them(codec: Codec) -> None:
    pipeline = Pipeline("p")
    pipeline.stream("dead", codec)
    pipeline.injector("clicks", on_malformed=DeadLetter("dead"))
    pipeline.add(Computation(), name="a", inputs=["clicks"], on_failure=DeadLetter("dead"))
    pipeline.validate()


def island(pipeline: Pipeline) -> None:
    pipeline.add(Computation(), name="island", inputs=[], outputs=["x"])
    pipeline.add(Computation(), name="after", inputs=["x"])


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (
            unknown_stream,
            UnknownStreamError,
            ["'p'", "'counter'", "'clocks'", "'clicks'", "Add an injector or an output"],
        ),
        (unknown_codec_stream, UnknownStreamError, ["'p'", "'clocks'", "Remove the codec"]),
        (circle, CycleError, ["'p'", "a -> b -> c -> a", "Break the cycle"]),
        (own_tail, CycleError, ["a -> a"]),
        (own_dead_letters, CycleError, ["a -> a"]),
        (
            dead_letters_as_bytes,
            PipelineError,
            [
                "'p'",
                "stream 'dead' receives the dead letters of 'a'",
                "BytesCodec() cannot write",
                "got dict",
                "a codec that",
            ],
        ),
        (dead_letters_as_numbers, PipelineError, ["of 'other'", "TypedCodec(", "Expected `int`, got `str`"]),
        (dead_letters_without_timers, PipelineError, ["of 'a'", "$.value_base64", "got `null`"]),
        (island, NoSourceError, ["'p'", "'island'", "Give it an input"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_graph_that_does_not_fit_is_refused_as_a_whole(
    build: Callable[[Pipeline], None], error: type[PipelineError], words: list[str]
) -> None:
    pipeline = base()
    build(pipeline)
    with pytest.raises(error) as caught:
        pipeline.validate()
    assert type(caught.value) is error
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_pipeline_without_injector_has_no_source() -> None:
    with pytest.raises(NoSourceError, match=r"'p': it has no injector. Add one with injector\(name\)"):
        Pipeline("p").validate()


@pytest.mark.parametrize("read", ["computations", "injectors", "streams", "graph", "output_streams"])
def test_a_graph_is_checked_before_anything_is_read_from_it(read: str) -> None:
    with pytest.raises(NoSourceError):
        getattr(Pipeline("p"), read)


@pytest.mark.parametrize(
    "again",
    [
        lambda pipeline: pipeline.injector("feed"),
        lambda pipeline: pipeline.add(Computation(), name="feed", inputs=["clicks"]),
        lambda pipeline: pipeline.add(Computation(), name="counter", inputs=["clicks"]),
        lambda pipeline: pipeline.injector("counter"),
    ],
    ids=["two injectors", "computation as injector", "two computations", "injector as computation"],
)
def test_duplicate_names_are_refused(again: Callable[[Pipeline], None]) -> None:
    pipeline = base()
    pipeline.add(Computation(), name="counter", inputs=["clicks"])
    with pytest.raises(
        DuplicateNameError, match=r"the name '(feed|counter)' is used twice\. Give each node its own"
    ):
        again(pipeline)


def test_a_stream_has_one_codec() -> None:
    pipeline = base()
    pipeline.stream("clicks", BytesCodec())
    with pytest.raises(DuplicateNameError, match="'clicks' already has a codec"):
        pipeline.stream("clicks", BytesCodec())


@pytest.mark.parametrize("name", ["", "a/b", "a@b", "a#b"])
def test_names_used_in_ids_contain_no_separators(name: str) -> None:
    for add in (base().injector, lambda name: base().add(Computation(), name=name, inputs=["clicks"])):
        with pytest.raises(OptionsError) as caught:
            add(name)
        assert (caught.value.option, caught.value.value) == ("name", name)


def test_a_missing_computation_cannot_be_changed_or_removed() -> None:
    with pytest.raises(PipelineError, match="no computation 'counter' to remove"):
        base().without("counter")
    with pytest.raises(PipelineError, match="no computation 'counter' to change"):
        base().with_computation("counter", exactly_once=False)


# Options out of range


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"retry_us": 0}, "retry_us"),
        ({"heartbeat_timeout_us": -5}, "heartbeat_timeout_us"),
        ({"commit_batch": 0}, "commit_batch"),
        ({"cache_bytes": -1}, "cache_bytes"),
        ({"bloom_error": 0.0}, "bloom_error"),
        ({"bloom_error": 1.0}, "bloom_error"),
        ({"overload": 1.0}, "overload"),
        ({"overload": float("nan")}, "overload"),
        ({"merge_load": 11, "split_load": 10}, "merge_load"),
        ({"masters": 0}, "masters"),
        ({"authority_shards": 0}, "authority_shards"),
        pytest.param(
            {"retry_us": 0.0},
            "retry_us",
        ),
        pytest.param(
            {"lease_us": None},
            "lease_us",
        ),
        pytest.param(
            {"eviction": "boundary"},
            "eviction",
        ),
    ],
    ids=str,
)
def test_an_engine_option_out_of_range_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionsError) as caught:
        EngineOptions(**options)
    assert (caught.value.option, caught.value.value) == (named, options[named])
    assert f"option {named}={options[named]!r}: expected " in str(caught.value)


@pytest.mark.parametrize(
    "option", ["cache_bytes", "merge_load", "balance_period_us", "id_slack_us", "delete_delay_us"]
)
def test_options_for_which_zero_means_never_take_it(option: str) -> None:
    options: dict[str, Any] = {option: 0}
    assert getattr(EngineOptions(**options), option) == 0


@pytest.mark.parametrize(
    ("switches", "named"),
    [
        ({"watermark_percentile": 0.0}, "watermark_percentile"),
        ({"watermark_percentile": 100.5}, "watermark_percentile"),
        ({"watermark_percentile": float("nan")}, "watermark_percentile"),
        ({"watermark_percentile": "90"}, "watermark_percentile"),
        ({"watermark_percentile": True}, "watermark_percentile"),
        ({"inputs": "clicks"}, "inputs"),
        ({"inputs": [""]}, "inputs"),
        ({"inputs": [5]}, "inputs"),
        ({"inputs": {"clicks": "user"}}, "inputs"),
        pytest.param({"inputs": {"": by_query}}, "inputs", id="an input without a name"),
        ({"inputs": 5}, "inputs"),
        ({"inputs": None}, "inputs"),
        ({"outputs": ["counts", ""]}, "outputs"),
        ({"outputs": [5]}, "outputs"),
        ({"split_at": [5]}, "split_at"),
        ({"state_codec": JsonCodec}, "state_codec"),
        ({"state_codec": "json"}, "state_codec"),
        ({"on_failure": ""}, "on_failure"),
        ({"on_failure": DeadLetter}, "on_failure"),
        ({"name": None}, "name"),
        ({"name": 5}, "name"),
        ({"outputs": "counts"}, "outputs"),
        ({"split_at": "m"}, "split_at"),
        ({"share_state": 1}, "share_state"),
        ({"share_state": True}, "share_state"),
        ({"share_state": True, "state_codec": PickleCodec()}, "share_state"),
        ({"share_state": True, "migrate": [dict]}, "share_state"),
        pytest.param(
            {"productions": "strong"},
            "productions",
        ),
        pytest.param(
            {"on_failure": "dead"},
            "on_failure",
        ),
    ],
    ids=str,
)
def test_a_computations_switch_out_of_range_is_named(switches: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionsError) as caught:
        base().add(Computation(), **{"name": "counter", "inputs": ["clicks"], **switches})
    assert caught.value.option == named


@pytest.mark.parametrize("name", ["", None, 5], ids=str)
def test_a_pipeline_and_its_streams_have_names(name: Any) -> None:
    wanted: dict[str, Callable[[], object]] = {
        "name": lambda: Pipeline(name),
        "stream": lambda: base().stream(name, JsonCodec()),
        "DeadLetter": lambda: DeadLetter(name),
    }
    for option, define in wanted.items():
        with pytest.raises(OptionsError) as caught:
            define()
        assert (caught.value.option, caught.value.value) == (option, name)


@pytest.mark.parametrize("codec", [JsonCodec, "json", None], ids=["class", "name", "none"])
def test_a_streams_codec_is_an_object_that_encodes_and_decodes(codec: Any) -> None:
    with pytest.raises(OptionsError, match=r"codec=.*expected an object with encode and decode"):
        base().stream("clicks", codec)


def test_a_class_in_place_of_an_object_is_named() -> None:
    with pytest.raises(HeadraceError, match="counter"):
        base().add(Computation, name="counter", inputs=["clicks"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("switches", "named"),
    [
        ({"processes": 0}, "processes"),
        ({"processes": True}, "processes"),
        ({"processes": 1.5}, "processes"),
        ({"processes": "2"}, "processes"),
        ({"skew_limit_us": -1}, "skew_limit_us"),
        ({"skew_limit_us": 1.5}, "skew_limit_us"),
        ({"skew_limit_us": "1s"}, "skew_limit_us"),
        ({"on_malformed": "dead"}, "on_malformed"),
        ({"on_malformed": DeadLetter}, "on_malformed"),
        ({"on_malformed": ""}, "on_malformed"),
        ({"outputs": [""]}, "outputs"),
        ({"outputs": []}, "outputs"),
        ({"outputs": "clicks"}, "outputs"),
    ],
    ids=str,
)
def test_an_injectors_switch_out_of_range_is_named(switches: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionsError) as caught:
        Pipeline("p").injector("feed", **switches)
    assert caught.value.option == named


def test_switches_that_are_changed_are_checked_too() -> None:
    pipeline = counter()
    with pytest.raises(OptionsError, match="watermark_percentile"):
        pipeline.with_computation("counter", watermark_percentile=0)
    with pytest.raises(OptionsError, match="inputs"):
        pipeline.with_computation("counter", inputs=["clicks"])
    for unknown in ("productionz", "initial_state", "output_codecs"):
        with pytest.raises(OptionsError, match=f"{unknown}.*exactly_once.*productions"):
            pipeline.with_computation("counter", **{unknown: None})


class Tuples(Computation):
    def initial_state(self) -> Any:
        return (1, 2)


class Sets(Computation):
    def initial_state(self) -> Any:
        return object()


@pytest.mark.parametrize(
    ("computation", "words"),
    [(Tuples(), "tuple comes back as list"), (Sets(), "cannot write")],
    ids=["comes back as something else", "cannot be written"],
)
def test_an_initial_state_that_its_codec_cannot_carry_is_refused_at_once(
    computation: Computation, words: str
) -> None:
    with pytest.raises(CodecError, match=f"initial state of 'counter'.*{words}"):
        base().add(computation, name="counter", inputs=["clicks"])
