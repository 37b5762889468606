"""Verify planted bugs and print a table: which are found, at what cost, and how their explanations begin.

::

    python -m tests.planted                     # all bugs, with default settings
    python -m tests.planted ledger today        # some of them
    python -m tests.planted --mended 5000       # the mended twins, in so many runs each: they must hold
"""

import argparse
import sys

from tests.planted.trials import BUGS, Trial, verify


def main() -> int:
    """Print the table; return how many trials did not come out as they should."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__.partition("\n")[0])
    parser.add_argument("bugs", nargs="*", metavar="BUG", help=f"default: all of {', '.join(BUGS)}")
    parser.add_argument(
        "--mended", type=int, metavar="RUNS", help="verify the mended twins in so many runs each"
    )
    parser.add_argument("--output", action="store_true", help="print what the command printed, too")
    options = parser.parse_args()
    wrong = 0
    for bug in options.bugs or BUGS:
        if options.mended:
            trial = verify(bug, "mended", "--allow-unknown", "all", runs=options.mended)
            right, said = trial.code == 0, "holds" if trial.code == 0 else "ACCUSED"
        else:
            trial = verify(bug)
            right, said = trial.is_found and trial.is_explained, _found(trial)
        wrong += not right
        sys.stdout.write(f"{bug:20} {said:12} {trial.cpu_s:6.1f} s  {trial.explanation[:160]}\n")
        if options.output or (options.mended and not right):
            sys.stdout.write(trial.output)
        sys.stdout.flush()
    sys.stdout.write(f"{wrong} of {len(options.bugs or BUGS)} did not come out as they should\n")
    return min(wrong, 1)


def _found(trial: Trial) -> str:
    if not trial.is_found:
        return f"exit {trial.code}"
    return "found" if trial.is_explained else "unexplained"


if __name__ == "__main__":
    sys.exit(main())
