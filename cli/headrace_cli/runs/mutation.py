"""``headrace mutants --automatic``, ``--patch``, ``--unreached``: what runs notice of mistakes, and which code they reach."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace import HeadraceError
from headrace_cli.targets.loading import DEFAULT_FEED, load_target
from headrace_cli.terminal.documents import stdout_reserved
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.signals import signal_of
from headrace_properties.pipeline_target import PipelineTarget
from headrace_properties.proof.mutation.equivalents import OURS, Key, load_notes, void
from headrace_properties.proof.mutation.measuring import (
    MutantResult,
    Unreached,
    judge_patch,
    measure,
    unreached,
)
from headrace_properties.proof.mutation.mutant_judge import Judgement
from headrace_properties.proof.mutation.mutant_runs import Runs, RunsSpec, engine_spec, pipeline_runs
from headrace_properties.proof.mutation.operators import Mutation
from headrace_properties.proof.mutation.patches import PatchError, apply_patch
from headrace_properties.proof.mutation.reports import survivors_of
from headrace_properties.proof.mutation.sampling import (
    Module,
    engine_modules,
    module_of,
    mutants_of,
    sample,
)
from headrace_properties.proof.mutation.survey import Survey, bits, lines_of, survey
from headrace_properties.proof.workloads import Workload
from headrace_properties.search.origins import user_modules
from headrace_properties.search.user_lines import unreached as unreached_methods
from headrace_sim import versions_of

NOTES = "equivalent-mutants.toml"
"""Where notes on a pipeline are looked for, in the current directory."""

_SURVEYED = 10
"""Choice: of so many workloads' worth of runs there is one for each run that a mutant may take, and more than enough reach it."""


@dataclass(frozen=True, slots=True)
class MutationOptions:
    """What to mutate, and how long to look."""

    automatic: Annotated[
        bool,
        typer.Option(
            "--automatic", help="Make random mistakes in the engine's code, or in that of MODULE:PIPELINE."
        ),
    ] = False
    patch: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Judge an engine that you broke: a unified diff, or Python that defines protocol.",
        ),
    ] = None
    unreached: Annotated[
        bool,
        typer.Option("--unreached", help="List the engine's code that no workload of the search executes."),
    ] = False
    count: Annotated[
        int, typer.Option(min=1, help="Automatic: number of mutants; all if there are fewer.")
    ] = 50
    seed: Annotated[
        int, typer.Option(help="Automatic: seed of the sample; the same seed draws the same.")
    ] = 0
    modules: Annotated[
        str, typer.Option(metavar="NAME,...", help="Automatic, unreached: modules or packages of the engine.")
    ] = ""
    runs: Annotated[
        int, typer.Option(min=1, help="Automatic, patch: maximum number of runs for a mutant.")
    ] = 300
    notes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=f"{NOTES}, if it exists",
            help="Automatic: TOML that names equivalent mutants, each with the reason.",
        ),
    ] = None
    again: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Automatic: judge no new sample, but the survivors in this report (--json), except those noted since.",
        ),
    ] = None
    feed: Annotated[
        str, typer.Option(metavar="NAME", help="Automatic: function that makes the input of MODULE:PIPELINE.")
    ] = DEFAULT_FEED

    @property
    def chosen(self) -> bool:
        """One of these is wanted, and not the catalogue."""
        return self.automatic or self.patch is not None or self.unreached


