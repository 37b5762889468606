"""Without the extra `spark` all else works, and `headrace.spark` says what is missing."""

import subprocess
import sys

HIDE = "import sys; sys.modules.update(dict.fromkeys(['pyspark', 'pandas', 'pyarrow', 'google']))"


def run(code: str) -> subprocess.CompletedProcess[str]:
    # With this process's search path: the checkout need not be installed.
    path = f"sys.path[:] = {sys.path!r}"
    return subprocess.run(
        [sys.executable, "-c", f"{HIDE}; {path}; {code}"], capture_output=True, text=True, check=False
    )


def test_headrace_itself_needs_nothing_of_it() -> None:
    done = run("import headrace, headrace_sim, headrace_properties")
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_the_host_names_what_is_missing_and_how_to_get_it() -> None:
    done = run("import headrace.spark")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "headrace.spark.host_errors.MissingPackageError: headrace.spark needs packages that are not installed: "
        "pyspark, pandas, pyarrow, protobuf. Install them: pip install 'headrace[spark]'"
    )


def test_it_is_an_import_error_that_survives_pickling() -> None:
    caught = run(
        "import pickle\n"
        "try:\n    import headrace.spark\n"
        "except ImportError as error:\n    print(pickle.loads(pickle.dumps(error)).missing)"
    )
    assert caught.stdout.strip() == "('pyspark', 'pandas', 'pyarrow', 'protobuf')", caught.stderr
