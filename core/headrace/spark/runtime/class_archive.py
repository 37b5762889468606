"""An archive of Spark's classes, loaded and checked, that Java maps into memory: Spark then starts in half the CPU time.

``python -m headrace.spark.runtime.class_archive`` makes it from the classes that a rehearsal loads, by Java's class-data
sharing. It is for one Java and the jars of one PySpark. Java looks whether it still fits, and else starts as without it.

It has some 200 MB in ``$XDG_CACHE_HOME/headrace`` or ``~/.cache/headrace``, and may be deleted at any time.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.spark.runtime.java import archive_for, find_java, jars
from headrace.spark.runtime.spark_session import process_environment

_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Few rows, as in a trial."""


def make_archive() -> Path:
    """Make the archive for the Java that Spark starts with, or make it anew; return where it is.

    Raises:
        JavaNotFoundError: no suitable Java was found.
    """
    java = find_java()
    archive = archive_for(java)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)  # or the rehearsal would use it
    with tempfile.TemporaryDirectory(dir=archive.parent) as workplace:
        listed, draft = Path(workplace, "classes"), Path(workplace, "archive")
        _rehearse(Path(workplace), f'"-XX:DumpLoadedClassList={listed}"')
        dump = ("-Xshare:dump", f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={draft}")
        command = [str(java.home / "bin" / "java"), *_JAVA, *dump, "-cp", jars()]
        subprocess.run(command, capture_output=True, check=True)  # noqa: S603  the user's own Java
        draft.replace(archive)
    return archive


def _rehearse(folder: Path, option: str) -> None:
    """Let Spark load what most programs need: a batch of files, Python code, and a stateful streaming query with a sink."""
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((option, *_JAVA))
    os.environ.update(process_environment(_SETTINGS["spark.master"], launched=True))
    spark = SparkSession.builder.config(map=_SETTINGS).getOrCreate()
    process = spark.sparkContext._gateway.proc
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING")
    rows.mapInPandas(lambda frames: frames, rows.schema).write.parquet(f"{folder}/rows")
    rows.rdd.map(tuple).collect()
    names = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").groupBy("name").count()
    written = names.writeStream.outputMode("complete").foreachBatch(
        lambda frame, _: frame.write.mode("append").json(f"{folder}/names")
    )
    written.option("checkpointLocation", f"{folder}/checkpoint").trigger(
        availableNow=True
    ).start().awaitTermination()
    spark.stop()
    process.stdin.close()
    process.wait()  # it writes the list when it ends


if __name__ == "__main__":
    print(make_archive())  # noqa: T201
