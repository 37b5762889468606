"""``headrace job skip``: what it refuses. Its effect is tested with the jobs on Spark."""

import pytest

from tests.cli.rig import Run


@pytest.mark.spark
def test_a_directory_without_a_job_is_wrong_use(run: Run, tmp_path: object) -> None:
    result = run("job", "skip", str(tmp_path), "counter", "mail/0:17")
    assert result.exit_code == 2
    assert "no job was deployed in the directory" in result.stderr
    assert "Traceback" not in result.stderr
