"""The page of two compared runs: who did what, the tables behind each step, and both outcomes, from the explanation alone."""

import json
from typing import Any

from headrace_properties.explain.pictures.compared_runs import compared_html
from headrace_properties.explanation import Explanation, Run, RunStep, StepKind, Tables

EVIL = "</script><b>\x1b[1m"
ANN, BOB = (("account", "'ann'"), ("amount", "7")), (("account", "'bob'"), ("amount", "2"))


def _paid(*rows: tuple[tuple[str, str], ...]) -> Tables:
    return {"bank.db: paid": rows}


def _insert(driver: int, tables: Tables | None = None, *, batch: int = 0, again: bool = False) -> RunStep:
    by = f"driver {driver}"
    text = f"{by}, batch {batch}: INSERT INTO paid on bank.db: paid  (stream.py:12)"
    return RunStep(text, StepKind.WRITE, by, "bank.db: paid", again=again, tables=tables)


CALM = Run("Undisturbed", (_insert(1), _insert(1, batch=1)), ("paid has 2",), _paid(ANN, BOB))
DIED = RunStep(
    "the driver died", StepKind.FAULT, "driver 1", details=("  then paid has 1",), tables=_paid(ANN)
)
STRUCK = Run(
    "Under the fault",
    (_insert(1, _paid(ANN)), DIED, _insert(2, _paid(ANN, ANN), again=True), _insert(2, _paid(ANN, ANN, BOB), batch=1)),
    ("paid has 3",),
    _paid(ANN, ANN, BOB),
)  # fmt: skip
TWICE = Explanation((CALM, STRUCK), (), ("paid has (ann, 7) once more than it should",))


def _page(explanation: Explanation | None, **changed: Any) -> str:
    words = {
        "title": "stream:write",
        "said": ("each row exactly once (twice)", "stream.py:12: Keep the batch id."),
    }
    return compared_html(explanation, **(words | changed))


def _data(page: str) -> Any:
    return json.loads(page.split('id="data">', 1)[1].split("</script>", 1)[0])


def _view(data: Any, name: str) -> Any:
    return next(view for view in data["verdicts"] if view["name"] == name)


def test_both_drivers_have_a_lane_and_write_to_that_of_the_store_until_one_is_dead() -> None:
    data = _data(_page(TWICE))
    lanes = [lane["address"] for lane in data["lanes"]]
    assert lanes == ["undisturbed", "driver 1", "driver 2", "bank.db"]
    told = _view(data, data["told"])
    events = {number: data["events"][number] for number in told["subject"]}
    assert (told["name"], [lanes[event["lane"]] for event in events.values()]) == (
        "Under the fault",
        ["driver 1", "driver 1", "driver 2", "driver 2"],
    )
    dead = next(number for number, event in events.items() if event["group"] == "fault")
    assert data["outages"] == [{"lane": 1, "kind": "dead", "begin": dead, "end": None, "strikes": 1}]
    assert [[number, lanes[lane], kind] for number, lane, kind in data["stubs"]] == [
        [number, "bank.db", "writes"] for number in events if number != dead
    ]


def test_rows_that_came_or_should_not_be_there_are_marked_behind_each_step() -> None:
    data = _data(_page(TWICE))
    marks = [
        [row["mark"] for row in table["rows"]]
        for number in _view(data, "Under the fault")["subject"]
        for table in data["tables"][str(number)]
    ]
    assert marks == [["new"], [""], ["", "wrong"], ["", "wrong", "new"]]
    assert data["tables"]["1"][0]["columns"] == ["account", "amount"]


