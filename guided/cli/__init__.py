"""The command line: ``guided check``, ``generate``, ``grammars``, and other packages' commands."""

from guided.cli.app import main

__all__ = ["main"]
