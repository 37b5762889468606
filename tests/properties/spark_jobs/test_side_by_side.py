"""Two runs of a Spark job are drawn side by side."""

from headrace_properties.explanation import Run, Step, StepKind
from headrace_properties.spark_jobs.side_by_side import side_by_side_html


def _steps(*lines: str) -> tuple[Step, ...]:
    return tuple(Step(line, StepKind.WRITE) for line in lines)


def test_step_of_another_driver_is_the_same_step() -> None:
    calm = Run(
        "Undisturbed", _steps("driver 1, batch 0: a", "driver 1, batch 0: b", "driver 1, batch 1: a"), ()
    )
    other = Run("Under the fault", _steps("driver 1, batch 0: a", "driver 2, batch 1: a"), ())
    page = side_by_side_html((calm, other), title="sink", said="lost")
    assert page.count('class="only"') == 1
    assert '<tr id="first-difference"><td class="only">driver 1, batch 0: b</td><td></td></tr>' in page


def test_first_attempt_is_right_and_the_fault_and_what_is_done_again_are_marked() -> None:
    calm = Run("Undisturbed", _steps("driver 1, batch 0: a", "driver 1, batch 1: b"), ("t has 1",))
    steps = (
        *_steps("driver 1, batch 0: a"), Step("the driver died", StepKind.FAULT),
        Step("driver 2, batch 0: a", StepKind.WRITE, again=True), *_steps("driver 2, batch 1: b"),
    )  # fmt: skip
    struck = Run("Under the fault", steps, ("t has 1, 1",))
    page = side_by_side_html((calm, struck), title="sink", said="twice", difference=("t has 1 once more",))
    assert "<tr><td>driver 1, batch 0: a</td><td>driver 1, batch 0: a</td></tr>" in page
    assert '<tr id="fault"><td></td><td class="strike">the driver died</td></tr>' in page
    assert '<tr id="again"><td></td><td class="again">driver 2, batch 0: a</td></tr>' in page
    assert "<tr><td>driver 1, batch 1: b</td><td>driver 2, batch 1: b</td></tr>" in page
    assert (
        '<tr id="first-difference"><td class="only">t has 1</td><td class="only">t has 1, 1</td></tr>' in page
    )
    assert "<li>t has 1 once more</li>" in page


def test_text_is_text() -> None:
    calm = Run("Undisturbed", _steps("<b>\x1b[1m"), ("<i>",))
    page = side_by_side_html((calm,), title="<h1>", said="a & b")
    assert "&lt;b&gt;\\x1b[1m" in page
    assert "<td>&lt;i&gt;</td>" in page
    assert "<h1>&lt;h1&gt;</h1>\n<p>a &amp; b</p>" in page
