"""`.ci/run` runs everything as on a machine without Java, and with a browser."""

import os
import shutil
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
    assert list(told) == ["setup", "docs", "test", "lint"]
    assert told["test"] == "beside-java, JAVA_HOME="
    assert list(temporary.iterdir()) == []


# Stands in for the package manager, and for what makes us root: it tells what it is asked for.
APT_GET = """#!/bin/sh
echo "apt-get $*"
case "$*" in *chromium) printf '#!/bin/sh\\n' > "$BIN/chromium"; chmod +x "$BIN/chromium";; esac
"""
SUDO = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has no browser, nor sudo and apt-get."""
    for name in ("bash", "dirname", "env", "ln", "mktemp", "rm", "sh", "chmod"):
        found = shutil.which(name)
        assert found
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(found)
    program(tmp_path / "bin" / "make", '#!/bin/sh\necho "$1:"\n')
    return {"PATH": str(tmp_path / "bin"), "BIN": str(tmp_path / "bin"), "TMPDIR": str(tmp_path)}


def ci_run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CI_RUN], env=environment, capture_output=True, text=True, check=False)


def test_a_browser_is_brought_where_there_is_none(tmp_path: Path, bare: dict[str, str]) -> None:
    program(tmp_path / "bin" / "apt-get", APT_GET)
    program(tmp_path / "bin" / "sudo", SUDO)
    done = ci_run(bare)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("==")]
    assert [line.split()[0] for line in lines] == ["setup:", "docs:", "apt-get", "apt-get", "test:", "lint:"]
    assert lines[3].startswith("apt-get install ")
    assert "apt-get" not in ci_run(bare).stdout


def test_without_a_browser_nothing_is_tested_and_the_remedy_is_said(bare: dict[str, str]) -> None:
    done = ci_run(bare)
    assert done.returncode == 1
    assert "Install one of them and run again" in done.stderr
    assert "test:" not in done.stdout
