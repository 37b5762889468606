"""``headrace run --on spark`` ends in good order when it is interrupted or terminated: the command, in its own process."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.rig import environment

CROWD = '''
"""So many records that they take several micro-batches; each leads to one output, and the first leaves a mark."""

from pathlib import Path

from headrace import SECOND, Computation, Pipeline
from headrace_sim import FeedBuilder

MARK = Path(__file__).with_name("begun")


class Echo(Computation):
    def process_record(self, context, record):
        MARK.touch()
        context.produce("echoes", record.value)


pipeline = Pipeline("crowd")
pipeline.injector("crowd")
pipeline.add(Echo(), name="echo", inputs=["crowd"], outputs=["echoes"])


def feed(seed):
    builder = FeedBuilder(pipeline)
    for at_us in range(SECOND, SECOND + 40_000):
        builder.record(at_us=at_us, value=seed, timestamp=at_us, key=str(at_us % 97))
    return builder.build()
'''

_PATIENCE_S = 300


@pytest.mark.parametrize(
    ("number", "result"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")],
)
@pytest.mark.nightly
def test_a_signal_ends_a_run_after_its_micro_batch(
    tmp_path: Path, number: signal.Signals, result: str
) -> None:
    (tmp_path / "crowd.py").write_text(CROWD)
    arguments = ["run", "crowd:pipeline", "--on", "spark", "--judge", "0.05", "--output", "out", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "headrace_cli", *arguments],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as command:  # fmt: skip
        deadline = time.monotonic() + _PATIENCE_S
        while not (tmp_path / "begun").exists() and command.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        command.send_signal(number)
        stdout, stderr = command.communicate(timeout=_PATIENCE_S)
    assert command.returncode == 128 + number, stderr
    document = json.loads(stdout)
    (echo,) = document["progress"]
    lines = (tmp_path / "out" / "echoes.jsonl").read_text().splitlines()
    assert document["result"] == result
    assert 0 < echo["records"] < document["records"]
    assert echo["records"] == echo["outputs"] == document["outputs"]["echoes"] == len(lines)
    assert document["invariants"]["S2"]["verdict"] == "holds"
    violated = {name: one for name, one in document["invariants"].items() if one["verdict"] == "violated"}
    assert violated == {}
    assert f"Stopped by {number.name} after {echo['records']:,} of" in document["notes"][-1]
    assert "Traceback" not in stderr
