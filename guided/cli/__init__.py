"""The command line: ``guided check``, ``generate``, ``grammars``, and commands of other
packages."""

from guided.cli.app import main

__all__ = ["main"]
