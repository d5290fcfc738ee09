"""Formats as regular expressions: times, addresses, and regular expressions themselves."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Final

from guided.regular.expression import (
    Alternate,
    Concat,
    End,
    Intersection,
    Regular,
    Repeat,
    Start,
    literal,
)
from guided.regular.patterns import parse_regex

__all__ = [
    "DATE",
    "DATE_TIME",
    "DURATION",
    "IPV4",
    "IPV6",
    "IRI",
    "IRI_REFERENCE",
    "MAX_REGEX_DEPTH",
    "TIME",
    "URI",
    "URI_REFERENCE",
    "URI_TEMPLATE",
    "regex",
]

_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = (
    r"(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP_YEAR}-02-29)"
)


def _leap_seconds() -> str:
    """Return a pattern of the times of second 60, which exists only at 23:59 UTC.

    For offsets of whole quarters of an hour: others are left out (``formats.NARROWED_FORMATS``),
    since each takes two more options.
    """
    last_minute, day = 23 * 60 + 59, 24 * 60
    options = ["23:59:60(?:\\.\\d+)?[Zz]"]
    for offset in range(0, day, 15):
        ahead, after = (last_minute + offset) % day, (last_minute - offset) % day
        written = f"{offset // 60:02}:{offset % 60:02}"
        options += [
            rf"{local // 60:02}:{local % 60:02}:60(?:\.\d+)?{sign}{written}"
            for local, sign in ((ahead, r"\+"), (after, "-"))
        ]
    return "|".join(options)


TIME = (
    r"(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
    rf"|{_leap_seconds()})"
)
DATE_TIME = f"{DATE}[Tt]{TIME}"
DURATION = (
    r"P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)"
    r"(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"
    r"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"
)
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _ipv6() -> str:
    """Return a pattern of IPv6 addresses: an option for each number of groups after the "::"."""
    # RFC 3986, section 3.2.2: "::" stands for one group of zeros or more.
    group = r"[0-9A-Fa-f]{1,4}"
    last = rf"(?:{group}:{group}|{IPV4})"
    options = [f"(?:{group}:){{6}}{last}"]
    for after in range(5, -1, -1):
        before = 5 - after
        head = rf"(?:(?:{group}:){{0,{before - 1}}}{group})?" if before else ""
        options.append(rf"{head}::(?:{group}:){{{after}}}{last}")
    options.append(rf"(?:(?:{group}:){{0,5}}{group})?::{group}")
    options.append(rf"(?:(?:{group}:){{0,6}}{group})?::")
    return f"(?:{'|'.join(options)})"


IPV6 = _ipv6()
_UCS = (
    r"\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\u{E1000}-\u{EFFFD}"
).replace(r"\u{E0000}", r"\u{E1000}")
_PRIVATE = r"\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"
_ESCAPED = "%[0-9A-Fa-f]{2}"


@dataclass(frozen=True, slots=True)
class _UriGrammar:
    """The rules of RFC 3986, appendix A, with the further characters of RFC 3987.

    ``characters`` are allowed wherever letters are, ``private`` only in the query; both stand
    inside brackets.
    """

    characters: str = ""
    private: str = ""

    def _character(self, more: str) -> str:
        """Return a pattern of one character; ``more`` are further ones, written for brackets."""
        return rf"(?:[A-Za-z0-9\-._~!$&'()*+,;={self.characters}{more}]|{_ESCAPED})"

    @property
    def _authority(self) -> str:
        """The user, host and port between "//" and the path; all may be empty."""
        user = rf"(?:{self._character(':')}*@)?"
        future = r"[Vv][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+"
        # The dotted quad is also a registered name.
        return rf"{user}(?:\[(?:{IPV6}|{future})\]|{self._character('')}*)(?::\d*)?"

    @property
    def _tail(self) -> str:
        """The query and the fragment, both optional."""
        return rf"(?:\?{self._character(':@/?' + self.private)}*)?(?:#{self._character(':@/?')}*)?"

    @property
    def absolute(self) -> str:
        """A pattern of URIs; its alternatives are grouped, so that it can be a part of another."""
        segment = self._character(":@")
        rest = rf"(?://{self._authority}(?:/{segment}*)*|/(?:{segment}+(?:/{segment}*)*)?"
        return rf"[A-Za-z][A-Za-z0-9+.\-]*:{rest}|(?:{segment}+(?:/{segment}*)*)?){self._tail}"

    @property
    def reference(self) -> str:
        """A pattern of URI references: absolute, or relative to another URI.

        The first segment of a relative path has no colon, or it would be read as a scheme.
        """
        segment = self._character(":@")
        relative = (
            rf"(?://{self._authority}(?:/{segment}*)*|/(?:{segment}+(?:/{segment}*)*)?"
            rf"|(?:{self._character('@')}+(?:/{segment}*)*)?){self._tail}"
        )
        return f"(?:{self.absolute}|{relative})"


URI = _UriGrammar().absolute
URI_REFERENCE = _UriGrammar().reference
IRI = _UriGrammar(_UCS, _PRIVATE).absolute
IRI_REFERENCE = _UriGrammar(_UCS, _PRIVATE).reference
# RFC 6570, section 2. The apostrophe is a literal by erratum 6937; the operators reserved for later
# versions are left out.
_LITERAL = rf"(?:[!#-$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{_ESCAPED})"
_LETTER = rf"(?:[A-Za-z0-9_]|{_ESCAPED})"
_VARIABLE = rf"{_LETTER}(?:\.?{_LETTER})*(?::[1-9]\d{{0,3}}|\*)?"
URI_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
MAX_REGEX_DEPTH: Final = 3
_HEX = "[0-9A-Fa-f]"
_CATEGORIES = r"L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?"
_CLASS_ESCAPE = rf"\\(?:[dDsSwW]|[pP]\{{(?:{_CATEGORIES})\}})"
# No surrogates: whether one stands alone depends on its neighbours.
_CODE_UNIT = rf"(?:[0-9A-CE-Fa-ce-f]{_HEX}|[dD][0-7]){_HEX}{{2}}"
_CHARACTER_ESCAPE = (
    r"\\(?:[fnrtv^$\\.*+?()\[\]{}|/]|c[A-Za-z]|x"
    rf"{_HEX}{{2}}|u(?:{_CODE_UNIT}|\{{{_HEX}{{1,4}}\}}))"
)
# Ranges that are in order whatever they begin and end with.
_RANGES = "0-[1-9]|1-[2-9]|[0-4]-[5-9]|a-[b-z]|[a-m]-[n-z]|A-[B-Z]|[A-M]-[N-Z]"
_CHARACTER_CLASS = (
    rf"\[\^?-?(?:{_RANGES}|[^\\\]\-]|{_CLASS_ESCAPE}|{_CHARACTER_ESCAPE}|\\[b\-])*-?\]"
)
_ATOM = rf"[^\^$\\.*+?()\[\]{{}}|]|\.|{_CLASS_ESCAPE}|{_CHARACTER_ESCAPE}|{_CHARACTER_CLASS}"
_BOUNDS = "|".join(rf"{low},(?:[{low}-9]|[1-9]\d+)" for low in range(10))
_QUANTIFIER = rf"(?:(?:[*+?]|\{{(?:\d+,?|{_BOUNDS}|[1-9]\d,[1-9]\d\d+)\}})\??)?"
_WITHOUT_GROUPS = rf"(?:[\^$|]|\\[bB]|(?:{_ATOM}){_QUANTIFIER})*"
# The content of a group with a back reference, and what follows it: simple, as there is a copy for
# each name.
_SIMPLE = r"(?:(?:[^\^$\\.*+?()\[\]{}|]|\.|\\[dDsSwW])(?:[*+?]\??)?)*"


def _with_back_reference() -> Regular:
    """Return patterns whose only group comes first, has a name and is referred to by it.

    The automaton has a copy for each name, so names are one letter, and a group contains something
    simple, or quotes as in ``(?<q>['"])``. Valid patterns may be left out, but nothing invalid may
    be included.
    """
    inside, after = parse_regex(rf"(?:{_SIMPLE}|\[['\"]+\])\)"), parse_regex(_SIMPLE)
    options = []
    for name in string.ascii_lowercase:
        reference = Concat((after, literal(rf"\k<{name}>")))
        options.append(Concat((literal(f"(?<{name}>"), inside, Repeat(reference, 1, None), after)))
    return Concat((Start(), Alternate(tuple(options)), End()))


def regex() -> Regular:
    """Return valid regular expressions, in which at most one group has a name.

    Nothing invalid may be included; ``formats.NARROWED_FORMATS`` says what is left out. Automata
    cannot count brackets, so groups nest only to a depth of MAX_REGEX_DEPTH.
    """
    name = r"\?<[A-Za-z_$][A-Za-z0-9_$]*>"
    pattern = _WITHOUT_GROUPS
    for _ in range(MAX_REGEX_DEPTH):
        group = rf"\((?:\?:|{name})?{pattern}\)"
        look_around = rf"\(\?<?[=!]{_WITHOUT_GROUPS}\)"
        pattern = rf"(?:[\^$|]|\\[bB]|(?:{_ATOM}|{group}){_QUANTIFIER}|{look_around})*"
    two_names = r"\(\?<[A-Za-z_$][^]*\(\?<[A-Za-z_$]"
    valid = Alternate((parse_regex(f"^{pattern}$"), _with_back_reference()))
    return Intersection(valid, parse_regex(two_names), negative=True)
