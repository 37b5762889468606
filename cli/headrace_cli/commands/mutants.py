"""``headrace mutants``: check that each broken protocol of the catalogue is caught."""

from typing import Annotated

import typer

from headrace_cli.options.option_groups import JsonOption, with_options
from headrace_cli.options.pools import PoolOptions

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace mutants
  headrace mutants "ack before commit" "timers latest first"
  headrace mutants --list
  headrace mutants --protocol my_rules:EagerAcks
  headrace mutants --examples 100 --jobs 2 --json > matrix.json
  headrace mutants --master spark://host:7077

[bold]Exit codes[/]
  0 every mutant was activated and killed, 1 one was not, 2 usage error, 130 interrupted"""


@app.command("mutants", epilog=_EXAMPLES)
@with_options
def mutants(
    pools: PoolOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names of mutants. Default: all."),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", "--seeds", min=1, help="Maximum number of runs to kill each mutant.")
    ] = 1_000,
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Hunt a class of [bold]headrace.rules.Rules[/] of your own, on every workload; up to 25 runs on each.",
        ),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Describe each mutant without running it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run broken protocols until an invariant catches each, and print which invariant killed which mutant.

    A mutant is the engine with one rule broken. If one survives, or is never activated, the oracles or the faults are too weak.
    The plan that kills is shrunk; 0 faults means that a healthy run kills, too.
    """
    from headrace_cli.actions.mutants_action import hunt_mutants, hunt_own, print_catalogue

    pools.check()
    if list_only:
        print_catalogue(names or [], as_json=as_json)
        return
    if protocol is not None:
        raise typer.Exit(hunt_own(protocol, min(examples, 25), as_json=as_json))
    raise typer.Exit(hunt_mutants(names or [], examples, pools, as_json=as_json))
