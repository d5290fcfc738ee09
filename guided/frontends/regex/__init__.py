"""Regular expressions as text → ``Regular`` values."""

from guided.frontends.regex.lower import lower_regex
from guided.frontends.regex.parser import parse_regex
from guided.frontends.regex.python import parse_python_regex

__all__ = ["lower_regex", "parse_python_regex", "parse_regex"]
