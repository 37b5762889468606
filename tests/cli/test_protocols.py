"""``--protocol``: a broken protocol by its name, or one of the user's own, in ``verify``, ``replay``, scenarios and the hunt."""

import json
from pathlib import Path

import pytest

from headrace_cli.targets.protocols import load_protocol
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.proof.workloads import WORKLOADS
from headrace_sim import SOUND
from tests.cli.rig import Run

OWN = """
from headrace.rules import Rules
from headrace.store.mediator import Mediator
from headrace_sim import Protocol


class TrustsOwners(Rules):
    \"\"\"A store that takes writes of whoever has owned the keys.\"\"\"

    def is_valid(self, interval, low, high):
        return True


class Same(Rules):
    def is_valid(self, interval, low, high):
        return super().is_valid(interval, low, high)


class Store(Mediator):
    pass


protocol = Protocol("own", mediator=Store)
number = 7
"""


@pytest.fixture
def own(folder: Path) -> Path:
    (folder / "own.py").write_text(OWN)
    return folder


def test_own_rules_are_caught_and_their_failure_is_replayed(own: Path, run: Run) -> None:
    del own
    search = ("--seed", "2", "--feeds", "4", "--examples", "60", "--failures", "none")
    found = run(
        "verify", "views:pipeline", "--protocol", "own:TrustsOwners", *search, "--save", "a.json", "--json"
    )
    assert found.exit_code == 1, found.output
    assert json.loads(found.stdout)["protocol"] == "own:TrustsOwners"
    again = run("replay", "a.json", "--json")
    assert (again.exit_code, json.loads(again.stdout)["protocol"]) == (1, "own:TrustsOwners")


def test_hunt_of_own_rules_says_what_catches_them(own: Path, run: Run) -> None:
    del own
    hunted = run("mutants", "--protocol", "own:TrustsOwners", "--json")
    assert hunted.exit_code == 0, hunted.output
    document = json.loads(hunted.stdout)
    assert (document["name"], document["killed"], document["workload"]) == (
        "own:TrustsOwners",
        True,
        "tallies",
    )
    assert "S6" in document["killed_by"]
    assert document["wrong"] == "A store that takes writes of whoever has owned the keys."


def test_hunt_of_rules_that_answer_alike_says_so(
    own: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    del own
    few = ("tallies", "windows")
    monkeypatch.setattr(
        "headrace_properties.proof.mutants.hunt.WORKLOADS",
        {name: workload for name, workload in WORKLOADS.items() if name in few},
    )
    hunted = run("mutants", "--protocol", "own:Same", "--examples", "2")
    assert (hunted.exit_code, hunted.stdout) == (
        1, "own:Same survived 4 runs, and decided as the sound protocol does\n",
    )  # fmt: skip


def test_scenario_is_told_on_a_protocol_of_the_catalogue(folder: Path, run: Run) -> None:
    del folder
    told = run("paper", "scenario", "run", "zombie-timer", "--protocol", "without sequencers", "--json")
    other = run("paper", "scenario", "run", "zombie-timer", "--without", "sequencers", "--json")
    assert (told.exit_code, told.stdout) == (other.exit_code, other.stdout)
    assert told.exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--protocol", "ack befor commit"), "there is no protocol 'ack befor commit'. Did you mean 'ack before commit'"),
        (("--protocol", "xyz"), "there is no protocol 'xyz'. headrace mutants --list has all"),
        (("--protocol", "own:number"), "own:number is an int. Name a class of headrace.rules.Rules"),
        (("--protocol", "own:nothing"), "module 'own' has no 'nothing'"),
        (("--protocol", "nowhere:rules"), "there is no module 'nowhere'"),
        (("--protocol", "sound", "--without", "sequencers"), "--without: --protocol already says which one"),
    ],
)  # fmt: skip
def test_wrong_name_is_an_error_that_says_what_to_write(
    own: Path, run: Run, options: tuple[str, ...], message: str
) -> None:
    del own
    result = run("verify", "views:pipeline", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_hunt_takes_rules_alone(own: Path, run: Run) -> None:
    del own
    result = run("mutants", "--protocol", "own:protocol")
    assert (result.exit_code, "own:protocol is no class of rules" in result.output) == (2, True)


@pytest.mark.parametrize("name", ["sound", "ack before commit", "own:protocol", "own:Same"])
def test_protocol_bears_the_name_that_it_is_asked_by(own: Path, name: str) -> None:
    del own
    protocol = load_protocol(name)
    assert protocol.name == name
    assert protocol in {SOUND, *MUTANTS.values()} or ":" in name


def test_unknown_protocol_is_an_error() -> None:
    with pytest.raises(WrongOptionError):
        load_protocol("none of these")
