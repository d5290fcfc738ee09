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
    GraphBuilder,
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

__all__ = ["ALPHABETS", "MAX_ALPHABET_LABEL", "email", "hostname", "idn_email", "idn_hostname"]

# The most characters of a label beside an A-label. The longest A-label has 39, so that a name of it
# with four others, and the dots, has at most 243.
_MAX_BESIDE_A_LABEL: Final = 50
_LETTER = CodePoints.from_ranges([(0x41, 0x5A), (0x61, 0x7A)])
_LETTER_OR_DIGIT = CodePoints.from_ranges([(0x30, 0x39)]) | _LETTER
_HYPHEN = CodePoints.single("-")
_ACE_PREFIX = tuple(
    CodePoints.from_ranges((ord(c), ord(c)) for c in either) for either in ("Xx", "Nn", "-", "-")
)
"""The characters of the prefix "xn--" of A-labels, in either case."""
_DOT = Chars(CodePoints.single("."))


def ascii_label(max_length: int) -> str:
    """Return a pattern of labels of up to ``max_length`` letters, digits and inner hyphens."""
    return rf"[A-Za-z0-9](?:[A-Za-z0-9\-]{{0,{max_length - 2}}}[A-Za-z0-9])?"


def _label_limits(max_length: int) -> tuple[tuple[int, int], ...]:
    """Return three limits of labels, by each of which names have at most ``max_length`` characters.

    Each is a pair: the most labels of a name, and the most characters of a label. Counting both
    labels and characters takes many thousand states, so a name has few long labels or more short
    ones: of up to 63, 30 or 14 characters, as many as always fit with the dots between.
    """
    return tuple(
        ((max_length + 1) // (max_label_length + 1), max_label_length)
        for max_label_length in (63, 30, 14)
    )


def domain(max_length: int) -> str:
    """Return a pattern of names of at most ``max_length`` characters.

    Valid names of many labels of very different lengths are left out.
    """
    options = (
        rf"{label}(?:\.{label}){{0,{max_labels - 1}}}"
        for max_labels, max_label_length in _label_limits(max_length)
        if (label := ascii_label(max_label_length))
    )
    return f"(?:{'|'.join(options)})"


def hostname() -> Regular:
    """Return the expression of a whole ASCII host name, of at most 253 characters.

    Either no label is an A-label, and ``_label_limits`` bounds the labels. Or one is, after a
    lower-case "xn--", with up to two other labels on either side, but none before a Hebrew one:
    automata would have to remember whether all of these began with a letter. Valid names may be
    left out, but invalid ones must not be included.
    """
    ace_prefix, left_to_right = literal("xn--"), Alternate((mixed_labels(), short_labels()))
    neighbour = _plain_label(_MAX_BESIDE_A_LABEL)
    # Beside a right-to-left label, others begin with a letter (RFC 5893, section 2).
    letter_first = _plain_label(_MAX_BESIDE_A_LABEL, _LETTER)
    before = Repeat(Concat((neighbour, _DOT)), 0, 2)
    names = (
        *(_dotted(_plain_label(length), labels) for labels, length in _label_limits(253)),
        Concat((before, ace_prefix, left_to_right, _further_labels(neighbour, 2))),
        Concat((ace_prefix, hebrew_labels(), _further_labels(letter_first, 2))),
    )
    return Concat((Start(), Alternate(names), End()))


def _dotted(label: Regular, max_labels: int) -> Regular:
    """Return names of one to ``max_labels`` labels."""
    return Concat((label, _further_labels(label, max_labels - 1)))


def _further_labels(label: Regular, max_labels: int) -> Regular:
    """Return up to ``max_labels`` labels, each after a dot."""
    return Repeat(Concat((_DOT, label)), 0, max_labels)


def _plain_label(max_length: int, first: CodePoints = _LETTER_OR_DIGIT) -> Graph:
    """Return labels of at most ``max_length`` characters that do not begin as A-labels do.

    ``first`` are the characters that they may begin with, "x" and "X" among them.
    """
    builder = GraphBuilder()
    start = prefix = builder.add_state()
    sources: tuple[int, ...] = ()
    for count in range(1, max_length + 1):
        letters = first if count == 1 else _LETTER_OR_DIGIT
        hyphens = EMPTY if count in (1, max_length) else _HYPHEN
        # After ``count`` characters, the last of which is a letter or digit, or a hyphen.
        here, hyphen = builder.add_state(), builder.add_state()
        moves = [(source, letters, hyphens) for source in sources]
        if count <= len(_ACE_PREFIX):
            # Beginnings of the prefix have separate states.
            expected = _ACE_PREFIX[count - 1]
            moves.append((prefix, letters & ~expected, hyphens & ~expected))
            if count < len(_ACE_PREFIX):
                before, prefix = prefix, builder.add_state()
                builder.add_move(before, expected, prefix)
                builder.add_move(before, expected & letters, END)
        for source, letter, dash in moves:
            builder.add_move(source, letter, here)
            builder.add_move(source, letter, END)
            builder.add_move(source, dash, hyphen)
        sources = here, hyphen
    return builder.build(start)


IP_LITERAL = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]"