def test_story_tells_the_fault_what_is_done_again_and_the_first_wrong_row_with_links() -> None:
    told = _view(_data(_page(TWICE)), "Under the fault")
    again = "Driver 2: batch 0: INSERT INTO paid on bank.db: paid  (stream.py:12)"
    assert [sentence["text"] for sentence in told["sentences"]] == [
        "Up to step 1, all is as in the undisturbed run.",
        "The driver died.",
        f"{again}; now bank.db: paid has (account='ann', amount=7) once more than it should.",
        "In the end: paid has (ann, 7) once more than it should.",
    ]
    assert told["moral"] == ["stream.py:12: Keep the batch id."]
    assert told["witness"] == [told["sentences"][2]["event"]]


def test_both_outcomes_are_side_by_side_and_what_differs_is_marked() -> None:
    struck, calm = _data(_page(TWICE))["outcomes"]
    assert (struck["title"], calm["title"]) == ("Under the fault", "Undisturbed")
    assert [row["mark"] for row in struck["tables"][0]["rows"]] == ["", "wrong", ""]
    assert [row["mark"] for row in calm["tables"][0]["rows"]] == ["", ""]
    lost = Run("Under the fault", STRUCK.steps[:2], ("paid has 1",), _paid(ANN))
    (struck, _) = _data(_page(Explanation((CALM, lost))))["outcomes"]
    assert [(row["mark"], row["cells"][0]) for row in struck["tables"][0]["rows"]] == [
        ("", "'ann'"),
        ("missing", "'bob'"),
    ]


def test_runs_in_which_nothing_fails_are_shown_beside_each_other_from_where_they_part() -> None:
    runs = tuple(
        Run(
            title,
            tuple(RunStep(f"  a: last.update({n})", StepKind.WRITE, "driver 1", "state") for n in order),
            (),
        )
        for title, order in (("Undisturbed", (1, 2)), ("In another order", (2, 1)))
    )
    parting = ("undisturbed: a: last.update(1)", "then:        a: last.update(2)")
    data = _data(_page(Explanation(runs, parting)))
    told = _view(data, data["told"])
    assert (told["name"], len(told["subject"])) == ("both runs", len(data["events"]))
    assert [data["events"][number]["label"] for number in told["witness"]] == [
        "a: last.update(2)",
        "a: last.update(1)",
    ]
    assert "The first difference, here: a: last.update(2)." in [one["text"] for one in told["sentences"]]


def test_finding_that_is_fixed_has_a_page_that_says_so() -> None:
    data = _data(_page(None, said=("Nothing is violated.",)))
    assert (data["events"], data["verdicts"], data["story"]["moral"]) == ([], [], ["Nothing is violated."])


def test_page_is_the_same_each_time_and_its_texts_are_text() -> None:
    run = Run(
        EVIL,
        (RunStep(EVIL, StepKind.WRITE, EVIL, EVIL, tables={EVIL: (EVIL, ((EVIL, EVIL),))}),),
        (EVIL,),
        {EVIL: (EVIL,)},
    )
    page = _page(Explanation((run, run)), title=EVIL, said=(EVIL, EVIL))
    assert page == _page(Explanation((run, run)), title=EVIL, said=(EVIL, EVIL))
    assert (page.count("<b>"), page.count("\x1b"), "https://" in page) == (
        _page(TWICE).count("<b>"),
        0,
        False,
    )


AGAIN = RunStep(f"in {'key' * 30}", StepKind.FAULT, "source", again=True)
COUNTED = (RunStep(AGAIN.text, StepKind.INPUT), RunStep("  counts it", StepKind.WRITE, "counter", "output"))
AGAIN_FROM_SOURCE = Explanation((Run("Undisturbed", COUNTED, ()), Run("Again", (AGAIN, *COUNTED[1:]), ())))


def test_rows_that_a_source_gives_otherwise_are_no_failure_of_a_process() -> None:
    data = _data(_page(AGAIN_FROM_SOURCE))
    told = _view(data, data["told"])
    assert (told["name"], data["outages"]) == ("both runs", [])
    assert f"The source: {AGAIN.text} (again)." in [one["text"] for one in told["sentences"]]
    assert [lane["role"] for lane in data["lanes"]] == ["injector", "injector", "worker", "store"]
