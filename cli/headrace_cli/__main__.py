"""``python -m headrace_cli``: the command, where its script is not on the path."""

from headrace_cli.main import main

main()
