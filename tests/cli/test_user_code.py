"""Whatever calls user code, it is limited and confined: no exit code 0 is its own, and nothing leaves the machine."""

import re
from pathlib import Path

import pytest

from tests.cli.rig import Run, plain

MODULE = """
import os, sys, urllib.request
from headrace import Computation, Pipeline
from headrace_properties.promises import at_end
from headrace_sim import FeedBuilder

def key(record):
    {key}
    return "a"

class Count(Computation):
    def initial_state(self):
        {state}
        return {{}}

    def process_record(self, context, record):
        context.state["n"] = context.state.get("n", 0) + 1
        {handler}

pipeline = Pipeline("p")
pipeline.injector("mail")
pipeline.add(Count(), name="count", inputs={{"mail": key}}, {options})

def feed(seed):
    {feed}
    built = FeedBuilder(pipeline)
    for number in range(1, 4):
        built.record(at_us=number * 1_000_000, value=number, timestamp=number * 1_000_000)
    return built.build()

@at_end
def counted(world):
    {promise}
    return True

promises = [counted]
{module}
"""
PARTS = dict.fromkeys(["key", "state", "handler", "feed", "promise"], "pass") | {"options": "", "module": ""}
FEW = ("--examples", "2", "--feeds", "1", "--jobs", "1", "--allow-unknown", "all")


def write(folder: Path, **parts: str) -> None:
    (folder / "job.py").write_text(MODULE.format(**PARTS | parts))


@pytest.mark.parametrize("where", ["module", "feed", "promise", "state", "key", "handler"])
@pytest.mark.parametrize("how", ["sys.exit(0)", "os._exit(0)"])
def test_code_that_ends_the_process_is_told_wherever_it_is_called_from(
    folder: Path, run: Run, where: str, how: str
) -> None:
    write(folder, **{where: how})
    result = run("verify", "job:pipeline", *FEW)
    assert result.exit_code == (1 if where in ("key", "handler") else 2)
    said = "raises SystemExit|SystemExit: 0" if how == "sys.exit(0)" else r"calls os\._exit\(0\)"
    assert re.search(said, plain(result.output))
    assert "job.py" in result.output


@pytest.mark.parametrize("where", ["module", "feed", "state", "key"])
def test_code_that_does_not_end_is_told_wherever_it_is_called_from(
    folder: Path, run: Run, where: str
) -> None:
    loop = "while True: pass"
    write(folder, **{where: loop if where == "module" else f"exec({loop!r})"})
    result = run("verify", "job:pipeline", *FEW, "--code-timeout", "0.2")
    assert result.exit_code == (1 if where == "key" else 2)
    assert "0.2 s of CPU time; --code-timeout allows more" in plain(result.output)


POST = "urllib.request.urlopen('http://pay.example.com/charge', data=b'100')"


def test_an_effect_outranks_the_error_that_comes_of_it(folder: Path, run: Run) -> None:
    write(folder, handler=POST)
    result = run("verify", "job:pipeline", *FEW)
    assert result.exit_code == 1
    assert "has effects outside its process, which a retry repeats" in plain(result.output)
    assert "socket.getaddrinfo pay.example.com" in plain(result.output)
    assert "raises an exception" not in plain(result.output)


def test_a_declared_effect_is_refused_unless_it_is_allowed(folder: Path, run: Run) -> None:
    effect = "os.close(os.open('written', os.O_CREAT | os.O_WRONLY))"
    write(folder, handler=effect, options="nondeterministic='it writes a log'")
    refused = run("verify", "job:pipeline", *FEW)
    assert (refused.exit_code, (folder / "written").exists()) == (2, False)
    assert "--allow effect" in refused.output
    allowed = run("verify", "job:pipeline", *FEW, "--allow", "effect")
    assert (allowed.exit_code, (folder / "written").exists()) == (0, True)


@pytest.mark.parametrize("where", ["module", "feed"])
def test_nothing_is_touched_from_the_import_on(folder: Path, run: Run, where: str) -> None:
    write(folder, **{where: "os.close(os.open('written', os.O_CREAT | os.O_WRONLY))"})
    result = run("verify", "job:pipeline", *FEW)
    assert (result.exit_code, (folder / "written").exists()) == (2, False)
    assert "job.py, in" in plain(result.output).replace("\n", " ")


def test_a_refusal_that_the_code_takes_is_noted(folder: Path, run: Run) -> None:
    write(folder, module="try:\n    os.mkdir('made')\nexcept OSError:\n    pass")
    result = run("verify", "job:pipeline", *FEW)
    assert (result.exit_code, (folder / "made").exists()) == (0, False)
    assert "Note: refused: your code calls os.mkdir('made')" in plain(result.stderr)


def test_prints_are_shown_on_request_only(folder: Path, run: Run) -> None:
    write(folder, handler="print('counting'); print('badly', file=sys.stderr)")
    silent, verbose = (run("verify", "job:pipeline", *FEW, *more) for more in ((), ("--verbose",)))
    assert "counting" not in silent.output
    assert "Your code printed, among others:\n  counting\n  badly\n" in verbose.stderr
    assert plain(verbose.output).count("counting") <= 10


def test_only_effects_can_be_allowed_for_a_pipeline(folder: Path, run: Run) -> None:
    write(folder)
    result = run("verify", "job:pipeline", *FEW, "--allow", "batching")
    assert (result.exit_code, "left out for a pipeline" in result.output) == (2, True)
