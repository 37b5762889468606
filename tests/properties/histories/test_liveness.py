"""A History of records is judged for liveness: what stands, what is silent, what is late; what is sound is left alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import SECOND
from headrace.histories import HistoryReader
from headrace_properties.histories.file_judge import FileJudge
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

Lines = list[dict[str, Any]]
END = {"type": "end"}


def header(source: dict[str, Any] | None = None, stage: dict[str, Any] | None = None) -> dict[str, Any]:
    """A source writes readings, and a stage sums them by windows."""
    sources = [{"name": "meters", "outputs": ["readings"], **(source or {})}]
    stages = [{"name": "windows", "inputs": ["readings"], "outputs": ["sums"], **(stage or {})}]
    graph = {"sources": sources, "stages": stages}
    return {
        "format": "headrace-history",
        "version": 1,
        "tells": "records",
        "pipeline": "sums",
        "graphs": [graph],
    }


def sent(second: int, process: str = "meter-0", stage: str = "meters", **more: Any) -> dict[str, Any]:
    name = f"{process}/{second}" if stage == "meters" else f"{stage}/{second}"
    return {
        "type": "out",
        "process": process,
        "stage": stage,
        "id": name,
        "key": "k",
        "timestamp": second * SECOND,
    } | more


def taken(second: int, sender: str = "meter-0", process: str = "worker", **more: Any) -> dict[str, Any]:
    line = {"type": "in", "process": process, "stage": "windows", "id": f"{sender}/{second}", "key": "k"}
    return line | {"timestamp": second * SECOND} | more


def said(second: int, process: str = "meter-0", stage: str = "meters") -> dict[str, Any]:
    return {"type": "watermark", "process": process, "stage": stage, "timestamp": second * SECOND}


def worker(second: int, process: str = "worker") -> dict[str, Any]:
    return said(second, process, "windows")


def summed(second: int) -> dict[str, Any]:
    return sent(second, "worker", "windows")


def passing(
    first: int, last: int, sender: str = "meter-0", process: str = "worker"
) -> Iterator[dict[str, Any]]:
    """A record each second: sent, promised by its source, and processed."""
    for second in range(first, last):
        yield from (sent(second, sender), said(second, sender), taken(second, sender, process))


def healthy(first: int, last: int) -> Iterator[dict[str, Any]]:
    """The same with the stage's watermark, and a sum each five seconds."""
    for second in range(first, last):
        yield from passing(second, second + 1)
        if second % 5 == 4:
            yield summed(second)
        yield worker(second)


def judged(folder: Path, *lines: dict[str, Any]) -> dict[str, Verdict]:
    path = folder / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with HistoryReader(path) as reader:
        judge = FileJudge(reader.header, path)
        for number, line in reader.lines():
            judge.take(number, line)
    return judge.verdicts()


def questions(verdicts: dict[str, Verdict]) -> set[str]:
    assert not [name for name, verdict in verdicts.items() if isinstance(verdict, Violated)]
    return {name for name, verdict in verdicts.items() if isinstance(verdict, Unknown) and verdict.cut_short}


def why(verdict: Verdict) -> str:
    assert isinstance(verdict, Unknown)
    return verdict.why


def test_a_run_whose_watermark_follows_and_whose_sums_leave_holds(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, header(), *healthy(0, 20), END)
    assert not questions(verdicts)
    assert {name for name in ("H7", "H8", "H9") if isinstance(verdicts[name], Holds)} == {"H7", "H8", "H9"}


# A watermark that stands


STUCK = [summed(0), worker(0), *passing(1, 20), worker(0)]


def test_a_watermark_that_stands_while_its_inputs_go_on_is_a_question_that_names_its_last_move(
    tmp_path: Path,
) -> None:
    verdicts = judged(tmp_path, header(), *passing(0, 1), *STUCK, END)
    assert questions(verdicts) == {"H7"}
    assert "the watermark of 'windows' ('worker') stands at 0.000000s (line 6)" in why(verdicts["H7"])
    assert "its inputs have promised 19.000000s" in why(verdicts["H7"])


def test_a_watermark_that_moved_and_then_stands_is_a_question(tmp_path: Path) -> None:
    assert questions(judged(tmp_path, header(), *healthy(0, 10), *passing(10, 30), summed(20), END)) == {"H7"}


