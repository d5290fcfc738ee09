"""The command line: ``guided check``, ``generate``, ``grammars``, and what other packages add."""

from guided.cli.app import main

__all__ = ["main"]