class WrongMixError(HeadraceError):
    """Options that exclude each other. Fields: problem, remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem, self.remedy = problem, remedy

    def __str__(self) -> str:
        """Say which, and what to write instead."""
        return f"{self.problem}. {self.remedy}"


@dataclass(slots=True)
class AutomaticResult:
    """What automatic mutants came to.

    Attributes:
        target: the pipeline; ``""``: the engine.
        count: how many were drawn.
        of: how many there are to draw from.
        found: those that were judged.
        void: notes that name nothing any more.
        stopped_by: what stopped the command.
    """

    target: str
    count: int
    of: int
    found: list[MutantResult] = field(default_factory=list)
    void: list[Key] = field(default_factory=list)
    stopped_by: signal.Signals | None = None


@dataclass(frozen=True, slots=True)
class PatchResult:
    """What a broken engine came to.

    Attributes:
        path: of the patch.
        judgement: what the runs say.
        reached: how many runs reach what it changes.
    """

    path: str
    judgement: Judgement
    reached: int


def check_mix(options: MutationOptions, names: list[str], *, list_only: bool) -> None:
    """Check that the options go together.

    Raises:
        WrongMixError: they do not.
    """
    wanted = [
        name
        for name, given in (
            ("--automatic", options.automatic),
            ("--patch", options.patch is not None),
            ("--unreached", options.unreached),
            ("--list", list_only),
        )
        if given
    ]
    if not options.chosen:
        defaults = MutationOptions()
        given = [
            option.name
            for option in fields(options)
            if getattr(options, option.name) != getattr(defaults, option.name)
        ]
        if given:
            problem = f"--{given[0]} is for --automatic, --patch or --unreached"
            raise WrongMixError(problem, "Add one of them, or leave it out")
        return
    if len(wanted) > 1:
        raise WrongMixError(f"{' and '.join(wanted)} exclude each other", "Give one of them")
    if names and (not options.automatic or len(names) > 1):
        problem = (
            f"{wanted[0]} takes {'one pipeline' if options.automatic else 'no name'}, not {' '.join(names)}"
        )
        raise WrongMixError(problem, "Name mutants of the catalogue without it")
    if options.again is not None and not options.automatic:
        raise WrongMixError("--again is for --automatic", "Add it, or leave --again out")
    if names and options.modules:
        raise WrongMixError("--modules names modules of the engine", "Leave it out to mutate a pipeline")


def run_automatic(options: MutationOptions, target: str, jobs: int) -> AutomaticResult:
    """Mutate the engine, or a pipeline, and judge each mutant.

    Raises:
        HeadraceError: the pipeline, the modules, the notes or the report are wrong, or a run fails without any mutation.
    """
    with stdout_reserved(), RunProgress("mutating") as progress:
        loaded = load_target(target, options.feed) if target else None
        notes_at: Path | None
        if loaded is None:
            modules, spec = engine_modules(_named(options)), engine_spec(_seeds(options))
            seeds, notes_at = _seeds(options), options.notes or OURS
        else:
            spec = RunsSpec(f"{__name__}:target_runs", {"target": target, "feed": options.feed})
            modules = _modules_of(loaded)
            seeds, notes_at = options.runs, options.notes or _present(Path(NOTES))
        notes = {} if notes_at is None else load_notes(notes_at)
        surveyed = _surveyed(spec, modules, seeds, jobs, progress)
        wanted = _anything if loaded is None else _in_computations(loaded, surveyed)
        mutants = mutants_of(modules, wanted)
        if options.again is None:
            drawn = sample(mutants, options.count, options.seed)
        else:
            drawn = survivors_of(options.again, mutants, notes)
        result = AutomaticResult(target, len(drawn), len(mutants), void=void(notes, mutants))
        try:
            for measured in measure(drawn, surveyed, spec, most_runs=options.runs, jobs=jobs, notes=notes):
                result.found.append(measured)
                progress.on_part("judging", len(result.found), len(drawn))
        except KeyboardInterrupt as stop:
            result.stopped_by = signal_of(stop)
        return result


def run_patch(options: MutationOptions, jobs: int) -> PatchResult:
    """Judge a broken engine of the user's own.

    Raises:
        HeadraceError: the patch cannot be applied, or the engine cannot be imported with it.
    """
    assert options.patch is not None
    path = str(options.patch)
    modules = engine_modules()
    is_python = options.patch.suffix == ".py"
    if is_python and not options.patch.is_file():
        raise PatchError(path, 0, "there is no such file")
    patched = [] if is_python else apply_patch(path, modules)
    seeds = _seeds(options)
    sound = engine_spec(seeds)
    broken = engine_spec(seeds, protocol=str(options.patch.resolve()) if is_python else "")
    with stdout_reserved(), RunProgress("mutating") as progress:
        surveyed = _surveyed(sound, [module.module for module in patched], seeds, jobs, progress)
        judgement, reached = judge_patch(patched, surveyed, sound, broken, options.runs)
    if judgement.unfit:
        raise PatchError(path, 0, f"the engine cannot be imported with it: {judgement.unfit}")
    return PatchResult(path, judgement, reached)


def run_unreached(options: MutationOptions, jobs: int) -> list[Unreached]:
    """List what no run of the search executes.

    Raises:
        UnknownModuleError: one of the modules is none of the engine's.
    """
    modules = engine_modules(_named(options))
    with stdout_reserved(), RunProgress("mutating") as progress:
        surveyed = _surveyed(engine_spec(_seeds(options)), modules, _seeds(options), jobs, progress)
    return unreached(modules, surveyed.reached)


def target_runs(arguments: Mapping[str, Any]) -> Runs:
    """Give the runs of a pipeline, in whichever process."""
    target = load_target(arguments["target"], arguments["feed"])
    first, *others = target.deployed
    workload = Workload(target.name, first, target.feed, versions=tuple(others))
    return pipeline_runs(workload, target.promises)


def _seeds(options: MutationOptions) -> int:
    return max(1, options.runs // _SURVEYED)


def _named(options: MutationOptions) -> list[str]:
    return [name.strip() for name in options.modules.split(",") if name.strip()]


def _present(path: Path) -> Path | None:
    return path if path.exists() else None


def _modules_of(target: PipelineTarget) -> list[Module]:
    """The modules of the user's that the pipeline is made from."""
    names = [target.name.partition(":")[0]]
    for version in versions_of(target.deployed):
        names += [type(spec.computation).__module__ for spec in version.computations.values()]
    return [module_of(module.__name__) for module in user_modules(names)]


def _anything(_module: Module, _mutation: Mutation) -> bool:
    return True


def _in_computations(target: PipelineTarget, surveyed: Survey) -> Callable[[Module, Mutation], bool]:
    """Code that runs in workers, and what of the computations' methods none has reached; not the input, nor the promises."""

    @cache
    def lines(file: str) -> int:
        reached = surveyed.reached(file)
        taken = [(file, 0, line) for line in lines_of(reached)]
        return reached | bits(
            line for where, line in unreached_methods(target.application, taken) if where == file
        )

    def wanted(module: Module, mutation: Mutation) -> bool:
        here = bits((mutation.line, mutation.statement))
        return not mutation.at_import and bool(lines(module.file) & here)

    return wanted


def _surveyed(spec: RunsSpec, modules: list[Module], seeds: int, jobs: int, progress: RunProgress) -> Survey:
    files = frozenset(module.file for module in modules)
    return survey(spec, files, seeds, jobs, partial(progress.on_part, "runs without mutation"))