def local_part(more: str) -> str:
    """Return a pattern of local parts, with the characters ``more``: atoms with dots, or quoted."""
    atom = rf"[A-Za-z0-9!#$%&'*+\-/=?^_`{{|}}~{more}]+"
    return rf'(?:{atom}(?:\.{atom})*|"(?:[ !#-\[\]-~{more}]|\\[ -~])*")'


def email() -> Regular:
    """Return addresses of at most 254 octets, 64 of them in the local part (4.5.3.1).

    A quoted local part has at most 31 characters, as each may have a backslash.
    """
    address = rf"^{local_part('')}@(?:{domain(189)}|{IP_LITERAL})$"
    short = r'^(?:[^"@]{1,64}@|"(?:[^"\\]|\\.){0,31}"@)'
    return Intersection(parse_regex(address), parse_regex(short))


_MAX_LABEL: Final = 7
MAX_ALPHABET_LABEL: Final = 25
# Latin, Greek and Cyrillic: letters so close together that Punycode takes two digits for each.
ALPHABETS: Final = ((0xDF, 0x17F), (0x3AC, 0x3CE), (0x430, 0x45F))
_ASCII = CodePoints.from_ranges([(0, 0x7F)])
_DOTS = CodePoints.from_ranges((ord(c), ord(c)) for c in ".\u3002\uff0e\uff61")
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
_ARABIC_DIGITS = CodePoints.from_ranges([(0x660, 0x669)])
_EXTENDED_DIGITS = CodePoints.from_ranges([(0x6F0, 0x6F9)])
# Section 2.9, old Hangul; and what Unicode says to ignore by default, among letters and marks.
_OTHERWISE_DISALLOWED = CodePoints.from_ranges(
    [
        *((0x1100, 0x11FF), (0xA960, 0xA97C), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB)),
        *((0x034F, 0x034F), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0000, 0xE0FFF)),
    ]
)
# Scripts for which some rules need a neighbour: blocks that contain nothing else.
_GREEK = CodePoints.from_ranges([(0x370, 0x373), (0x376, 0x377), (0x37B, 0x37D), (0x388, 0x3E1)])
_HEBREW = CodePoints.from_ranges([(0x5D0, 0x5EA)])
_JAPANESE = CodePoints.from_ranges(
    [(0x3041, 0x3096), (0x30A1, 0x30FA), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)]
)
# Arabic letters that join to both sides, and to the right (RFC 5892, appendix A.1).
_DUAL_JOINING = CodePoints.from_ranges(
    [
        *((0x620, 0x620), (0x626, 0x626), (0x628, 0x628), (0x62A, 0x62E), (0x633, 0x63F)),
        *((0x641, 0x647), (0x649, 0x64A)),
    ]
)
_RIGHT_JOINING = CodePoints.from_ranges(
    [(0x622, 0x625), (0x627, 0x627), (0x629, 0x629), (0x62F, 0x632), (0x648, 0x648)]
)


def idn_hostname() -> Regular:
    """Return internationalised host names.

    Labels are made of valid characters; then names are excluded that break a rule about neighbours
    or directions. The excluded expressions may be wider than these rules, but never narrower.
    """
    letters = _valid_letters() & ~_composing_letters() | CodePoints.from_ranges(
        (ord(c), ord(c)) for c in _CONTEXTUAL
    )
    label = Alternate((_label(letters, letters), *_long_labels(), parse_regex(ascii_label(63))))
    more = Repeat(_sequence(_DOTS, label), 0, 2)
    # Three labels of 63 and the dots leave 61 of 253 characters.
    last = Repeat(_sequence(_DOTS, parse_regex(ascii_label(61))), 0, 1)
    name = Intersection(
        _sequence(Start(), label, more, last, End()), _invalid_neighbours(), negative=True
    )
    return Intersection(name, _invalid_direction(), negative=True)


