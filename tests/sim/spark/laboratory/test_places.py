"""Where a trial keeps what its program names, and that nothing else is changed or asked."""

import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrameReader

from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.laboratory.places import ROOT, copied, looked_at, settings_of, shown, watch_reads
from headrace_sim.spark.sinks.write_fence import has_fence
from tests.sim.spark.apart import call

pytestmark = pytest.mark.spark


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


def test_copy_of_a_file_that_spark_reads_is_no_effect_of_the_program(tmp_path: Path) -> None:
    theirs, trial = tmp_path / "theirs.csv", tmp_path / "parent" / "trial"
    theirs.write_text("1")
    trial.mkdir(parents=True)

    def brought() -> list[str]:
        seen = list[str]()

        @contextmanager
        def unseen() -> Iterator[None]:
            seen.append("begins")
            yield
            seen.append("ends" if (trial / ROOT / str(theirs).lstrip("/")).exists() else "too early")

        with patch.object(DataFrameReader, "csv", lambda _reader, path: path):
            watch_reads(trial, unseen)
            DataFrameReader.__new__(DataFrameReader).csv(str(theirs))
        return seen

    assert call(brought) == ["begins", "ends"]


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


def test_absolute_paths_are_changed_in_a_copy(tmp_path: Path) -> None:
    home, trial = tmp_path / "home", tmp_path / "trial"
    home.mkdir()
    trial.mkdir()
    for name in ("notes", "opened", "shut"):
        (home / name).write_text("owner's")
        (home / name).chmod(0o644)
    with closing(sqlite3.connect(home / "kept")) as db:
        db.execute("CREATE TABLE kept (id)")
    before = {path.name: path.read_bytes() for path in home.iterdir()}
    code = f"""
import os
import sqlite3
from pathlib import Path
from headrace_sim.spark.laboratory.places import watch_paths
watch_paths(Path({str(trial)!r}), [Path({str(trial)!r})])
Path("{home}/notes").write_text("changed")
os.close(os.open("{home}/opened", os.O_WRONLY | os.O_TRUNC))
os.chmod("{home}/shut", 0)
sqlite3.connect("{home}/kept").execute("INSERT INTO kept VALUES (1)").connection.commit()
"""  # noqa: S608  a program's text
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before
    assert (home / "shut").stat().st_mode & 0o777 == 0o644
    ours = trial / ROOT / str(home).lstrip("/")
    assert (ours / "notes").read_text() == "changed"
    assert not (ours / "opened").read_text()
    assert (ours / "shut").stat().st_mode & 0o777 == 0
    assert (ours / "kept").read_bytes() != before["kept"]


@pytest.mark.skipif(not has_fence(), reason="this kernel has no Landlock")
def test_java_changes_nothing_outside_the_trials(jvm: SparkJvm, tmp_path: Path) -> None:
    # A call of Java's own way, or of Hadoop's local file system: neither goes through a view.
    theirs = tmp_path / "theirs"
    theirs.write_text("kept")
    java = jvm.gateway.jvm
    assert not java.java.io.File(str(theirs)).delete()
    local = java.org.apache.hadoop.fs.FileSystem.getLocal(java.org.apache.hadoop.conf.Configuration())
    assert not local.delete(java.org.apache.hadoop.fs.Path(theirs.as_uri()), False)
    ours = java.java.io.File(str(jvm.trial_folders / "ours"))
    assert ours.createNewFile()
    assert ours.delete()
    assert theirs.read_text() == "kept"


def test_java_connects_to_this_machine_only(jvm: SparkJvm) -> None:
    java, blocked = jvm.gateway.jvm.java, "SOCKS|refused"
    with pytest.raises(Py4JJavaError, match=blocked):
        java.net.Socket("203.0.113.1", 5432)  # of a network for examples
    with socket.create_server(("127.0.0.1", 0)) as here:
        java.net.Socket("127.0.0.1", here.getsockname()[1]).close()