def test_a_watermark_that_stands_while_its_inputs_promise_more_is_a_question_without_any_record(
    tmp_path: Path,
) -> None:
    """What was processed before waits for it."""
    silent = [said(second) for second in range(10, 30)]
    verdicts = judged(tmp_path, header(), *healthy(0, 10), *silent, END)
    assert questions(verdicts) == {"H7"}
    assert "the watermark of 'windows' stands at 9.000000s (line 43): its inputs have promised 29" in why(
        verdicts["H7"]
    )
    follows = [line for second in range(10, 30) for line in (said(second), worker(second))]
    assert not questions(judged(tmp_path, header(), *healthy(0, 10), *follows, END))
    behind = judged(tmp_path, header(stage={"lag_us": SECOND}), *healthy(0, 10), *silent, END)
    assert isinstance(behind["H7"], Violated)


def reported(*promises: int) -> Iterator[dict[str, Any]]:
    """A record each second, with a sum of its own; the source says its watermark at these seconds only."""
    for second in range(26):
        yield from (sent(second), taken(second), summed(second))
        if second in promises:
            yield said(second)


def test_the_watermark_of_a_source_that_stands_while_its_records_go_on_is_a_question(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, header(), *reported(0), END)
    assert "the watermark of 'meters' ('meter-0') stands at 0.000000s (line 5)" in why(verdicts["H7"])
    assert not questions(judged(tmp_path, header(), *reported(9, 19), END)), "it says so seldom"


def test_a_process_of_a_source_that_says_no_more_is_named(tmp_path: Path) -> None:
    first = [sent(0, "meter-1"), said(0, "meter-1"), taken(0, "meter-1"), summed(0)]
    verdicts = judged(tmp_path, header(), *first, *passing(1, 20), worker(0), END)
    assert questions(verdicts) == {"H7"}
    assert "'meter-1' of source 'meters' has promised nothing beyond 0.000000s since line 3" in why(
        verdicts["H7"]
    )


def test_a_watermark_that_stands_after_all_inputs_have_ended_is_violated(tmp_path: Path) -> None:
    ended = {**said(0), "timestamp": 2**63 - 1}
    verdicts = judged(tmp_path, header(), *passing(0, 1), *STUCK, ended, END)
    assert isinstance(verdicts["H7"], Violated)
    assert "although all of its inputs have ended" in verdicts["H7"].message
    assert questions(judged(tmp_path, header(), *passing(0, 1), *STUCK, ended)) == {"S1", "H7"}


def test_a_watermark_that_stays_further_behind_than_declared_is_violated(tmp_path: Path) -> None:
    lines = [*passing(0, 1), *STUCK, END]
    assert isinstance(judged(tmp_path, header(stage={"lag_us": 5 * SECOND}), *lines)["H7"], Violated)
    assert not questions(judged(tmp_path, header(stage={"lag_us": 30 * SECOND}), *lines))


def test_an_idle_process_that_the_engine_leaves_out_holds_nothing(tmp_path: Path) -> None:
    first = [sent(0, "meter-1"), said(0, "meter-1"), taken(0, "meter-1"), summed(0)]
    assert not questions(judged(tmp_path, header(), *first, *healthy(1, 20), END))


def test_an_idle_source_and_a_long_pause_are_left_alone(tmp_path: Path) -> None:
    paused = [*healthy(0, 10), *(worker(9) for _ in range(50))]
    assert not questions(judged(tmp_path, header(), *paused, END))
    assert not questions(judged(tmp_path, header(), *paused, *healthy(5000, 5010), END))


def test_a_worker_that_was_replaced_is_left_alone(tmp_path: Path) -> None:
    """The first one takes records without moving its watermark, and dies; its successor goes on."""
    first = [worker(0, "first"), *passing(0, 6, process="first")]
    assert not questions(judged(tmp_path, header(), *first, *healthy(6, 20), END))


def test_a_process_may_tell_the_watermark_for_others(tmp_path: Path) -> None:
    def driven(*seconds: int) -> Iterator[dict[str, Any]]:
        for second in range(20):
            yield from passing(second, second + 1, process=f"executor-{second % 2}")
            yield summed(second)
            yield worker(second if second in seconds else 0, "driver")

    assert not questions(judged(tmp_path, header(), *driven(*range(20)), END))
    assert questions(judged(tmp_path, header(), *driven(), END)) == {"H7"}


def test_a_watermark_that_is_always_as_far_behind_is_left_alone(tmp_path: Path) -> None:
    lines = [
        line
        for second in range(10, 60)
        for line in (*passing(second, second + 1), summed(second), worker(second - 10))
    ]
    assert not questions(judged(tmp_path, header(), *lines, END))
    batches = [
        line for n in range(1, 6) for line in (*passing(9 * n, 9 * n + 9), summed(9 * n), worker(9 * n - 9))
    ]
    assert not questions(judged(tmp_path, header(), *batches, END))


