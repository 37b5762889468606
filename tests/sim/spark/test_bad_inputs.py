"""What users get wrong is refused with the error that Spark gives, at the line to fix; what Spark accepts is accepted."""

import json

import pytest

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.outcomes import check_job
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.pyspark_versions import VERSION
from tests.sim.spark.bad_inputs import BUILDS, REFUSALS, ROWS, SCHEMA, line_to_fix

RECORDED = json.loads(REFUSALS.read_text())
BEFORE_4_2 = {
    "array in group state": "",
    "map in group state": "",
    "array for a key": "",
    "value of wrong arity": "",
    "value of wrong arity is caught": "",
    "yields a frame without a column": "KeyError: 'n'",
}
"""What PySpark 3.5 to 4.1 refuses with another error, or takes."""


@pytest.mark.parametrize("name", BUILDS)
def test_bad_input_is_refused_as_spark_refuses_it_at_the_line_to_fix(name: str) -> None:
    refusal = RECORDED[name] if VERSION >= (4, 2) else BEFORE_4_2.get(name, RECORDED[name])
    if not refusal:
        check_job(record(BUILDS[name], SCHEMA), [ROWS], schedules=1)
        return
    with pytest.raises(HeadraceError) as caught:
        check_job(record(BUILDS[name], SCHEMA), [ROWS], schedules=1)
    assert refusal in str(caught.value)
    assert f"bad_inputs.py:{line_to_fix(name) or ''}" in str(caught.value)
