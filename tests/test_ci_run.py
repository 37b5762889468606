"""`.ci/run` runs everything as on a machine without Java."""

import os
import subprocess
from pathlib import Path

import pytest

CI_RUN = Path(__file__).parent.parent / ".ci" / "run"

# Stands in for make: it tells which part it is, and which Java it finds.
MAKE = """#!/bin/sh
for program in java beside-java; do command -v $program >/dev/null && found="$found$program, "; done
echo "$1: ${found}JAVA_HOME=$JAVA_HOME"
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("home", ["/a/jdk", None], ids=["JAVA_HOME", "no JAVA_HOME"])
@pytest.mark.parametrize("has_java", [True, False], ids=["java", "no java"])
def test_the_tests_find_no_java_and_all_other_programs(
    tmp_path: Path, *, has_java: bool, home: str | None
) -> None:
    program(tmp_path / "make" / "make", MAKE)
    program(tmp_path / "with java" / "beside-java", "#!/bin/sh\n")
    if has_java:
        program(tmp_path / "with java" / "java", "#!/bin/sh\n")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"JAVA_HOME": home} if home else {}
    environment["PATH"] = os.pathsep.join(
        [str(tmp_path / "make"), str(tmp_path / "with java"), os.environ["PATH"]]
    )
    environment["TMPDIR"] = str(temporary)
    done = subprocess.run([CI_RUN], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if not line.startswith("=="))
    assert list(told) == ["setup", "test", "lint"]
    assert told["test"] == "beside-java, JAVA_HOME="
    assert list(temporary.iterdir()) == []
