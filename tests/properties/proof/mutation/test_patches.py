"""Unified diffs of the engine, applied in memory: at the right lines, or not at all."""

from pathlib import Path

import pytest

from headrace_properties.proof.mutation.patches import PatchError, apply_patch
from headrace_properties.proof.mutation.sampling import Module

SOURCE = "a = 1\n\n\ndef f():\n    x = 1\n    return x\n\n\ndef g():\n    return 2\n"
MODULE = Module("headrace.small", "/somewhere/core/headrace/small.py", SOURCE)
HEAD = "--- a/core/headrace/small.py\n+++ b/core/headrace/small.py\n"


def applied(folder: Path, diff: str) -> tuple[str, tuple[int, ...]]:
    path = folder / "my.diff"
    path.write_text(diff)
    (found,) = apply_patch(str(path), [MODULE])
    return found.source, found.lines


def test_two_hunks_change_their_lines_and_no_others(tmp_path: Path) -> None:
    first = "@@ -5,2 +5,3 @@ def f():\n     x = 1\n-    return x\n+    x += 1\n+    return -x\n"
    diff = f"{HEAD}{first}@@ -10 +11 @@\n-    return 2\n+    return 3\n"
    source, lines = applied(tmp_path, diff)
    expected = SOURCE.replace("    return x\n", "    x += 1\n    return -x\n").replace("return 2", "return 3")
    assert (source, lines) == (expected, (6, 10))


def test_a_hunk_finds_its_lines_when_they_have_moved(tmp_path: Path) -> None:
    source, lines = applied(tmp_path, f"{HEAD}@@ -40,2 +40,2 @@\n def g():\n-    return 2\n+    return 4\n")
    assert (source, lines) == (SOURCE.replace("return 2", "return 4"), (10,))


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        ("", "it has no hunk"),
        ("@@ -1 +1 @@\n-a\n+b\n", "line 1: a hunk comes before the name of a file"),
        (f"{HEAD}@@ -1 +1 @@\n-b = 1\n+b = 2\n", "line 3: the hunk does not fit"),
        (f"{HEAD}@@ -1,9 +1 @@\n-a = 1\n+b = 2\n", "the hunk is not as long as its first line says"),
        (f"{HEAD}@@ -1 +1 @@\n-a = 1\n+a = \n", "is no Python with it"),
        ("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+b = 2\n", "b/x.py is no module of the engine"),
    ],
)
def test_a_wrong_patch_is_an_error_that_says_where(tmp_path: Path, diff: str, problem: str) -> None:
    with pytest.raises(PatchError, match=problem):
        applied(tmp_path, diff)
