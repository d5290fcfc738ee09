"""Formats: what each accepts and rejects; Python's own readers as oracles where it has them."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import re
from datetime import date, datetime, timedelta

import idna
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import LimitExceededError
from guided.json_schema.reader.formats import (
    MAX_FORMAT_LENGTHS,
    NARROWED_FORMATS,
    format_regular,
    known_formats,
)
from guided.json_schema.reader.keywords import Draft
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.patterns import parse_regex
from tests.kit.effort import times
from tests.unit.json_schema.documents import accepts, machine_of

_MANY = ".".join(["a" * 63] * 3)
_CASES: list[tuple[str, list[str], list[str]]] = [
    (
        "date",
        ["0000-01-01", "1963-06-19", "2020-02-29", "2000-02-29", "0000-02-29", "9999-12-31"],
        ["1900-02-29", "2021-02-29", "2020-13-01", "2020-04-31", "2020-1-01", "2020-01-0१", ""],
    ),
    (
        "time",
        ["08:30:06Z", "08:30:06.123456789z", "23:59:60Z", "01:29:60+01:30", "15:59:60.5-08:00"],
        ["08:30:06", "24:00:00Z", "22:59:60Z", "23:59:61Z", "23:59:60+01:00", "1:00:00Z"],
    ),
    (
        "date-time",
        ["1963-06-19T08:30:06.28Z", "1998-12-31t15:59:60-08:00", "1985-04-12T00:59:59+23:59"],
        ["1963-06-19 08:30:06Z", "1990-02-31T15:59:59Z", "1985-04-12T23:20:50+01", "+01963-06-19T"],
    ),
    (
        "duration",
        ["P4DT12H30M5S", "P4Y", "PT0S", "P1M", "PT1M", "P2W", "P1Y2M3D", "P" + "9" * 30 + "Y"],
        ["P", "PT", "P1YT", "P2D1Y", "P1D2H", "4D", "P1Y3D", "P1W1D", "PT1H2S", "P1.5Y", "p1Y"],
    ),
    (
        "email",
        [
            "joe.bloggs@example.com",
            '"joe@ \\" bloggs"@example.com',
            "a@[127.0.0.1]",
            "a@[IPv6:::1]",
            "a" * 64 + "@b",
            "x@localhost",
        ],
        [
            "2962",
            ".a@b.c",
            "a.@b.c",
            "a..b@b.c",
            "a@b=c",
            "a@[127.0.0.300]",
            "a b@c.d",
            "a@",
            "a" * 65 + "@b",
            "a@b@c",
            "a@-b",
            "a@" + "b" * 64,
            "a@b.",
            "é@b.c",
        ],
    ),
    (
        "idn-email",
        [
            *(
                "실례@실례.테스트",
                "joe@example.com",
                '"δ ή"@example.com',
                "é" * 16 + "@example.com",
            ),
            *(r'"a\"@b"@example.com', "a@b--c.de", "a@a\u0301.de"),
            "@".join(("a" * 64, ".".join(("b" * 63, "c" * 63, "d" * 61)))),
        ],
        [
            *("2962", "a＠example.com", "é" * 33 + "@example.com", "a@-b", "a@б-", "a@b..c"),
            r'"a\"@' + "b" * 60 + '"@example.com',
            *("a@xn--zzz", "a@b.xn--zzz.de"),
            "@".join(("a" * 64, ".".join(("b" * 63, "c" * 63, "d" * 62)))),
        ],
    ),
    (
        "hostname",
        [
            *("www.example.com", "1host", "a--b.com", "a" * 63, _MANY, "a" * 14 + ".b" * 11),
            *("x", "xn", "xna", "x-n", "Xn-a", "x--n", "xnn--a", "r3---sn-a.com"),
            *("www.xn--mnchen-3ya.co.uk", "xn--4dbc5h.com", "xn--zca"),
        ],
        [
            "",
            ".",
            ".a",
            "a.",
            "-a",
            "a-",
            "a_b",
            "a" * 64,
            "a．b",
            "a\n",
            "xn--X",
            "a.XN--b",
            "xn-",
            "xn--",
            "xn--mnchen-3ya.xn--mnchen-3ya",
            "xn--4dbc5h.1a",
            "1a.xn--4dbc5h",
            ".".join(["a" * 63] * 4),
            "Kelvin",
        ],
    ),
    (
        "idn-hostname",
        [
            "실례.테스트",
            "ßς་〇",
            "l·l",
            "α͵β",
            "א׳ב",
            "・ぁ",
            "ب٠ب",
            "क्\u200dष",
            "a。b",
            "a" * 63,
            "בי\u200cבי".replace("ב", "ب").replace("י", "ي"),
            "münchen",
        ],
        [
            "-a",
            "a-",
            "aa--b",
            "̀a",
            "a·l",
            "α͵S",
            "A׳ב",
            "・",
            "ب٠۰",
            "क\u200dष",
            "xn--X",
            "a..b",
            "0a.א",
            "0ا",
            "aא",
            "א0٠",
            "ü" * 60,
            "x\u200cy",
            "a。",
            "",
            "Ü",
            "é",
        ],
    ),
    (
        "ipv4",
        ["0.0.0.0", "255.255.255.255"],
        ["256.0.0.0", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4 "],
    ),
    (
        "ipv6",
        ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::8", "1:2:3:4:5:6:1.2.3.4"],
        [
            ":",
            "1::2::3",
            "12345::",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "::1%0",
            "::1.2.3.04",
            "1:",
        ],
    ),
    (
        "uri",
        [
            "http://foo.bar/?baz=qux#quux",
            "ldap://[2001:db8::7]/c=GB?x?y",
            "urn:a:b",
            "file:/etc",
            "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com",
            "http://999.1.1.1/",
            "a:",
            "a://",
        ],
        [
            "//foo.bar",
            "/abc",
            "abc",
            "http:// x",
            "1http://a",
            "http://a:b/",
            "http://[:1]",
            "a:é",
            "http://a/%6G",
            "http://a/%",
            "http:/[::1]",
            "http://a\\b",
            "bar,baz:foo",
            "http://a/{b}",
        ],
    ),
    (
        "uri-reference",
        ["http://foo.bar/", "//foo.bar/?a#b", "/abc", "abc", "#f", "?q", "", "//", "./a:b"],
        ["\\\\a", "#a\\b", "1:b", "//a@b@c/", "/[::1]", "//a:b/p", "/%zz", "é"],
    ),
    (
        "iri",
        ["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://a/?\ue000", "urn:é"],
        ["/é", "é", "http://a/\ue000"],
    ),
    ("iri-reference", ["//ƒøø.ßår/", "âππ", "#ƒ"], ["\\\\é", "#é\\m", "\ufffe"]),
    (
        "uri-template",
        ["", "http://a/{term:1}/{+x,y*}", "a%41b{;a.b}", "{v:1000}", "é'", "{%41}"],
        ["{", "}", "{}", "{a,,b}", "{v:0}", "{v:10000}", "{v:01}", "a b", "{a..b}", "{a=b}", "%4"],
    ),
    ("json-pointer", ["", "/", "/a~0b~1", "//"], ["a", "/~", "/~2", "#"]),
    (
        "relative-json-pointer",
        ["0", "1/a", "12#", "0+1/a", "3-2#"],
        ["", "/a", "01", "-1", "0##", "1a", "+1"],
    ),
    (
        "uuid",
        ["2EB8AA08-AA98-11EA-B4AA-73B441D16380", "00000000-0000-0000-0000-000000000000"],
        ["2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380", "g" * 36],
    ),
    (
        "uuid4",
        ["98d80576-482e-427f-8434-7f86890ab222"],
        ["99c17cbb-656f-164a-940f-1a4568f03487", "98d80576-482e-427f-c434-7f86890ab222"],
    ),
    (
        "regex",
        [
            "",
            "([abc])+\\s+$",
            "(?<name>x)",
            "(?<=a+)b",
            "[]",
            "[^]",
            "\\cA",
            "a{2,10}?|[a-z\\-]\\u{61}",
            "(?<n>a)\\k<n>",
            "(?<q>['\"]).*?\\k<q>\\k<q>",
            "(?<n>a)\\\\k<m>",
        ],
        [
            "^(abc]",
            "a)",
            "*",
            "a**",
            "a{2,1}",
            "\\a",
            "(?P<n>x)",
            "(?i)a",
            "[z-a]",
            "{",
            "\\",
            "(?#a)",
            "(?<n>a)(?<n>b)",
            "(?<n>a)\r(?<n>b)",
            "(?<n>a)\u2028(?<n>b)",
            "\\k<n>",
            "(?<n>a)\\k<m>",
            "(?<n>a)(b)\\k<c>",
            "(?<n>a)\\k",
            "(?<n>a)\\k<n",
            "\\ud800",
            "(?=a)*",
            "[\\d-z]",
            "]",
        ],
    ),
]


@functools.cache
def _dfa(name: str) -> Dfa:
    regular = format_regular(name)
    assert regular is not None
    return dfa_from_regular(regular, search=True)


@pytest.mark.parametrize(("name", "accepted", "rejected"), _CASES, ids=[case[0] for case in _CASES])
def test_a_format_is_that_of_its_specification(
    name: str, accepted: list[str], rejected: list[str]
) -> None:
    assert [text for text in accepted if not _dfa(name).accepts(text)] == []
    assert [text for text in rejected if _dfa(name).accepts(text)] == []


_HANDREWS = (["0", "1/a", "12#", "0/0+1"], ["0+1", "1-2/a", "0+1#", "01", "/a"])
_BHUTTON = (["0", "1/a", "0+1", "1-2/a", "0+1#"], ["01", "/a", "0+", "0+01"])


@pytest.mark.parametrize(
    ("draft", "cases"),
    [
        *((draft, _HANDREWS) for draft in Draft if draft <= Draft.DRAFT_7),
        *((draft, _BHUTTON) for draft in Draft if draft > Draft.DRAFT_7),
    ],
)
def test_relative_pointers_shift_no_index_up_to_draft_7(
    draft: Draft, cases: tuple[list[str], list[str]]
) -> None:
    machine = machine_of(
        {"$schema": draft.uri, "type": "string", "format": "relative-json-pointer"}
    )
    accepted, rejected = cases
    assert [text for text in accepted if not accepts(machine, f'"{text}"')] == []
    assert [text for text in rejected if accepts(machine, f'"{text}"')] == []


def test_every_format_has_an_automaton_of_moderate_size() -> None:
    for name in known_formats():
        _dfa(name).check()
        assert len(_dfa(name)) < 5000, name


def test_formats_of_bounded_length_are_listed_with_the_length_of_their_longest_string() -> None:
    found = {name: _longest(_dfa(name)) for name in known_formats()}
    assert {name: length for name, length in found.items() if length is not None} == (
        MAX_FORMAT_LENGTHS
    )


def _longest(dfa: Dfa) -> int | None:
    """The length of the longest string of an automaton; ``None`` if some have over 300 letters."""
    states, length = np.zeros(1, np.int64), 0
    while length <= 300:
        following = np.unique(dfa.next[states])
        # Every state leads to acceptance, so the last states that are reached accept.
        states = following[following != DEAD]
        if not len(states):
            return length
        length += 1
    return None


def test_what_is_narrowed_is_a_format() -> None:
    assert set(NARROWED_FORMATS) <= set(known_formats())
    assert format_regular("no such format") is None


@st.composite
def _members(draw: st.DrawFn, name: str, length: int = 40) -> str:
    """A text of the format: a random walk, beyond ``length`` only along moves towards the end."""
    dfa = _dfa(name)
    distance = _distances(name)
    state, text = 0, ""
    while True:
        if dfa.label[state] != DEAD and (len(text) > length or draw(st.integers(0, 9)) == 0):
            return text
        moves = [i for i, target in enumerate(dfa.next[state].tolist()) if target != DEAD]
        if not moves:
            return text
        if len(text) > length:
            moves = [i for i in moves if distance[int(dfa.next[state, i])] < distance[state]]
        index = draw(st.sampled_from(moves))
        low, high = draw(st.sampled_from(dfa.classes[index].ranges))
        text += chr(draw(st.integers(low, high)))
        state = int(dfa.next[state, index])


@functools.cache
def _distances(name: str) -> list[int]:
    """For each state of a format, the number of code points to an accepting one."""
    dfa = _dfa(name)
    far = len(dfa) + 1
    distance = [0 if label != DEAD else far for label in dfa.label.tolist()]
    changed = True
    while changed:
        changed = False
        for state, row in enumerate(dfa.next.tolist()):
            nearest = 1 + min((distance[target] for target in row if target != DEAD), default=far)
            if nearest < distance[state]:
                distance[state], changed = nearest, True
    return distance


@settings(deadline=None)
@given(st.dates(), st.integers(1, 31))
def test_a_date_is_one_that_the_calendar_has(day: date, number: int) -> None:
    text = f"{day.year:04}-{day.month:02}-{number:02}"
    try:
        date.fromisoformat(text)
    except ValueError:
        assert not _dfa("date").accepts(text)
    else:
        assert _dfa("date").accepts(text)


@settings(deadline=None, max_examples=times(30))
@given(_members("date-time"))
def test_every_date_time_can_be_read(text: str) -> None:
    whole, _, fraction = text.upper().partition(".")
    zone = re.sub(r"^\d+", "", fraction) if fraction else ""
    if whole[:4] == "0000":
        whole = "0004" + whole[4:]  # a leap year as well, and one that Python knows
    if whole[17:19] == "60":
        whole = whole[:17] + "59" + whole[19:]
    datetime.fromisoformat(whole + zone)


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 24 * 60 - 1), st.integers(-95, 95))
def test_a_leap_second_comes_at_midnight_of_utc(minute: int, quarters: int) -> None:
    written = f"{abs(quarters) // 4:02}:{abs(quarters) % 4 * 15:02}"
    text = f"{minute // 60:02}:{minute % 60:02}:60{'-' if quarters < 0 else '+'}{written}"
    utc = timedelta(minutes=minute - 15 * quarters) % timedelta(days=1)
    assert _dfa("time").accepts(text) == (utc == timedelta(hours=23, minutes=59))
    local = (23 * 60 + 59 + 15 * quarters) % (24 * 60)
    right = f"{local // 60:02}:{local % 60:02}{text[5:]}"
    assert _dfa("time").accepts(right)


@settings(deadline=None)
@given(st.ip_addresses(v=4).map(str), st.text("0123456789.", max_size=15))
def test_ipv4_is_what_the_standard_library_reads(address: str, other: str) -> None:
    assert _dfa("ipv4").accepts(address)
    assert _dfa("ipv4").accepts(other) == _reads(ipaddress.IPv4Address, other)


@settings(deadline=None, max_examples=300)
@given(
    st.ip_addresses(v=6),
    st.lists(st.sampled_from(["::", ":", "1", "ffff", "0a", "1.2.3.4", "12345"]), max_size=16),
)
def test_ipv6_is_what_the_standard_library_reads(
    address: ipaddress.IPv6Address, pieces: list[str]
) -> None:
    assert _dfa("ipv6").accepts(str(address))
    assert _dfa("ipv6").accepts(address.exploded.upper())
    other = "".join(pieces)
    assert _dfa("ipv6").accepts(other) == _reads(ipaddress.IPv6Address, other)


@settings(deadline=None, max_examples=times(30))
@given(_members("ipv6"))
def test_every_ipv6_address_is_one_for_the_standard_library(text: str) -> None:
    ipaddress.IPv6Address(text)


def _reads(reader: type[ipaddress.IPv4Address | ipaddress.IPv6Address], text: str) -> bool:
    try:
        reader(text)
    except ValueError:
        return False
    return True


@settings(deadline=None, max_examples=times(30))
@given(_members("hostname", 230))
def test_a_host_name_is_no_longer_than_it_may_be(text: str) -> None:
    assert len(text) <= 253
    for label in text.split("."):
        assert re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", label), label
        if label[:4].lower() == "xn--":
            assert idna.encode(idna.decode(label)) == label.encode(), label


@settings(deadline=None, max_examples=times(30))
@given(_members("email", 200))
def test_an_address_is_no_longer_than_it_may_be(text: str) -> None:
    local, _, _ = text.rpartition("@")
    assert len(local) <= 64
    assert len(text) <= 254


@settings(deadline=None, max_examples=times(30))
@given(_members("idn-hostname", 30))
def test_a_label_fits_when_it_is_encoded(text: str) -> None:
    for label in re.split("[.\u3002\uff0e\uff61]", text):
        assert label.isascii() or len(b"xn--" + label.encode("punycode")) <= 63


@settings(deadline=None, max_examples=times(30))
@given(_members("regex", 30))
def test_every_pattern_of_the_format_regex_is_read_as_one(text: str) -> None:
    # References are valid, but no text that could be read as an expression.
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\k<[a-z]>", r"\1(?:)", text)
    with contextlib.suppress(LimitExceededError):
        parse_regex(text)
