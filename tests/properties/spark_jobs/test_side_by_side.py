"""Two runs of a Spark job are drawn side by side."""

from headrace_properties.explanation import Run
from headrace_properties.spark_jobs.side_by_side import side_by_side_html


def test_step_of_another_driver_is_the_same_step() -> None:
    calm = Run("Undisturbed", ("driver 1, batch 0: a", "driver 1, batch 0: b", "driver 1, batch 1: a"), ())
    other = Run("Under the fault", ("driver 1, batch 0: a", "driver 2, batch 1: a"), ())
    page = side_by_side_html((calm, other), title="sink", said="lost")
    assert page.count('class="only"') == 1
    assert '<tr id="first-difference"><td class="only">driver 1, batch 0: b</td><td></td></tr>' in page


def test_first_attempt_is_right_and_the_fault_and_what_is_done_again_are_marked() -> None:
    calm = Run("Undisturbed", ("driver 1, batch 0: a", "driver 1, batch 1: b"), ("t has 1",))
    lines = ("driver 1, batch 0: a", "the driver died", "driver 2, batch 0: a", "driver 2, batch 1: b")
    struck = Run("Under the fault", lines, ("t has 1, 1",), strikes=(1,), again=(2,))
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
    calm = Run("Undisturbed", ("<b>\x1b[1m",), ("<i>",))
    page = side_by_side_html((calm,), title="<h1>", said="a & b")
    assert "&lt;b&gt;\\x1b[1m" in page
    assert "<td>&lt;i&gt;</td>" in page
    assert "<h1>&lt;h1&gt;</h1>\n<p>a &amp; b</p>" in page
