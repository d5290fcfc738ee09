"""Regular expressions as text, of Python and of ECMA-262 → ``Regular`` values.

``printing`` goes the other way, for people.
"""

from guided.regular.patterns.ecma import parse_regex
from guided.regular.patterns.python import parse_python_regex

__all__ = ["parse_python_regex", "parse_regex"]
