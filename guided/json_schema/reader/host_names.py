"""Host names and mail addresses, of ASCII and internationalised.

In ASCII: RFC 1123, section 2.1, and RFC 5321, section 4.1.2. Internationalised: RFC 5890 to 5893
and RFC 6531. A name is made of labels of characters that are valid in one (RFC 5892), and none of
the rules about neighbours is broken. The length of the A-label of a label depends on all its
letters and their order. So a label has at most seven characters, or 25 where all but ASCII come
from one alphabet: that many fit into 63 octets whatever they are.
"""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from guided.json_schema.reader.format_patterns import IPV4, IPV6
from guided.json_schema.reader.punycode import (
    END,
    GraphWriter,
    hebrew_labels,
    mixed_labels,
    short_labels,
)
from guided.regular.codepoints import EMPTY, CodePoints
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    End,
    Graph,
    Intersection,
    Regular,
    Repeat,
    Start,
    literal,
)
from guided.regular.patterns import parse_regex

__all__ = ["ALPHABETS", "MOST_OF_ALPHABET", "email", "hostname", "idn_email", "idn_hostname"]

# The longest A-label has 39 characters: with four others of 50 it makes 243.
_MOST_BESIDE: Final = 50
_LETTER = CodePoints.of([(0x41, 0x5A), (0x61, 0x7A)])
_LETTER_OR_DIGIT = CodePoints.of([(0x30, 0x39)]) | _LETTER
_HYPHEN = CodePoints.single("-")
_PREFIX = tuple(
    CodePoints.of((ord(c), ord(c)) for c in either) for either in ("Xx", "Nn", "-", "-")
)
_DOT = Chars(CodePoints.single("."))


def ascii_label(most: int) -> str:
    """Return a label of letters, digits and inner hyphens, at most ``most`` characters."""
    return rf"[A-Za-z0-9](?:[A-Za-z0-9\-]{{0,{most - 2}}}[A-Za-z0-9])?"


