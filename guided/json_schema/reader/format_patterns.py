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


def _leap_second() -> str:
    """Times of second 60, which exists only at 23:59 UTC, in every offset of quarter hours.

    Other offsets are left out, as ``formats.NARROWED_FORMATS`` says: each takes two more options.
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
    rf"|{_leap_second()})"
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
    """Return all spellings of an IPv6 address.

    There is an option for each number of groups after the double colon.
    """
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
class _Grammar:
    """The rules of RFC 3986, appendix A, with the further characters of RFC 3987.

    ``characters`` are allowed wherever letters are, ``private`` only in the query; both stand
    inside brackets.
    """

    characters: str = ""
    private: str = ""

    def _any_of(self, more: str) -> str:
        return rf"(?:[A-Za-z0-9\-._~!$&'()*+,;={self.characters}{more}]|{_ESCAPED})"

    @property
    def _authority(self) -> str:
        """What stands between two slashes and the path: user, host and port.

        All parts may be empty.
        """
        user = rf"(?:{self._any_of(':')}*@)?"
        future = r"[Vv][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+"
        # The dotted quad is also a registered name.
        return rf"{user}(?:\[(?:{IPV6}|{future})\]|{self._any_of('')}*)(?::\d*)?"

    @property
    def _tail(self) -> str:
        return rf"(?:\?{self._any_of(':@/?' + self.private)}*)?(?:#{self._any_of(':@/?')}*)?"

    @property
    def absolute(self) -> str:
        """URI.

        Alternatives stand in groups, so that it may be put into a longer expression as it is.
        """
        segment = self._any_of(":@")
        rest = rf"(?://{self._authority}(?:/{segment}*)*|/(?:{segment}+(?:/{segment}*)*)?"
        return rf"[A-Za-z][A-Za-z0-9+.\-]*:{rest}|(?:{segment}+(?:/{segment}*)*)?){self._tail}"

    @property
    def reference(self) -> str:
        """URI-reference: absolute, or relative to another one.

        The first segment of a relative path has no colon, or it would be read as a scheme.
        """
        segment = self._any_of(":@")
        relative = (
            rf"(?://{self._authority}(?:/{segment}*)*|/(?:{segment}+(?:/{segment}*)*)?"
            rf"|(?:{self._any_of('@')}+(?:/{segment}*)*)?){self._tail}"
        )
        return f"(?:{self.absolute}|{relative})"


URI = _Grammar().absolute
URI_REFERENCE = _Grammar().reference
IRI = _Grammar(_UCS, _PRIVATE).absolute
IRI_REFERENCE = _Grammar(_UCS, _PRIVATE).reference
# RFC 6570, section 2. The apostrophe is a literal by erratum 6937; the operators reserved for later
# versions are left out.
_LITERAL = rf"(?:[!#-$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{_ESCAPED})"
_LETTER = rf"(?:[A-Za-z0-9_]|{_ESCAPED})"
_VARIABLE = rf"{_LETTER}(?:\.?{_LETTER})*(?::[1-9]\d{{0,3}}|\*)?"
URI_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
MAX_REGEX_DEPTH: Final = 3
_HEX = "[0-9A-Fa-f]"
_CATEGORIES = r"L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?"
_SET = rf"\\(?:[dDsSwW]|[pP]\{{(?:{_CATEGORIES})\}})"
# No surrogates: whether one stands alone depends on its neighbours.
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
# What may stand in and after a group that is referred to: there are as many copies as names.
_SIMPLE = r"(?:(?:[^\^$\\.*+?()\[\]{}|]|\.|\\[dDsSwW])(?:[*+?]\??)?)*"


def _referring() -> Regular:
    """Patterns that begin with their only group, which has a name and is referred to by it.

    Not all of them: the automaton has a copy for each name, so names are one letter, and a group
    contains something simple, or quotes as in ``(?<q>['"])``. Valid patterns may be left out, but
    nothing invalid may be included.
    """
    inside, after = parse_regex(rf"(?:{_SIMPLE}|\[['\"]+\])\)"), parse_regex(_SIMPLE)
    options = []
    for name in string.ascii_lowercase:
        reference = Concat((after, literal(rf"\k<{name}>")))
        options.append(Concat((literal(f"(?<{name}>"), inside, Repeat(reference, 1, None), after)))
    return Concat((Start(), Alternate(tuple(options)), End()))


def regex() -> Regular:
    """Valid patterns; at most one group has a name, since names must not repeat.

    Nothing invalid may be included; ``formats.NARROWED_FORMATS`` says what is left out. Automata
    cannot count brackets, so groups nest only to a depth of MAX_REGEX_DEPTH.
    """
    name = r"\?<[A-Za-z_$][A-Za-z0-9_$]*>"
    pattern = _PLAIN
    for _ in range(MAX_REGEX_DEPTH):
        group = rf"\((?:\?:|{name})?{pattern}\)"
        look_around = rf"\(\?<?[=!]{_PLAIN}\)"
        pattern = rf"(?:[\^$|]|\\[bB]|(?:{_ATOM}|{group}){_TIMES}|{look_around})*"
    two_names = r"\(\?<[A-Za-z_$](?:.|\n)*\(\?<[A-Za-z_$]"
    valid = Alternate((parse_regex(f"^{pattern}$"), _referring()))
    return Intersection(valid, parse_regex(two_names), negative=True)
