"""Where a trial keeps what its program names. Spark itself is not needed: only what is sent to it, or opened, is looked at."""

from pathlib import Path

import pytest

from headrace_sim.spark.laboratory.places import ROOT, copied, looked_at, settings_of, shown

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java


@pytest.mark.parametrize(
    ("inside", "named"),
    [
        (f"{ROOT}/data/out", "/data/out"),
        ("s3a/lake/payments", "s3a://lake/payments"),
        ("hdfs/data", "hdfs://data"),
        ("ledger.db", "ledger.db"),
    ],
)
def test_path_is_told_as_the_program_names_it(inside: str, named: str) -> None:
    assert shown(inside) == named


def test_small_files_of_the_owner_are_copied_and_known(tmp_path: Path) -> None:
    home, trial = tmp_path / "home", tmp_path / "trial"
    for name in ("config.yaml", "data/rates.csv", ".git/config", ".venv/lib.py", "build/out"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    known = copied(home, trial)
    assert set(known) == {"config.yaml", "data/rates.csv"}
    (trial / "config.yaml").write_text("changed")
    changed = {name for name, told in looked_at(trial).items() if known.get(name) != told}
    assert changed == {"config.yaml"}
    assert (home / "config.yaml").read_text() == "config.yaml"


def test_each_trial_has_a_view_of_its_own(tmp_path: Path) -> None:
    one, other = settings_of("trial1", tmp_path / "one"), settings_of("trial2", tmp_path / "other")
    assert one["fs.defaultFS"] == "viewfs://trial1/"
    assert one["fs.viewfs.mounttable.trial1.linkFallback"] == (tmp_path / "one" / ROOT).as_uri()
    assert not {name for name in one if "trial1" in name} & other.keys()
