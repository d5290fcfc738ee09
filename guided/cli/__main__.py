"""The command line, where a launcher runs modules: ``python -m guided.cli``."""

from guided.cli.app import main

main()
