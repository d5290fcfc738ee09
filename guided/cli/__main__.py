"""The command line as a module: ``python -m guided.cli``."""

from guided.cli.app import main

main()