def idn_email() -> Regular:
    """Return addresses with characters outside ASCII.

    Their labels hold none of the characters that are valid only beside certain others, and need not
    be in NFC. The local part has at most 64 octets whatever its characters (RFC 5321, 4.5.3.1).
    """
    letters = _valid_letters() & ~_bidi("R", "AL", "AN")
    any_letters = _label(letters & ~_marks(), letters)
    label = Alternate((any_letters, *_long_labels(), parse_regex(ascii_label(63))))
    more = Repeat(_sequence(CodePoints.single("."), label), 0, 1)
    # Two labels of 63, the dots, the local part and "@" leave 61 of 254 octets.
    short_label = Alternate((any_letters, *_long_labels(), parse_regex(ascii_label(61))))
    last = Repeat(_sequence(CodePoints.single("."), short_label), 0, 1)
    hosts = _sequence(label, more, last), parse_regex(domain(189)), parse_regex(IP_LITERAL)
    local = parse_regex(local_part(r"\u{80}-\u{10FFFF}"))
    address = _sequence(Start(), local, CodePoints.single("@"), Alternate(hosts), End())
    # A code point outside ASCII has at most four octets, and an escaped one is of ASCII.
    short = r'^(?:[^"@\u{80}-\u{10FFFF}]{1,64}|[^"@]{1,16}|"(?:[^"\\]|\\[\u{0}-\u{7F}]){0,15}")@'
    # A label with hyphens in the third and fourth place would have to be a valid A-label. A quoted
    # local part may hold an "@" too, but what follows the one before the host has none.
    punycode = "[@.][^@.]{2}--[^@]*$"
    return Intersection(
        Intersection(address, parse_regex(short)), parse_regex(punycode), negative=True
    )


def _label(first: CodePoints, letters: CodePoints) -> Regular:
    """Return labels of up to ``_MAX_LABEL`` letters, with single hyphens between them.

    ``first`` are the characters that they may begin with, ``letters`` all others.
    """
    hyphen = Repeat(Chars(CodePoints.single("-")), 0, 1)
    return _sequence(first, Repeat(_sequence(hyphen, letters), 0, _MAX_LABEL - 1))


def _long_labels() -> Iterator[Regular]:
    """Yield labels of one alphabet and ASCII, with single hyphens between letters or digits."""
    for bounds in ALPHABETS:
        letters = CodePoints.from_ranges([bounds]) & _valid_letters() & ~_composing_letters()
        letters |= CodePoints.from_ranges([(0x30, 0x39), (0x61, 0x7A)])
        builder = GraphBuilder()
        start = letter = hyphen = builder.add_state()
        for count in range(1, MAX_ALPHABET_LABEL + 1):
            sources, letter_before = {letter, hyphen}, letter
            letter, hyphen = builder.add_state(), builder.add_state()
            for source in sources:
                builder.add_move(source, letters, letter)
                builder.add_move(source, letters, END)
            if count > 1:
                builder.add_move(letter_before, CodePoints.single("-"), hyphen)
        yield builder.build(start)


