"""Regular expressions as text → ``Regular`` values."""

from guided.frontends.regex.parser import parse_regex

__all__ = ["parse_regex"]
