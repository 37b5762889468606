"""What Spark came to, kept in files, and which PySpark each file is of."""

import json
import os
from pathlib import Path
from typing import Any

import pyspark

MANIFEST = Path(__file__).parent / "recorded_with.json"
"""The PySpark that each file is of, by its name: ``{"value_outcomes.json": "4.3.0"}``."""


def keep(file: Path, outcomes: Any, *, indent: int | None = 1, sort_keys: bool = False) -> None:
    """Write the outcomes to their file, and the PySpark that gave them to the manifest."""
    text = json.dumps(outcomes, indent=indent, ensure_ascii=False, sort_keys=sort_keys)
    file.write_text((text if indent else text.replace('}, "', '},\n"')) + "\n")
    recorded = {**json.loads(MANIFEST.read_text()), file.name: pyspark.__version__}
    MANIFEST.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n")


def keep_if_asked(file: Path, outcomes: Any, *, indent: int | None = 1, sort_keys: bool = False) -> None:
    """Keep the outcomes with WRITE=yes."""
    if os.environ.get("WRITE") == "yes":
        keep(file, outcomes, indent=indent, sort_keys=sort_keys)
