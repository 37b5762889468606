"""``python -m millrace_cli``: the command, where its script is not on the path."""

from millrace_cli.main import main

main()
