"""Regular expressions of ECMA-262 (section 22.2.1, with the flag ``u``) that are certainly valid.

Which texts are valid is not regular. Here are those with groups in groups to a fixed depth; of
what depends on another place in the text there is only what is right wherever it stands.
"""

from __future__ import annotations

import string
from typing import Final

from guided.regular.expression import (
    Alternate,
    Both,
    Concat,
    End,
    Regular,
    Repeat,
    Start,
    literal,
)
from guided.regular.patterns import parse_regex

__all__ = ["MAX_REGEX_DEPTH", "regex"]

MAX_REGEX_DEPTH: Final = 3

_HEX = "[0-9A-Fa-f]"
_CATEGORIES = r"L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?"
_SET = rf"\\(?:[dDsSwW]|[pP]\{{(?:{_CATEGORIES})\}})"
# No surrogates: whether one stands alone depends on what is next to it.
_UNIT = rf"(?:[0-9A-CE-Fa-ce-f]{_HEX}|[dD][0-7]){_HEX}{{2}}"
_CHARACTER = (
    r"\\(?:[fnrtv^$\\.*+?()\[\]{}|/]|c[A-Za-z]|x"
    rf"{_HEX}{{2}}|u(?:{_UNIT}|\{{{_HEX}{{1,4}}\}}))"
)


# Ranges that are in order whatever they begin and end with.
_RANGES = "0-[1-9]|1-[2-9]|[0-4]-[5-9]|a-[b-z]|[a-m]-[n-z]|A-[B-Z]|[A-M]-[N-Z]"
_BRACKET = rf"\[\^?-?(?:{_RANGES}|[^\\\]\-]|{_SET}|{_CHARACTER}|\\[b\-])*-?\]"
_ATOM = rf"[^\^$\\.*+?()\[\]{{}}|]|\.|{_SET}|{_CHARACTER}|{_BRACKET}"
_BOUNDS = "|".join(rf"{low},(?:[{low}-9]|[1-9]\d+)" for low in range(10))
_TIMES = rf"(?:(?:[*+?]|\{{(?:\d+,?|{_BOUNDS}|[1-9]\d,[1-9]\d\d+)\}})\??)?"
_PLAIN = rf"(?:[\^$|]|\\[bB]|(?:{_ATOM}){_TIMES})*"


# What stands in and behind a group that is referred to: there are as many copies as names.
_SIMPLE = r"(?:(?:[^\^$\\.*+?()\[\]{}|]|\.|\\[dDsSwW])(?:[*+?]\??)?)*"


def _referring() -> Regular:
    """Patterns that begin with their only group, which has a name and is referred to by it."""
    inside, behind = parse_regex(rf"(?:{_SIMPLE}|\[['\"]+\])\)"), parse_regex(_SIMPLE)
    options = []
    for name in string.ascii_lowercase:
        reference = Concat((behind, literal(rf"\k<{name}>")))
        options.append(Concat((literal(f"(?<{name}>"), inside, Repeat(reference, 1, None), behind)))
    return Concat((Start(), Alternate(tuple(options)), End()))


def regex() -> Regular:
    """Valid patterns; at most one group has a name, since names must not repeat."""
    name = r"\?<[A-Za-z_$][A-Za-z0-9_$]*>"
    pattern = _PLAIN
    for _ in range(MAX_REGEX_DEPTH):
        group = rf"\((?:\?:|{name})?{pattern}\)"
        look_around = rf"\(\?<?[=!]{_PLAIN}\)"
        pattern = rf"(?:[\^$|]|\\[bB]|(?:{_ATOM}|{group}){_TIMES}|{look_around})*"
    two_names = r"\(\?<[A-Za-z_$](?:.|\n)*\(\?<[A-Za-z_$]"
    valid = Alternate((parse_regex(f"^{pattern}$"), _referring()))
    return Both(valid, parse_regex(two_names), negative=True)
