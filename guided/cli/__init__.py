"""The command line: ``guided check``, ``guided generate``, and what other packages add to it."""

from guided.cli.app import main

__all__ = ["main"]
