"""docs/how-to/ci.md works as it is written: its settings, its test, and the pytest that its workflow runs."""

import re
import shlex
from pathlib import Path

from tests import forked
from tests.cli.rig import VIEWS, environment, plain
from tests.readme_blocks import ROOT

TEXT = (ROOT / "docs" / "how-to" / "ci.md").read_text()
IMPORTS = """
from headrace_sim import ClusterOptions
from headrace_sim.distributions import Uniform
from orders.pipeline import feed, pipeline

"""


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    return str(found)


def workflow_command() -> list[str]:
    """What the workflow runs on a push, where each choice of ``A && B || C`` falls on C."""
    (folded,) = re.findall(r"- run: >\n((?: {10}.*\n)+)", block("yaml"))
    on_push = re.sub(r"\$\{\{.*?\|\| '?(\w+)'? \}\}", r"\1", folded)
    return shlex.split(on_push)


def test_a_project_set_up_as_the_page_says_is_verified_by_its_workflow(tmp_path: Path) -> None:
    package = tmp_path / "orders"
    package.mkdir()
    for name in ("__init__", "pipeline", "audit"):
        (package / f"{name}.py").write_text("" if name == "__init__" else VIEWS)
    (tmp_path / "pyproject.toml").write_text(f"{block('toml')}pythonpath = ['.']\n")
    (tmp_path / "test_orders.py").write_text(IMPORTS + block("python").replace("500", "5"))
    program, *arguments = workflow_command()
    assert program == "pytest"
    assert "ci" in arguments
    ran = forked.pytest([*arguments, "--headrace-examples", "5"], cwd=tmp_path, env=environment())
    text = plain(ran.stdout + ran.stderr)
    assert (ran.returncode, "3 passed" in text) == (0, True), text
    assert (tmp_path / "report.xml").read_text().count("<testcase") == 3


def test_each_option_of_the_page_is_one(tmp_path: Path) -> None:
    ran = forked.pytest(["--help"], cwd=tmp_path, env=environment())
    assert ran.returncode == 0, ran.stderr
    named = set(re.findall(r"--headrace-\w+", TEXT))
    assert named
    assert named <= set(re.findall(r"--headrace-\w+", ran.stdout))
