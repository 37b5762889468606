"""The report of CPU time counts what a test starts."""

import subprocess
import sys

from tests.cpu import used_s


def test_time_of_a_process_that_has_ended_counts() -> None:
    before = used_s()
    burn = "import time\nwhile time.process_time() < 0.2:\n    pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert used_s() - before > 0.15
