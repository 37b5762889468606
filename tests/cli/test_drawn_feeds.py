"""A Hypothesis strategy is the input: ``feed = st.lists(...)`` beside the pipeline."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.rig import Run, environment, plain, run_process

STOCK = """
from hypothesis import strategies as st
from headrace import Computation, Pipeline
from headrace_properties.drawn_feeds import Arrival
from headrace_properties.promises import always

class Stock(Computation):
    def process_record(self, context, record):
        context.state["pieces"] = context.state.get("pieces", 0) + record.value
        context.produce("stock", context.state["pieces"])

pipeline = Pipeline("stock")
pipeline.injector("movements")
pipeline.add(Stock(), name="stock", inputs=["movements"], outputs=["stock"], ordered=True)

@always(of="stock")
def never_below_zero(moment):
    return moment.changed.after["pieces"] >= 0

promises = [never_below_zero]
feed = st.lists(st.builds(Arrival, value=st.integers(-5, 9), key=st.sampled_from("ab")), min_size=1)
impossible = feed.filter(lambda _: False)
text = st.text()
"""


def test_a_failure_on_a_drawn_input_is_shrunk_and_replayed_in_any_process(folder: Path, run: Run) -> None:
    (folder / "stock.py").write_text(STOCK)
    found = run("verify", "stock:pipeline", "--save", "a.json")
    assert (found.exit_code, "12 inputs: feed(0) to feed(11)" in plain(found.stdout)) == (1, True)
    content = json.loads((folder / "a.json").read_text())
    assert (content["source"]["feed"], len(content["trial"]["kept"]), content["found"].keys()) == (
        "feed", 1, {"promise"},
    )  # fmt: skip
    for hash_seed in ("1", "2"):
        again = subprocess.run(
            [sys.executable, "-m", "headrace_cli", "replay", "a.json"],
            cwd=folder, env={**environment(), "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (again.returncode, "byte for byte" in again.stdout) == (1, True), again.stdout + again.stderr
    (folder / "stock.py").write_text(STOCK.replace("(-5, 9)", "(5, 19)"))
    mended = run_process("replay", "a.json", cwd=folder)
    assert (mended.returncode, mended.stdout.splitlines()[0]) == (
        3, "UNKNOWN: nothing is violated, but the code and the input have changed since",
    )  # fmt: skip


def test_a_strategy_that_draws_no_input_is_named(folder: Path, run: Run) -> None:
    (folder / "stock.py").write_text(STOCK)
    for feed, problem in (
        ("impossible", "refused all that was tried. Loosen its filters"), ("text", "text() draws a str. Let it draw"),
    ):  # fmt: skip
        result = run("verify", "stock:pipeline", "--feed", feed)
        assert (result.exit_code, problem in plain(result.stderr).replace("\n", " ")) == (2, True), (
            result.stderr
        )