def _invalid_neighbours() -> Regular:
    """Return sequences with misplaced hyphens, or with a neighbour that a character does not allow.

    Each of them may occur anywhere in a name, so one that has to stay inside a label must not read
    dots.
    """
    begin, end = _label_edges()
    inside = ~_DOTS
    hyphen = CodePoints.single("-")
    combining = CodePoints.from_ranges(
        (c, c) for c in _code_points() if unicodedata.combining(chr(c))
    )
    virama = CodePoints.from_ranges(
        (c, c) for c in _code_points() if unicodedata.combining(chr(c)) == 9
    )
    no_japanese = Repeat(Chars(~_JAPANESE & inside), 0, None)
    faults = (
        (begin, inside, inside, hyphen, hyphen),
        (begin, _marks()),
        # Marks may be out of order.
        (combining, combining),
        *_not_after(_JOINER, virama),
        *_not_after(_NON_JOINER, virama | _DUAL_JOINING),
        (_DUAL_JOINING, *_not_before(_NON_JOINER, _DUAL_JOINING | _RIGHT_JOINING)),
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
    """Return the two sequences in which a character does not follow one of ``wanted``."""
    single = CodePoints.single(character)
    return (Start(), single), (~wanted, single)


def _not_before(character: str, wanted: CodePoints) -> _Parts:
    """Return the sequence in which a character does not precede one of ``wanted``."""
    return CodePoints.single(character), Alternate((Chars(~wanted), End()))


def _invalid_direction() -> Regular:
    """Return names with a right-to-left character and a label that breaks RFC 5893, section 2.

    The rules are in the order of the RFC; the fourth makes two entries. The character may be in
    another label than the one that breaks a rule.
    """
    begin, end = _label_edges()
    inside = ~_DOTS
    anything = Repeat(Chars(inside), 0, None)
    marks = Repeat(Chars(_bidi("NSM")), 0, None)
    neutral = ("EN", "ES", "CS", "ET", "ON", "BN", "NSM")
    rtl, ltr = _bidi("R", "AL"), _bidi("L")
    rules = (
        (begin, inside & ~_bidi("L", "R", "AL")),
        (begin, rtl, anything, inside & ~_bidi("R", "AL", "AN", *neutral)),
        (begin, rtl, anything, inside & ~_bidi("R", "AL", "EN", "AN", "NSM"), marks, end),
        (begin, rtl, anything, _bidi("EN"), anything, _bidi("AN")),
        (begin, rtl, anything, _bidi("AN"), anything, _bidi("EN")),
        (begin, ltr, anything, inside & ~_bidi("L", *neutral)),
        (begin, ltr, anything, inside & ~_bidi("L", "EN", "NSM"), marks, end),
    )
    broken = Alternate(tuple(_sequence(*parts) for parts in rules))
    return Intersection(Chars(_bidi("R", "AL", "AN")), broken)


_Parts: TypeAlias = tuple[CodePoints | Regular, ...]


def _sequence(*parts: CodePoints | Regular) -> Regular:
    """Return a concatenation, in which a set of code points stands for one of them."""
    return Concat(tuple(Chars(p) if isinstance(p, CodePoints) else p for p in parts))


def _label_edges() -> tuple[Regular, Regular]:
    """Return expressions of the position before a label and of that after it."""
    return Alternate((Start(), Chars(_DOTS))), Alternate((End(), Chars(_DOTS)))


@functools.cache
def _code_points() -> tuple[int, ...]:
    """Return letters, digits and marks: the categories that RFC 5892, section 2.1, starts from."""
    wanted = {"Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc"}
    return tuple(c for c in _all_code_points() if unicodedata.category(chr(c)) in wanted)


def _all_code_points() -> Iterator[int]:
    return itertools.chain.from_iterable(range(low, high + 1) for low, high in _BLOCKS)


def _marks() -> CodePoints:
    return CodePoints.from_ranges(
        (c, c) for c in _code_points() if unicodedata.category(chr(c)).startswith("M")
    )


@functools.cache
def _valid_letters() -> CodePoints:
    """Return the code points of ``_BLOCKS`` that are PVALID by RFC 5892, without the hyphen.

    They include no capital letters.
    """
    found = (c for c in _code_points() if _is_stable(chr(c)))
    valid = CodePoints.from_ranges((c, c) for c in (*found, *map(ord, _PVALID_EXCEPTIONS)))
    exceptions = CodePoints.from_ranges((ord(c), ord(c)) for c in _DISALLOWED_EXCEPTIONS)
    return valid & ~(_OTHERWISE_DISALLOWED | exceptions)


def _is_stable(character: str) -> bool:
    """Return whether normalising and case folding leave it unchanged (RFC 5892, section 2.2).

    Only for code points of ``_BLOCKS``: its result for others is not checked.
    """
    if character >= "\u4e00":
        return True  # the ideographs and the syllables of ``_BLOCKS``
    folded = unicodedata.normalize("NFKC", character).casefold()
    return unicodedata.normalize("NFKC", folded) == character


def _composing_letters() -> CodePoints:
    """Return the characters that NFC may combine with the one before, and so may not be left as is.

    From U+3100 on nothing decomposes into a second part that is in ``_BLOCKS`` and not already
    found.
    """
    second = {
        int(parts[1], 16)
        for c in range(0xC0, 0x3100)
        if len(parts := unicodedata.decomposition(chr(c)).split()) == 2 and parts[0][0] != "<"
    }
    return CodePoints.from_ranges((c, c) for c in second)


@functools.cache
def _bidi(*classes: str) -> CodePoints:
    """Return the code points of some bidirectional classes (Unicode Standard Annex 9)."""
    by_class = _by_bidirectional_class()
    return CodePoints.from_ranges((c, c) for name in classes for c in by_class.get(name, ()))


@functools.cache
def _by_bidirectional_class() -> Mapping[str, Sequence[int]]:
    by_class: dict[str, list[int]] = {}
    for c in itertools.chain(_all_code_points(), map(ord, ("-", *_CONTEXTUAL))):
        by_class.setdefault(unicodedata.bidirectional(chr(c)), []).append(c)
    return by_class
