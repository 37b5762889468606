"""A shared machine: work in progress waits, and nothing else changes."""

import random
from statistics import fmean

import msgspec

from headrace import MILLISECOND
from headrace.history import Output
from headrace_sim import Constant, Contention, Exponential
from headrace_sim.contention import SharedCpu
from tests.sim.rig import CHECKED, Run, assert_as_reference, assert_sound, letters, mail, run

OFTEN = Contention(gap=Exponential(0, 50 * MILLISECOND), slice=Exponential(0, 50 * MILLISECOND))


def shared(gap_us: int, slice_us: int) -> SharedCpu:
    return SharedCpu(Contention(gap=Constant(gap_us), slice=Constant(slice_us)), random.Random(0))


def test_work_takes_the_time_that_others_leave() -> None:
    cpu = shared(100, 50)  # taken from 100 to 150, from 250 to 300, from 400 to 450
    assert cpu.finish(0, 100) == 100, "done just before"
    assert cpu.finish(120, 10) == 160, "begun when others have it"
    assert cpu.finish(160, 200) == 460, "interrupted twice"


def test_slices_and_gaps_of_no_length_do_not_stop_time() -> None:
    assert shared(0, 0).finish(5, 3) > 8


def test_others_take_their_share() -> None:
    cpu = SharedCpu(OFTEN, random.Random(1))
    assert 190_000_000 < cpu.finish(0, 100_000_000) < 210_000_000


def letters_with(contention: Contention | None) -> Run:
    pipeline = mail()
    options = msgspec.structs.replace(CHECKED, contention=contention)
    return run(pipeline, letters(pipeline), options=options)


def test_contention_delays_a_run_without_changing_its_output() -> None:
    calm, contended = letters_with(None), letters_with(OFTEN)
    assert_sound(contended)
    assert_as_reference(contended)
    assert fmean(output.at_us for output in contended.all(Output)) > fmean(
        output.at_us for output in calm.all(Output)
    )


def test_the_same_seed_has_the_same_contention() -> None:
    assert letters_with(OFTEN).history.digest() == letters_with(OFTEN).history.digest()
