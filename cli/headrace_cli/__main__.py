"""Run the command as ``python -m headrace_cli`` where its script is not on the path."""

from headrace_cli.main import main

main()
