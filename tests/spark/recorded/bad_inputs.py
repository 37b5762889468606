"""Give Spark each bad input, and keep the error: ``python -m tests.spark.recorded.bad_inputs [NAME ...]``. It takes minutes."""

import json
import re
import sys
import tempfile

from headrace.spark import session
from tests.sim.spark.bad_inputs import BUILDS, REFUSALS, ROWS, SCHEMA
from tests.sim.spark.outcomes import keep
from tests.spark.recorded.test_stateful_conformance import ROCKS

_RAISED = re.compile(r"^\s*(?:\w+\.)*(\w*(?:Error|Exception|Invalid)\b(?:: .*)?)$", re.MULTILINE)
_CRASH = "driver worker exited unexpectedly"
_LENGTH = 100


def refusal(error: Exception) -> str:
    """Return Spark's condition of an error, or its class and message where there is no condition of its own."""
    text, named = str(error), getattr(error, "getCondition", lambda: None)()
    if named and named != "STREAM_FAILED":
        return str(named)
    if _CRASH in text:
        return _CRASH
    raised = [found for found in _RAISED.findall(text) if not found.startswith("PythonException")]
    last = raised[-1] if raised else type(error).__name__
    condition = re.search(r"\[([A-Z_.]+)\]", last)
    if condition is not None:
        return condition[1]
    return last.partition(":")[0] if last.startswith(("Arrow", "ConnectionReset", "EOF")) else last[:_LENGTH]


def main() -> int:
    """Try them all, or those that are named, and write what Spark said."""
    kept = json.loads(REFUSALS.read_text()) if REFUSALS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.sql.streaming.stateStore.providerClass": ROCKS,
        }
        with session("local[2]", "headrace bad inputs", config=settings) as spark:
            spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(f"{folder}/in")
            for number, name in enumerate(sys.argv[1:] or BUILDS):
                try:
                    writer = BUILDS[name](spark.readStream.schema(SCHEMA).parquet(f"{folder}/in"))
                    once = writer.option("checkpointLocation", f"{folder}/{number}").trigger(once=True)
                    once.start().awaitTermination()
                    kept[name] = ""
                except Exception as error:  # noqa: BLE001  whatever Spark raises
                    kept[name] = refusal(error)
                sys.stdout.write(f"{name}: {kept[name]}\n")
                sys.stdout.flush()
    keep(REFUSALS, dict(sorted(kept.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