def _shapes(most: int) -> tuple[tuple[int, int], ...]:
    """Return how many labels a name of at most ``most`` characters may have, and how long they are.

    Counting both at once takes many thousand states, so a name has few long labels or more short
    ones: those of up to 63 characters, of up to 30, or of up to 14, as many as always fit. Each is
    a number of labels and their greatest length, including the dot after a label.
    """
    return tuple(((most + 1) // (longest + 1), longest) for longest in (63, 30, 14))


def domain(most: int) -> str:
    """Return a name of at most ``most`` characters.

    Valid names of many labels of very different lengths are left out.
    """
    options = (
        rf"{label}(?:\.{label}){{0,{times - 1}}}"
        for times, longest in _shapes(most)
        if (label := ascii_label(longest))
    )
    return f"(?:{'|'.join(options)})"


def hostname() -> Regular:
    """Return names with at most one A-label, and two others on either side of it.

    One of Hebrew comes first: all others before it would also have to begin with a letter, and be
    distinguished from those of a name without it. Valid names may be left out, invalid ones may not
    be included.
    """
    prefix, from_left = literal("xn--"), Alternate((mixed_labels(), short_labels()))
    beside = _plain_label(_MOST_BESIDE)
    # Beside a right-to-left label, others begin with a letter (RFC 5893, section 2).
    letter_first = _plain_label(_MOST_BESIDE, _LETTER)
    names = (
        *(_joined(_plain_label(longest), times) for times, longest in _shapes(253)),
        Concat((Repeat(Concat((beside, _DOT)), 0, 2), prefix, from_left, _more(beside, 2))),
        Concat((prefix, hebrew_labels(), _more(letter_first, 2))),
    )
    return Concat((Start(), Alternate(names), End()))


def _joined(label: Regular, times: int) -> Regular:
    return Concat((label, _more(label, times - 1)))


def _more(label: Regular, most: int) -> Regular:
    return Repeat(Concat((_DOT, label)), 0, most)


def _plain_label(most: int, first: CodePoints = _LETTER_OR_DIGIT) -> Graph:
    """Return a label of at most ``most`` characters that does not begin as A-labels do.

    ``first`` is what it may begin with; it has to include the first character of ``_PREFIX``.
    """
    writer = GraphWriter()
    start = prefix = writer.state()
    sources: tuple[int, ...] = ()
    for count in range(1, most + 1):
        letters = first if count == 1 else _LETTER_OR_DIGIT
        hyphens = EMPTY if count in (1, most) else _HYPHEN
        # After ``count`` characters, the last of which is a letter or digit, or a hyphen.
        here, hyphen = writer.state(), writer.state()
        moves = [(source, letters, hyphens) for source in sources]
        if count <= len(_PREFIX):
            # Beginnings of the prefix have separate states.
            on = _PREFIX[count - 1]
            moves.append((prefix, letters & ~on, hyphens & ~on))
            if count < len(_PREFIX):
                before, prefix = prefix, writer.state()
                writer.move(before, on, prefix)
                writer.move(before, on & letters, END)
        for source, letter, minus in moves:
            writer.move(source, letter, here)
            writer.move(source, letter, END)
            writer.move(source, minus, hyphen)
        sources = here, hyphen
    return writer.graph(start)


IP_LITERAL = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]"


def local_part(more: str) -> str:
    """Return what stands before the "@", with ``more`` characters: atoms and dots, or quoted."""
    atom = rf"[A-Za-z0-9!#$%&'*+\-/=?^_`{{|}}~{more}]+"
    return rf'(?:{atom}(?:\.{atom})*|"(?:[ !#-\[\]-~{more}]|\\[ -~])*")'


def email() -> Regular:
    """Addresses whose local part has at most 64 octets and the whole at most 254 (4.5.3.1)."""
    address = rf"^{local_part('')}@(?:{domain(189)}|{IP_LITERAL})$"
    short = r'^(?:[^"@]{1,64}@|"(?:[^"\\]|\\.){0,31}"@)'
    return Intersection(parse_regex(address), parse_regex(short))


_MOST: Final = 7
MOST_OF_ALPHABET: Final = 25
# Latin, Greek and Cyrillic: letters so close together that Punycode takes two digits for each.
ALPHABETS: Final = ((0xDF, 0x17F), (0x3AC, 0x3CE), (0x430, 0x45F))
_ASCII = CodePoints.of([(0, 0x7F)])
_DOTS = CodePoints.of((ord(c), ord(c)) for c in ".\u3002\uff0e\uff61")
# Letters come from these blocks: Latin, Greek, Cyrillic, Hebrew, Arabic, Devanagari, Thai, a mark
# of Tibetan, Japanese, Chinese and Korean. All of Unicode takes ten times the rows.
_BLOCKS = (
    *(
        (0x30, 0x39),
        (0x61, 0x7A),
        (0xDF, 0x24F),
        (0x300, 0x34E),
        (0x350, 0x52F),
        (0x5D0, 0x5EA),
        (0x620, 0x6FF),
    ),
    *((0x900, 0x97F), (0xE01, 0xE59), (0xF0B, 0xF0B), (0x3005, 0x30FF), (0x4E00, 0x9FFF)),
    (0xAC00, 0xD7A3),
)
# RFC 5892, section 2.6 and appendix A.
_PVALID_EXCEPTIONS = "\u00df\u03c2\u06fd\u06fe\u0f0b\u3007"
_DISALLOWED_EXCEPTIONS = "\u0640\u07fa\u302e\u302f\u3031\u3032\u3033\u3034\u3035\u303b"
_MIDDLE_DOT, _KERAIA, _GERESH, _GERSHAYIM = "\u00b7", "\u0375", "\u05f3", "\u05f4"
_KATAKANA_DOT, _NON_JOINER, _JOINER = "\u30fb", "\u200c", "\u200d"
_CONTEXTUAL = (
    *(_MIDDLE_DOT, _KERAIA, _GERESH, _GERSHAYIM, _KATAKANA_DOT),
    *(_NON_JOINER, _JOINER),
)
_ARABIC_DIGITS = CodePoints.of([(0x660, 0x669)])
_EXTENDED_DIGITS = CodePoints.of([(0x6F0, 0x6F9)])
# Section 2.9, old Hangul; and what Unicode says to ignore by default, among letters and marks.
_OTHERWISE_DISALLOWED = CodePoints.of(
    [
        *((0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB)),
        *((0x034F, 0x034F), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0000, 0xE0FFF)),
    ]
)
# Scripts for which some rules need a neighbour: blocks that contain nothing else.
_GREEK = CodePoints.of([(0x370, 0x373), (0x376, 0x377), (0x37B, 0x37D), (0x388, 0x3E1)])
_HEBREW = CodePoints.of([(0x5D0, 0x5EA)])
_JAPANESE = CodePoints.of([(0x3041, 0x3096), (0x30A1, 0x30FA), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)])
# Arabic letters that join to both sides, and to the right (RFC 5892, appendix A.1).
_DUAL = CodePoints.of(
    [
        *((0x620, 0x620), (0x626, 0x626), (0x628, 0x628), (0x62A, 0x62E), (0x633, 0x63F)),
        *((0x641, 0x647), (0x649, 0x64A)),
    ]
)
_RIGHT = CodePoints.of(
    [(0x622, 0x625), (0x627, 0x627), (0x629, 0x629), (0x62F, 0x632), (0x648, 0x648)]
)