# What goes in and does not come out


@pytest.mark.parametrize("stage", [{}, {"may_be_silent": True}, {"may_be_silent": False}])
def test_a_stage_that_sends_nothing_is_what_the_header_says_of_it(
    stage: dict[str, Any], tmp_path: Path
) -> None:
    silent = [line for second in range(10) for line in (*passing(second, second + 1), worker(second))]
    verdict = judged(tmp_path, header(stage=stage), *silent, END)["H8"]
    assert isinstance(verdict, {None: Unknown, True: Holds, False: Violated}[stage.get("may_be_silent")])
    told = getattr(verdict, "why", "") + getattr(verdict, "message", "")
    assert ("10 records on time (0.000000s to 9.000000s), and sent none on 'sums'" in told) is not isinstance(
        verdict, Holds
    )
    cut_off = judged(tmp_path, header(stage=stage), *silent)
    assert questions(cut_off) == ({"S1"} if stage.get("may_be_silent") else {"S1", "H8"})


def test_a_stage_that_falls_silent_is_a_question_and_one_that_seldom_sends_is_none(tmp_path: Path) -> None:
    silent = [line for second in range(20, 50) for line in (*passing(second, second + 1), worker(second))]
    assert questions(judged(tmp_path, header(), *healthy(0, 20), *silent, END)) == {"H8"}
    seldom = [*healthy(0, 5), *silent, summed(49), *healthy(50, 60)]
    assert not questions(judged(tmp_path, header(), *seldom, END))


# What is late


LATE = [*healthy(0, 10), sent(2, id="late"), taken(2, id="late", late=True)]


def test_a_record_behind_the_watermark_of_its_source_is_what_the_header_says_of_it(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, header(), *LATE, END)
    assert questions(verdicts) == {"H9"}
    assert "'meter-0' had promised 9.000000s when it sent it" in why(verdicts["H9"])
    assert not questions(judged(tmp_path, header({"watermark": "estimate"}), *LATE, END))
    broken = judged(tmp_path, header({"watermark": "promise"}), *LATE, END)["H9"]
    assert isinstance(broken, Violated)
    assert "sent record 'late' with timestamp 2.000000s, and had promised 9.000000s" in broken.message


def test_a_record_that_a_stage_further_down_drops_is_a_question_too(tmp_path: Path) -> None:
    """The stage in between passes on what it gets, and its watermark, so that the dropped record was not sent by a source."""
    top = header()
    top["graphs"][0]["stages"].insert(0, {"name": "parse", "inputs": ["raw"], "outputs": ["readings"]})
    top["graphs"][0]["sources"][0]["outputs"] = ["raw"]
    lines: Lines = []
    for line in LATE:
        if line["stage"] == "meters":
            parse = {"process": "parser", "stage": "parse"}
            more = [{**line, **parse, "type": "in"}] if line["type"] == "out" else []
            cause = {"cause": line["id"]} if more else {}
            lines += [line, *more, {**line, **parse, **cause}]
        else:
            lines.append(line)
    assert questions(judged(tmp_path, top, *lines, END)) == {"H9"}
    top["graphs"][0]["sources"][0]["watermark"] = "estimate"
    assert not questions(judged(tmp_path, top, *lines, END))


def test_a_late_record_of_a_source_that_tells_no_watermark_is_a_question(tmp_path: Path) -> None:
    lines = [line for line in LATE if line["type"] != "watermark"]
    assert questions(judged(tmp_path, header(), *lines, END)) == {"H9"}


def test_a_record_behind_its_source_that_nobody_drops_is_left_alone(tmp_path: Path) -> None:
    lines = [*LATE[:-1], taken(2, id="late")]
    assert not questions(judged(tmp_path, header(), *lines, END))


# A file that is cut off


def test_a_file_that_is_cut_off_is_a_question_and_its_waiting_records_are_not_lost(tmp_path: Path) -> None:
    lines = [*healthy(0, 10), sent(10), sent(11)]
    verdicts = judged(tmp_path, header(), *lines)
    assert questions(verdicts) == {"S1"}
    assert "2 of its records wait, first 'meter-0/10' (line 44) for stage 'windows'" in why(verdicts["S1"])
    assert isinstance(judged(tmp_path, header(), *lines, END)["S1"], Violated)
    rest = judged(tmp_path, header(), *healthy(0, 10))
    assert questions(rest) == {"S1"}
    assert "wait" not in why(rest["S1"])
