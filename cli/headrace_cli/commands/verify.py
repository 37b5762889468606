"""``headrace verify``: search for a fault schedule that breaks a pipeline, and shrink it."""

import typer

from headrace_cli.options.option_groups import OutputOptions, PipelineArgument, with_options
from headrace_cli.options.pools import PoolOptions
from headrace_cli.options.program_options import ArgumentsOption, ProgramOptions
from headrace_cli.options.search_options import ScopeOptions, SearchOptions
from headrace_cli.options.target_options import TargetOptions

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace verify headrace_scenarios.zeitgeist:pipeline
  headrace verify my_job:pipeline --examples 10000 --seed 7
  headrace verify my_job:pipeline --version my_job:next_pipeline
  headrace verify job_v2.py --version job_v1.py
  headrace verify my_job:pipeline --search exhaustive --records 2 --faults 1 --delays 1
  headrace verify my_job:pipeline --search pct --depth 3
  headrace verify my_job:pipeline --json > report.json
  headrace verify jobs/stream.py --env BROKERS=kafka:9092 -- --topic orders
  headrace verify -m package.stream --query orders
  headrace verify jobs/stream.py --on spark
  headrace verify my_spark_job:write_batch --schema 'account STRING, amount INT' --on spark

[bold]Exit codes[/]
  0 holds; 1 violated: a failure changes what comes out, a promise is broken, something is lost or doubled, or code raises,
  hangs or escapes; 3 undeclared: only you can say what is meant, and a line of code answers it (1 with --strict), or unknown:
  no run exercised it; 2 usage error; 130 interrupted"""


@app.command("verify", epilog=_EXAMPLES)
@with_options
def verify(
    context: typer.Context,
    pipeline: PipelineArgument,
    options: SearchOptions,
    pools: PoolOptions,
    scope: ScopeOptions,
    target: TargetOptions,
    program: ProgramOptions,
    output: OutputOptions,
    arguments: ArgumentsOption = None,
) -> None:
    """Run a pipeline through many fault schedules in a simulated cluster, and judge each run.

    The invariants of the protocol and the promises of the module must hold in each. If one breaks,
    the schedule is shrunk to a smallest one that still breaks it, and saved as a file to replay.
    """
    from headrace_cli.actions.verify_action import verify_target

    raise typer.Exit(
        verify_target(context, pipeline, target, options, pools, scope, program, output, arguments or ())
    )