def idn_hostname() -> Regular:
    """Return names whose labels are valid and, if one is written from the right, all allow that.

    First what labels are made of; what breaks a rule about neighbours or directions is then
    removed. So ``_fault`` may be wider than the faults, never narrower.
    """
    letters = _valid() & ~_composing() | CodePoints.of((ord(c), ord(c)) for c in _CONTEXTUAL)
    label = Alternate((_label(letters, letters), *_long_labels(), parse_regex(ascii_label(63))))
    more = Repeat(_sequence(_DOTS, label), 0, 2)
    last = Repeat(_sequence(_DOTS, parse_regex(ascii_label(61))), 0, 1)
    name = Intersection(_sequence(Start(), label, more, last, End()), _fault(), negative=True)
    return Intersection(name, _fault_of_direction(), negative=True)


def idn_email() -> Regular:
    """Addresses with characters outside ASCII, in names to which no rule about neighbours applies.

    ``short`` bounds the local part to 64 octets whatever it is made of; a label does not begin with
    a mark.
    """
    letters = _valid() & ~_bidi("R", "AL", "AN")
    any_letters = _label(letters & ~_marks(), letters)
    label = Alternate((any_letters, *_long_labels(), parse_regex(ascii_label(63))))
    more = Repeat(_sequence(CodePoints.single("."), label), 0, 2)
    host = Alternate((_sequence(label, more), parse_regex(domain(189)), parse_regex(IP_LITERAL)))
    local = parse_regex(local_part(r"\u{80}-\u{10FFFF}"))
    address = _sequence(Start(), local, CodePoints.single("@"), host, End())
    # A code point outside ASCII has at most four octets.
    short = '^(?:[^"@\\u{80}-\\u{10FFFF}]{1,64}|[^"@]{1,16}|"[^"]{0,15}")@'
    return Intersection(address, parse_regex(short))


def _label(first: CodePoints, letters: CodePoints) -> Regular:
    hyphen = Repeat(Chars(CodePoints.single("-")), 0, 1)
    return _sequence(first, Repeat(_sequence(hyphen, letters), 0, _MOST - 1))


def _long_labels() -> Iterator[Regular]:
    """Labels of one alphabet beside ASCII, with single hyphens between.

    A hyphen stands only between two letters or digits.
    """
    for bounds in ALPHABETS:
        letters = CodePoints.of([bounds]) & _valid() & ~_composing()
        letters |= CodePoints.of([(0x30, 0x39), (0x61, 0x7A)])
        writer = GraphWriter()
        start = letter = hyphen = writer.state()
        for count in range(1, MOST_OF_ALPHABET + 1):
            sources, letter_before = {letter, hyphen}, letter
            letter, hyphen = writer.state(), writer.state()
            for source in sources:
                writer.move(source, letters, letter)
                writer.move(source, letters, END)
            if count > 1:
                writer.move(letter_before, CodePoints.single("-"), hyphen)
        yield writer.graph(start)


def _fault() -> Regular:
    """Return a label with misplaced hyphens, or a neighbour that a character does not allow.

    Each of the sequences may occur anywhere in a name, so one that has to stay inside a label must
    not read dots.
    """
    begin, end = _edges()
    inside = ~_DOTS
    hyphen = CodePoints.single("-")
    combining = CodePoints.of((c, c) for c in _code_points() if unicodedata.combining(chr(c)))
    virama = CodePoints.of((c, c) for c in _code_points() if unicodedata.combining(chr(c)) == 9)
    no_japanese = Repeat(Chars(~_JAPANESE & inside), 0, None)
    faults = (
        (begin, inside, inside, hyphen, hyphen),
        (begin, _marks()),
        # Marks may be out of order.
        (combining, combining),
        *_not_after(_JOINER, virama),
        *_not_after(_NON_JOINER, virama | _DUAL),
        (_DUAL, *_not_before(_NON_JOINER, _DUAL | _RIGHT)),
        *_not_after(_MIDDLE_DOT, CodePoints.single("l")),
        _not_before(_MIDDLE_DOT, CodePoints.single("l")),
        _not_before(_KERAIA, _GREEK),
        *_not_after(_GERESH, _HEBREW),
        *_not_after(_GERSHAYIM, _HEBREW),
        (begin, no_japanese, CodePoints.single(_KATAKANA_DOT), no_japanese, end),
        (_ARABIC_DIGITS, Repeat(Chars(inside), 0, None), _EXTENDED_DIGITS),
        (_EXTENDED_DIGITS, Repeat(Chars(inside), 0, None), _ARABIC_DIGITS),
    )
    return Alternate(tuple(_sequence(*parts) for parts in faults))


def _not_after(character: str, wanted: CodePoints) -> tuple[_Parts, ...]:
    single = CodePoints.single(character)
    return (Start(), single), (~wanted, single)


def _not_before(character: str, wanted: CodePoints) -> _Parts:
    return CodePoints.single(character), Alternate((Chars(~wanted), End()))


def _fault_of_direction() -> Regular:
    """Return a name with a right-to-left character and a label that breaks RFC 5893, section 2.

    The rules are in the order of the RFC; the fourth makes two entries. The character may be
    anywhere in the name, even in another label than the one that breaks a rule.
    """
    begin, end = _edges()
    inside = ~_DOTS
    anything = Repeat(Chars(inside), 0, None)
    marks = Repeat(Chars(_bidi("NSM")), 0, None)
    neutral = ("EN", "ES", "CS", "ET", "ON", "BN", "NSM")
    from_right, from_left = _bidi("R", "AL"), _bidi("L")
    rules = (
        (begin, inside & ~_bidi("L", "R", "AL")),
        (begin, from_right, anything, inside & ~_bidi("R", "AL", "AN", *neutral)),
        (begin, from_right, anything, inside & ~_bidi("R", "AL", "EN", "AN", "NSM"), marks, end),
        (begin, from_right, anything, _bidi("EN"), anything, _bidi("AN")),
        (begin, from_right, anything, _bidi("AN"), anything, _bidi("EN")),
        (begin, from_left, anything, inside & ~_bidi("L", *neutral)),
        (begin, from_left, anything, inside & ~_bidi("L", "EN", "NSM"), marks, end),
    )
    broken = Alternate(tuple(_sequence(*parts) for parts in rules))
    return Intersection(Chars(_bidi("R", "AL", "AN")), broken)


_Parts: TypeAlias = tuple[CodePoints | Regular, ...]


def _sequence(*parts: CodePoints | Regular) -> Regular:
    return Concat(tuple(Chars(p) if isinstance(p, CodePoints) else p for p in parts))


def _edges() -> tuple[Regular, Regular]:
    """Return the begin and the end of a label."""
    return Alternate((Start(), Chars(_DOTS))), Alternate((End(), Chars(_DOTS)))


@functools.cache
def _code_points() -> tuple[int, ...]:
    """Letters, digits and marks: the categories that RFC 5892, section 2.1, starts from."""
    wanted = {"Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc"}
    return tuple(c for c in _all_code_points() if unicodedata.category(chr(c)) in wanted)


def _all_code_points() -> Iterator[int]:
    return itertools.chain.from_iterable(range(low, high + 1) for low, high in _BLOCKS)


def _marks() -> CodePoints:
    return CodePoints.of(
        (c, c) for c in _code_points() if unicodedata.category(chr(c)).startswith("M")
    )


@functools.cache
def _valid() -> CodePoints:
    """PVALID of RFC 5892, without the hyphen.

    The result is kept for the process. It includes only code points of ``_BLOCKS``, and no
    capital letters.
    """
    found = (c for c in _code_points() if _is_stable(chr(c)))
    valid = CodePoints.of((c, c) for c in (*found, *map(ord, _PVALID_EXCEPTIONS)))
    exceptions = CodePoints.of((ord(c), ord(c)) for c in _DISALLOWED_EXCEPTIONS)
    return valid & ~(_OTHERWISE_DISALLOWED | exceptions)


def _is_stable(character: str) -> bool:
    """Return whether normalising and case folding leave it unchanged (section 2.2).

    Only for code points of ``_BLOCKS``: its result for others is not checked.
    """
    if character >= "\u4e00":
        return True  # the ideographs and the syllables of the blocks above
    folded = unicodedata.normalize("NFKC", character).casefold()
    return unicodedata.normalize("NFKC", folded) == character


def _composing() -> CodePoints:
    """Return what NFC may join to the character before it, and so may not leave as it is.

    From U+3100 on nothing decomposes into a second part that is in ``_BLOCKS`` and not already
    found.
    """
    second = {
        int(parts[1], 16)
        for c in range(0xC0, 0x3100)
        if len(parts := unicodedata.decomposition(chr(c)).split()) == 2 and parts[0][0] != "<"
    }
    return CodePoints.of((c, c) for c in second)


@functools.cache
def _bidi(*classes: str) -> CodePoints:
    """Return what a label of these bidirectional classes may contain (Unicode Standard Annex 9)."""
    by_class = _by_bidirectional_class()
    return CodePoints.of((c, c) for name in classes for c in by_class.get(name, ()))


@functools.cache
def _by_bidirectional_class() -> Mapping[str, Sequence[int]]:
    by_class: dict[str, list[int]] = {}
    for c in itertools.chain(_all_code_points(), map(ord, ("-", *_CONTEXTUAL))):
        by_class.setdefault(unicodedata.bidirectional(chr(c)), []).append(c)
    return by_class
